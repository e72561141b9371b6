"""An MCP server as a process: ``python -m tests.mcp_process stdio FOLDER``.

Over HTTP it is ``http FOLDER PORT``, or ``stateless FOLDER PORT`` without sessions.

It refunds orders and writes each into ``FOLDER/calls``, the key first. A file ``FOLDER/schema``
holds the input schema that it lists, ``FOLDER/hang`` makes a call hang after it was carried out.
``FOLDER/pid`` tells which process it is.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "properties": {"order_id": {"type": "string"}},
}


def refunding(folder: Path) -> Server[Any]:
    """The server."""
    calls = folder / "calls"

    async def listed(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        given = folder / "schema"
        schema = json.loads(given.read_text()) if given.exists() else SCHEMA
        keyed = {"type": "object", "properties": {"idempotency_key": {"type": "string"}}}
        return ListToolsResult(
            tools=[Tool(name=name, input_schema=schema) for name in ("get_order", "refund")]
            + [Tool(name="refund_by_key", input_schema=keyed)]
        )

    async def called(_: Any, asked: CallToolRequestParams) -> CallToolResult:
        arguments = asked.arguments or {}
        if asked.name == "refund_by_key":
            for line in calls.read_text().splitlines() if calls.exists() else ():
                key, order_id, *_rest = line.split(" ")
                if key == arguments["idempotency_key"]:
                    return result({"order_id": order_id, "status": "shipped"})
            return refusal("not_found")
        order_id = str(arguments["order_id"])
        meta: dict[str, Any] = dict(asked.meta or {})
        with calls.open("a") as lines:
            key, trace = meta["turnstream/idempotency_key"], meta.get("traceparent", "-")
            lines.write(f"{key} {order_id} {trace}\n")
        if order_id == "die":
            os._exit(1)
        if order_id == "endless":
            return result({"order_id": "A" * 5_000_000, "status": "shipped"})
        while (folder / "hang").exists():  # noqa: ASYNC110 - a file has no event
            await anyio.sleep(0.02)
        return result({"order_id": order_id, "status": "shipped"})

    return Server("refunds", on_list_tools=listed, on_call_tool=called)


def result(content: dict[str, Any]) -> CallToolResult:
    """A result."""
    return CallToolResult(content=[], structured_content=content)


def refusal(code: str) -> CallToolResult:
    """An error with a code."""
    text = json.dumps({"error": {"code": code}})
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


async def _piped(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve until told to stop."""
    way, folder, *rest = sys.argv[1:]
    (Path(folder) / "pid").write_text(str(os.getpid()))
    server = refunding(Path(folder))
    if way == "stdio":
        anyio.run(_piped, server)
        return
    app = server.streamable_http_app(stateless_http=way == "stateless")
    uvicorn.run(app, port=int(rest[0]), log_level="critical", timeout_graceful_shutdown=0)


if __name__ == "__main__":
    main()
