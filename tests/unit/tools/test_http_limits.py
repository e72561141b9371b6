"""What a service over HTTP may send, and how long it may take."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.hostile import EVENTS, drip, flood
from tests.mcp_serving import serving
from tests.unit.tools.shop import call, tool
from turnstream.core.bindings import HttpBinding
from turnstream.plain_http import plain_client
from turnstream.tools import Egress, HttpTool

PATIENCE = 30.0


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client as `execute` has it."""
    async with plain_client() as made:
        yield made


def bound(client: httpx.AsyncClient, base: str, *, seconds: float = PATIENCE) -> HttpTool:
    """A write on a service."""
    binding = HttpBinding(kind="http", method="POST", url=f"{base}/orders/{{order_id}}")
    return HttpTool(
        "get_order_status",
        tool=tool(effect="write", timeout_seconds=seconds),
        binding=binding,
        client=client,
        egress=Egress.of_urls([base]),
    )


async def test_a_flood_is_not_read(client: httpx.AsyncClient) -> None:
    """Of a hundred megabytes one is read, then the connection is ended."""
    endless = flood()
    async with serving(endless) as base:
        reply = await bound(client, base).call(call(order_id="A-1001"))
        async with asyncio.timeout(PATIENCE):
            await endless.left.wait()

    assert ("invalid_result", True) == (reply.error_code, reply.outcome_unknown)
    assert endless.sent < endless.count


@pytest.mark.parametrize("kind", ["application/json", EVENTS])
async def test_a_reply_that_never_ends(client: httpx.AsyncClient, kind: str) -> None:
    """Is waited for as long as the tool may take, and then read no longer."""
    endless = drip(kind=kind)
    async with serving(endless) as base:
        reply = await bound(client, base, seconds=1).call(call(order_id="A-1001"))
        async with asyncio.timeout(PATIENCE):
            await endless.left.wait()

    assert ("timeout", True, True) == (reply.error_code, reply.retryable, reply.outcome_unknown)
