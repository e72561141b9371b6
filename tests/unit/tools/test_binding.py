"""From a catalog to bindings: servers are shared, and what is missing is named with its place."""

import importlib
from typing import Any

import pytest

from tests.unit.tools.shop import tool
from turnstream.core.definitions import Catalog
from turnstream.tools import BindingError, bind_tools
from turnstream.tools.a2a import A2AAgent, bind_agents
from turnstream.tools.mcp import McpTool

WEB = {"transport": "streamable_http", "url": "{ERP_URL}/mcp"}
ENVIRONMENT = {"ERP_URL": "http://127.0.0.1:1", "AGENT_URL": "http://127.0.0.1:2"}


def catalog(*, server: dict[str, Any] | None = None, **binding: Any) -> Catalog:
    """Two tools on one server, and a queue with an agent."""
    bound = tool(binding={"kind": "mcp", "server": "erp", **binding})
    document = {
        "entry_agent": "desk",
        "default_queue": "people",
        "agents": {"desk": {"description": "All."}},
        "channels": {"web": {"type": "webchat"}},
        "queues": {
            "people": {
                "description": "All.",
                "text": {"en": "A person will reply."},
                "agent": {"url": "{AGENT_URL}", "skill": "take_over"},
            },
            "others": {"description": "Rest.", "text": {"en": "A person will reply."}},
        },
        "servers": {"erp": server or WEB, "unused": {**WEB, "url": "{NOT_SET}/mcp"}},
        "tools": {"get_order": bound, "get_invoice": bound},
    }
    return Catalog.model_validate(document)


def test_tools_of_a_server_share_its_connection() -> None:
    """And a server that no tool is on needs no address."""
    bound = bind_tools(catalog(), environment=ENVIRONMENT)
    kinds = {type(one) for one in bound.values()}
    connections = {id(one._connection) for one in bound.values() if isinstance(one, McpTool)}

    assert {McpTool} == kinds
    assert 1 == len(connections)


def test_agents_are_bound_by_queue() -> None:
    """Queues without one have none."""
    bound = bind_agents(catalog(), environment=ENVIRONMENT)

    assert ["people"] == list(bound)
    assert isinstance(bound["people"], A2AAgent)


def test_an_address_that_is_not_set_is_named_with_its_place() -> None:
    """Of servers and of agents."""
    with pytest.raises(BindingError, match=r"servers\.erp: .*ERP_URL"):
        bind_tools(catalog(), environment={})
    with pytest.raises(BindingError, match=r"queues\.people\.agent: .*AGENT_URL"):
        bind_agents(catalog(), environment={})


def test_hosts_must_be_allowed() -> None:
    """By the one list of the executor."""
    allowed = ["erp.test"]
    with pytest.raises(BindingError, match=r"servers\.erp\.url: .*127\.0\.0\.1:1"):
        bind_tools(catalog(), environment=ENVIRONMENT, egress_allow=allowed)
    with pytest.raises(BindingError, match=r"queues\.people\.agent\.url: .*127\.0\.0\.1:2"):
        bind_agents(catalog(), environment=ENVIRONMENT, egress_allow=allowed)


def test_a_library_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a catalog with such a tool needs it."""
    found = importlib.import_module

    def absent(name: str, package: str | None = None) -> Any:
        if name.startswith("turnstream.tools.mcp"):
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", absent)

    with pytest.raises(BindingError, match=r"mcp is not installed; install turnstream\[mcp\]"):
        bind_tools(catalog(), environment=ENVIRONMENT)
    plain = catalog().model_copy(update={"tools": {}})
    assert {} == bind_tools(plain, environment=ENVIRONMENT)
