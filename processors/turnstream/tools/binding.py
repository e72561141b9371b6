"""From the catalog's tools to bindings that can be called."""

import importlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, assert_never, cast

from turnstream.core.bindings import FunctionBinding, HttpBinding, McpBinding
from turnstream.core.definitions import Catalog, Tool
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import ToolBinding
from turnstream.core.servers import McpHttpServer, McpServer
from turnstream.plain_http import plain_client
from turnstream.tools.egress import Egress
from turnstream.tools.errors import BindingError
from turnstream.tools.function import FunctionTool
from turnstream.tools.http import HttpTool

if TYPE_CHECKING:
    from types import ModuleType

    from turnstream.tools.mcp import McpTool
    from turnstream.tools.mcp_connection import McpConnection

L = TypeVar("L", bound="Located")


class Located(Protocol):
    """Something of a catalog whose URL may begin with a variable."""

    def with_variables(self, environment: Mapping[str, str]) -> Self:
        """The same with its base URLs filled in."""
        ...


def bind_tools(
    catalog: Catalog,
    *,
    environment: Mapping[str, str],
    egress_allow: Collection[str] | None = None,
) -> Mapping[str, ToolBinding]:
    """Bind every tool of a catalog.

    Args:
        catalog: the catalog.
        environment: the variables that base URLs may refer to.
        egress_allow: hosts that tools may reach (see :class:`Egress`); exactly the hosts of the
            catalog's bindings and of its servers in use when None.

    Raises:
        BindingError: a base URL is not set, a host is not allowed, a function cannot be imported,
            an optional package is not installed.
    """
    web: dict[str, HttpBinding] = {}
    servers: dict[str, McpServer] = {}
    for name, tool in catalog.tools.items():
        if isinstance(tool.binding, HttpBinding):
            web[name] = located(f"tools.{name}.binding", tool.binding, environment)
        elif isinstance(tool.binding, McpBinding):
            server = catalog.servers[tool.binding.server]
            if isinstance(server, McpHttpServer):
                server = located(f"servers.{tool.binding.server}", server, environment)
            servers[tool.binding.server] = server
    egress = Egress.of_urls(_urls(web, servers)) if egress_allow is None else Egress(egress_allow)
    client = plain_client()
    connections = {name: _connection(name, server, egress) for name, server in servers.items()}
    bindings: dict[str, ToolBinding] = {}
    for name, tool in catalog.tools.items():
        match tool.binding:
            case FunctionBinding() as binding:
                bindings[name] = FunctionTool(name, tool=tool, binding=binding)
            case HttpBinding():
                try:
                    bindings[name] = HttpTool(
                        name, tool=tool, binding=web[name], client=client, egress=egress
                    )
                except BindingError as error:
                    raise BindingError(f"tools.{name}.binding.url: {error}") from error
            case McpBinding() as binding:
                bindings[name] = _mcp_tool(name, tool, binding, connections[binding.server])
            case _:
                assert_never(tool.binding)
    return bindings


def located(place: str, what: L, environment: Mapping[str, str]) -> L:
    """A part of a catalog with its base URLs filled in.

    Raises:
        BindingError: a variable is not set, or does not hold an http(s) URL.
    """
    try:
        return what.with_variables(environment)
    except DefinitionError as error:
        raise BindingError(f"{place}: {error}") from error


def optional(module: str, *, extra: str, place: str) -> "ModuleType":
    """A module that needs packages of an extra.

    Raises:
        BindingError: they are not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BindingError(
            f"{place}: {error.name} is not installed; install turnstream[{extra}]"
        ) from error


def _urls(web: Mapping[str, HttpBinding], servers: Mapping[str, McpServer]) -> Iterator[str]:
    for binding in web.values():
        yield binding.url
        if binding.reconcile is not None:
            yield binding.reconcile.url
    for server in servers.values():
        if isinstance(server, McpHttpServer):
            yield server.url


def _connection(name: str, server: McpServer, egress: Egress) -> "McpConnection":
    place = f"servers.{name}"
    module = optional("turnstream.tools.mcp_connection", extra="mcp", place=place)
    try:
        return cast("McpConnection", module.McpConnection(name, server, egress=egress))
    except BindingError as error:
        raise BindingError(f"{place}.url: {error}") from error


def _mcp_tool(name: str, tool: Tool, binding: McpBinding, connection: "McpConnection") -> "McpTool":
    module = optional("turnstream.tools.mcp", extra="mcp", place=f"tools.{name}.binding")
    made = module.McpTool(name, tool=tool, binding=binding, connection=connection)
    return cast("McpTool", made)
