"""Tests of turnstream.core.servers and of bindings to servers."""

import pytest
from pydantic import TypeAdapter, ValidationError

from turnstream.core.bindings import Binding, McpBinding
from turnstream.core.errors import DefinitionError
from turnstream.core.servers import McpHttpServer, McpServer, McpStdioServer, RemoteAgent

_SERVER: TypeAdapter[McpServer] = TypeAdapter(McpServer)
_BINDING: TypeAdapter[object] = TypeAdapter(Binding)


def test_a_server_is_one_over_http_or_a_process() -> None:
    """It says which, and nothing else is one."""
    web = _SERVER.validate_python({"transport": "streamable_http", "url": "{ERP_URL}/mcp"})
    piped = _SERVER.validate_python({"transport": "stdio", "command": "erp", "args": ["-q"]})

    assert isinstance(web, McpHttpServer)
    assert isinstance(piped, McpStdioServer)
    with pytest.raises(ValidationError):
        _SERVER.validate_python({"transport": "sse", "url": "http://127.0.0.1:1"})


def test_base_urls_come_from_the_environment() -> None:
    """Of servers and agents as of bindings."""
    web = McpHttpServer(transport="streamable_http", url="{ERP_URL}/mcp")
    agent = RemoteAgent(url="http://127.0.0.1:1", skill="take_over")

    assert ("ERP_URL", None) == (web.variable, agent.variable)
    assert "http://127.0.0.1:8/mcp" == web.with_variables({"ERP_URL": "http://127.0.0.1:8/"}).url
    assert agent == agent.with_variables({})
    with pytest.raises(DefinitionError, match="ERP_URL"):
        web.with_variables({})


def test_a_binding_may_be_to_a_tool_of_a_server() -> None:
    """And an agent is none."""
    binding = _BINDING.validate_python({"kind": "mcp", "server": "erp"})

    assert McpBinding(server="erp") == binding == _BINDING.validate_python(binding)
    with pytest.raises(ValidationError, match="an agent is never called as a tool"):
        _BINDING.validate_python({"kind": "a2a", "url": "http://127.0.0.1:1"})


@pytest.mark.parametrize("key", ["turnstream/subject", "com.example.shop/customer-id", "x"])
def test_the_customer_may_be_named_in_the_metadata(key: str) -> None:
    """Under a key that MCP allows."""
    assert key == McpBinding(server="erp", subject_meta=key).subject_meta


@pytest.mark.parametrize("key", ["", "a/", "/b", "a b", "-x"])
def test_other_keys_are_refused(key: str) -> None:
    """They would be at each call."""
    with pytest.raises(ValidationError):
        McpBinding(server="erp", subject_meta=key)
