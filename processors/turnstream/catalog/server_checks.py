"""What must be true of MCP servers, of the tools on them, and of the agents of queues."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from turnstream.catalog.located_checks import (
    HEADER_NAME,
    Place,
    Problem,
    url_problems,
    value_problems,
)
from turnstream.catalog.schemas import UnusableSchema, validator
from turnstream.core.base_urls import BASE_URL_VARIABLE, HTTP_BASE
from turnstream.core.bindings import HttpBinding, McpBinding
from turnstream.core.definitions import Catalog
from turnstream.core.dialects import MCP
from turnstream.core.schema_tree import Schema
from turnstream.core.servers import McpStdioServer

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def server_problems(catalog: Catalog) -> Iterator[Problem]:
    """Everything that is wrong with the servers and agents of a catalog."""
    agents = {queue.agent.url for queue in catalog.queues.values() if queue.agent is not None}
    for name, server in catalog.servers.items():
        place: Place = ("servers", name)
        if isinstance(server, McpStdioServer):
            yield from _process(place, server)
        elif server.url in agents:
            yield (*place, "url"), _AN_AGENT
        else:
            yield from _located(place, server.url, server.headers)
    for name, queue in catalog.queues.items():
        if queue.agent is not None:
            here: Place = ("queues", name, "agent")
            yield from _located(here, queue.agent.url, queue.agent.headers)
            if queue.agent.input_schema is not None:
                yield from _schema((*here, "input_schema"), queue.agent.input_schema)
    for name, tool in catalog.tools.items():
        if isinstance(tool.binding, HttpBinding) and tool.binding.url in agents:
            yield ("tools", name, "binding", "url"), _AN_AGENT


_AN_AGENT: Final = (
    "this is the agent of a queue: it is told of handoffs and never called as a tool; give the "
    "URL of a service"
)


def mcp_problems(
    place: Place, catalog: Catalog, name: str, binding: McpBinding
) -> Iterator[Problem]:
    """What is wrong with the binding of a tool to a server."""
    if binding.server not in catalog.servers:
        known = ", ".join(sorted(catalog.servers)) or "none is defined"
        message = f"expected one of servers ({known}), got {binding.server!r}"
        if binding.server in catalog.queues:
            message += "; an agent of a queue is never called as a tool"
        yield (*place, "server"), message
    for key, remote in (
        ((*place, "tool"), binding.tool or name),
        ((*place, "reconcile", "tool"), binding.reconcile and binding.reconcile.tool),
    ):
        if remote and not MCP.tool_name.fullmatch(remote):
            yield key, f"the name of a tool on a server is {MCP.name_rule}"


def _schema(place: Place, schema: Schema) -> Iterator[Problem]:
    try:
        validator(schema)
    except UnusableSchema as error:
        yield (*place, *error.path), str(error)


def _process(place: Place, server: McpStdioServer) -> Iterator[Problem]:
    for name in server.env:
        if not _VARIABLE.fullmatch(name):
            yield (*place, "env", name), "expected the name of an environment variable"
    yield from value_problems((*place, "env"), server.env)
    for index, text in enumerate((server.command, *server.args)):
        if "\0" in text:
            where = ("command",) if index == 0 else ("args", index - 1)
            yield (*place, *where), "expected no NUL character"


def _located(place: Place, url: str, headers: Mapping[str, str]) -> Iterator[Problem]:
    here = (*place, "url")
    found = BASE_URL_VARIABLE.match(url)
    rest = url.removeprefix(found.group()) if found else url
    if found is None and not HTTP_BASE.match(url):
        yield here, "expected http(s):// and a host without credentials, or {VARIABLE}"
    elif "{" in rest or "}" in rest or (found and rest and not rest.startswith("/")):
        yield here, "expected {VARIABLE} at the start only and a path after it"
    else:
        yield from url_problems(here, rest)
    for name in headers:
        if not HEADER_NAME.fullmatch(name):
            yield (*place, "headers", name), "expected the name of an HTTP header"
    yield from value_problems((*place, "headers"), headers)
