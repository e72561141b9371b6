"""A shop behind a real MCP server, and tools on it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.server.subscriptions import ListenHandler
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp_types import Tool as Listed

from tests.mcp_serving import Front, mcp_serving
from tests.unit.tools.shop import tool
from turnstream.core.bindings import McpBinding
from turnstream.core.servers import McpHttpServer, McpServer
from turnstream.tools import Egress
from turnstream.tools.mcp import McpTool
from turnstream.tools.mcp_connection import McpConnection

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "properties": {"order_id": {"type": "string"}},
}
OTHER: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "properties": {"order_id": {"type": "integer"}},
}
RESULT = {"order_id": "A-1", "status": "shipped"}
PATIENCE = 30.0


@dataclass
class Shop:
    """A server whose tools can be changed while it runs."""

    schemas: dict[str, dict[str, Any]] = field(default_factory=lambda: {"get_order": SCHEMA})
    calls: list[CallToolRequestParams] = field(default_factory=list)
    reply: Callable[[], CallToolResult] = lambda: answered(RESULT)
    open: asyncio.Event | None = None
    """What an order `waits` for."""
    listing: asyncio.Event | None = None
    """What its list waits for."""
    sessions: list[Any] = field(default_factory=list)
    heard: ListenHandler | None = None
    """Who says to clients that listen that the tools have changed."""
    announces: bool = False
    """Whether it tells clients with a session that it will say so."""
    page: int = 100
    """How many tools a page of its list has."""

    def server(self) -> Server[Any]:
        """It, as the SDK serves it."""
        listen: dict[str, Any] = {"on_subscriptions_listen": self.heard} if self.heard else {}
        served = Server("shop", on_list_tools=self._listed, on_call_tool=self._called, **listen)
        if self.announces:
            promise = NotificationOptions(tools_changed=True)
            made = partial(served.create_initialization_options, promise)
            served.create_initialization_options = made  # type: ignore[method-assign]
        return served

    async def _listed(self, at: Any, asked: PaginatedRequestParams | None) -> ListToolsResult:
        self.sessions.append(at.session)
        if self.listing is not None:
            await self.listing.wait()
        start = int(asked.cursor) if asked is not None and asked.cursor else 0
        names = list(self.schemas)[start : start + self.page]
        more = start + self.page < len(self.schemas)
        return ListToolsResult(
            tools=[Listed(name=name, input_schema=self.schemas[name]) for name in names],
            next_cursor=str(start + self.page) if more else None,
        )

    async def _called(self, _: Any, asked: CallToolRequestParams) -> CallToolResult:
        if asked.name not in self.schemas:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {asked.name}")
        self.calls.append(asked)
        if self.open is not None and (asked.arguments or {})["order_id"] == "waits":
            await self.open.wait()
        return self.reply()


def answered(result: Any, **changes: Any) -> CallToolResult:
    """A result as structured content."""
    return CallToolResult(content=[], structured_content=result, **changes)


def said(text: str, **changes: Any) -> CallToolResult:
    """A result as text alone."""
    return CallToolResult(content=[TextContent(text=text)], **changes)


@dataclass
class Bench:
    """What a test opens, closed at its end."""

    stack: AsyncExitStack
    shop: Shop

    async def served(self, **how: Any) -> tuple[str, Front]:
        """The shop over HTTP."""
        return await self.stack.enter_async_context(mcp_serving(self.shop.server(), **how))

    def bound(
        self, server: McpServer, *, binding: dict[str, Any] | None = None, **changes: Any
    ) -> McpTool:
        """A tool on it."""
        egress = Egress(["127.0.0.1"])
        connection = McpConnection("shop", server, egress=egress)
        self.stack.push_async_callback(connection.close)
        return McpTool(
            "get_order",
            tool=tool(**{"timeout_seconds": PATIENCE, **changes}),
            binding=McpBinding(server="shop", **(binding or {})),
            connection=connection,
        )

    async def over_http(
        self, *, headers: dict[str, str] | None = None, list_seconds: float = 60, **how: Any
    ) -> tuple[McpTool, Front]:
        """A tool on the shop over HTTP, and what stands before the shop."""
        names = ("effect", "binding", "timeout_seconds")
        changes = {key: how.pop(key) for key in names if key in how}
        url, front = await self.served(**how)
        server = McpHttpServer(
            transport="streamable_http", url=url, headers=headers or {}, list_seconds=list_seconds
        )
        return self.bound(server, **changes), front


WAYS = pytest.mark.parametrize(
    "how",
    [{}, {"sessions": True}, {"stateless": True}],
    ids=["of 2026", "with sessions", "without sessions"],
)
