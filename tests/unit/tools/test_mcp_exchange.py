"""What leaves for an MCP server says the same to every reader."""

import asyncio

import httpx2
import pytest

from tests.unit.tools.shop import http_reply, service
from turnstream.tools import Egress
from turnstream.tools.mcp_exchange import CURRENT, Exchange, GuardedTransport


@pytest.mark.parametrize("watched", [True, False])
async def test_what_can_be_read_in_two_ways_stays_here(watched: bool) -> None:
    """Whoever sends it: a call, a question about one, or the connection by itself."""
    bodies = [b'{"id":1,"method":"tools/list","method":"tools/call"}', b"[]", b"5", b"{", b"\xff"]
    async with service(lambda _: http_reply(b"{}")) as (base, seen):
        until = asyncio.get_running_loop().time() + 60
        exchange = Exchange(lambda _: None, until=until) if watched else None
        token = CURRENT.set(exchange)
        transport = GuardedTransport(
            egress=Egress.of_urls([base]), headers={}, stands=lambda: lambda: None
        )
        replies = [
            await transport.handle_async_request(httpx2.Request("POST", base, content=body))
            for body in bodies
        ]
        readable = httpx2.Request("POST", base, content=b'{"id":1,"method":"tools/list"}')
        replies.append(await transport.handle_async_request(readable))
        await replies[-1].aclose()
        await transport.aclose()
        CURRENT.reset(token)

    assert [502] * len(bodies) + [200] == [reply.status_code for reply in replies]
    assert 1 == len(seen)
    assert exchange is None or not exchange.sent
