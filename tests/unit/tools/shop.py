"""A scripted HTTP service and definitions for the tests of tools."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from turnstream.core.definitions import Tool
from turnstream.core.ports import ToolCall

RESULT_SCHEMA = {
    "type": "object",
    "required": ["order_id", "status"],
    "properties": {
        "order_id": {"type": "string"},
        "status": {"enum": ["shipped", "delivered"]},
    },
}


def tool(**changes: Any) -> Tool:
    """A read tool over HTTP, with changes."""
    definition = {
        "description": "Tells where an order is.",
        "input_schema": {
            "type": "object",
            "required": ["order_id"],
            "properties": {"order_id": {"type": "string"}},
        },
        "result_schema": RESULT_SCHEMA,
        "effect": "read",
        "timeout_seconds": 5.0,
        "errors": {"order_not_found": {"description": "There is no such order."}},
        "binding": {"kind": "http", "method": "GET", "url": "http://shop.test/orders/{order_id}"},
    }
    return Tool.model_validate(definition | changes)


def call(**arguments: Any) -> ToolCall:
    """A call with the given arguments."""
    return ToolCall(
        tool="get_order_status",
        arguments=arguments,
        idempotency_key="action-1",
        subject_id="customer-7",
        conversation_id="c-1",
    )


def http_reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A complete HTTP/1.1 reply."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def service(reply: Callable[[bytes], bytes | None]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A service on a free port that answers each request head with what `reply` gives.

    None keeps the connection open and silent. Yields the base URL and the requests seen.
    """
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            length = [
                int(line.split(b":")[1])
                for line in request.lower().splitlines()
                if line.startswith(b"content-length:")
            ]
            request += await reader.readexactly(length[0] if length else 0)
            seen.append(request)
            answer = reply(request)
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", seen
