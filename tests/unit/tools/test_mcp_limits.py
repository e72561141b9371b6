"""What an MCP server may send, how long it may take, and where it may point to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.hostile import EVENTS, Endless, drip, flood, packed
from tests.mcp_serving import mcp_serving
from tests.unit.tools.mcp_shop import PATIENCE, RESULT, WAYS, Bench, Shop, answered
from tests.unit.tools.shop import call
from turnstream.core.servers import McpHttpServer
from turnstream.tools import mcp_exchange

STREAMS = pytest.mark.parametrize("kind", ["application/json", EVENTS])


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A shop that nobody serves yet."""
    async with AsyncExitStack() as stack:
        yield Bench(stack, Shop())


# --- size ---------------------------------------------------------------------------------------


async def test_a_result_is_bounded(bench: Bench) -> None:
    """However it comes; the connection goes on."""
    huge = {**RESULT, "order_id": "A" * 5_000_000}
    for sessions in (False, True):
        subject, _ = await bench.over_http(effect="write", sessions=sessions)
        bench.shop.reply = partial(answered, huge)
        reply = await subject.call(call(order_id="A-1"))
        bench.shop.reply = partial(answered, RESULT)

        assert ("invalid_result", True) == (reply.error_code, reply.outcome_unknown)
        assert RESULT == (await subject.call(call(order_id="A-1"))).result


@WAYS
@STREAMS
async def test_a_flood_is_not_read(bench: Bench, kind: str, how: dict[str, Any]) -> None:
    """Of a hundred megabytes a few are read, then the connection for them is ended."""
    subject, front = await bench.over_http(effect="write", **how)
    await subject.call(call(order_id="A-1"))
    begin = b'"' if kind != EVENTS else b'event: message\ndata: "'
    endless = front.instead["tools/call"] = flood(kind=kind, begin=begin)

    reply = await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        await endless.left.wait()

    assert ("invalid_result", False, True) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert endless.sent < endless.count
    del front.instead["tools/call"]
    assert RESULT == (await subject.call(call(order_id="A-1"))).result


@STREAMS
async def test_a_flood_for_a_list_is_not_read(bench: Bench, kind: str) -> None:
    """Nothing is called by half a list."""
    subject, front = await bench.over_http(effect="write")
    endless = front.instead["tools/list"] = flood(kind=kind, begin=b"")

    reply = await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        await endless.left.wait()

    assert ("unavailable", False) == (reply.error_code, reply.outcome_unknown)
    assert [] == bench.shop.calls


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_a_packed_reply_is_not_unpacked(bench: Bench, method: str) -> None:
    """It was not asked for, and may be large in memory."""
    subject, front = await bench.over_http(effect="write")
    front.replies[method] = (200, {"content-encoding": "gzip"}, packed())

    reply = await subject.call(call(order_id="A-1"))

    called = method == "tools/call"
    assert ("invalid_result" if called else "unavailable") == reply.error_code
    assert called == reply.outcome_unknown
    assert {"identity"} == {one.get("accept-encoding") for one in front.headers}
    assert [] == bench.shop.calls


async def test_a_flood_where_nothing_was_asked_is_not_kept(bench: Bench) -> None:
    """On the stream for what a server says by itself; calls go on beside it."""
    url, front = await bench.served(sessions=True)
    endless = front.instead["GET"] = flood(kind=EVENTS, begin=b"data: ")
    subject = bench.bound(McpHttpServer(transport="streamable_http", url=url))

    async with asyncio.timeout(PATIENCE):
        while not endless.left.is_set():
            assert RESULT == (await subject.call(call(order_id="A-1"))).result

    assert endless.sent < endless.count


# --- time ---------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(("kind", "piece"), [(EVENTS, b": wait\n\n"), ("application/json", b" ")])
async def test_a_reply_that_never_ends(
    bench: Bench, kind: str, piece: bytes, how: dict[str, Any]
) -> None:
    """Is waited for as long as the tool may take, and then read no longer."""
    subject, front = await bench.over_http(effect="write", timeout_seconds=2, **how)
    await subject.call(call(order_id="A-1"))
    endless = front.instead["tools/call"] = drip(kind=kind, piece=piece)

    reply = await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        await endless.left.wait()

    assert ("timeout", True, True) == (reply.error_code, reply.retryable, reply.outcome_unknown)


@WAYS
async def test_a_list_that_is_never_done(bench: Bench, how: dict[str, Any]) -> None:
    """Takes no longer than the call that it is for, which is not made."""
    subject, front = await bench.over_http(effect="write", timeout_seconds=2, **how)
    await subject.call(call(order_id="A-1"))
    endless = front.instead["tools/list"] = drip()

    reply = await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        await endless.left.wait()

    assert ("timeout", False) == (reply.error_code, reply.outcome_unknown)
    assert 1 == len(bench.shop.calls)


async def test_a_reply_that_is_resumed_without_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may hand a reply on from stream to stream; its time is over all the same."""
    monkeypatch.setattr(mcp_exchange, "_REOPEN_SECONDS", 0.01)
    subject, front = await bench.over_http(effect="write", timeout_seconds=2, sessions=True)
    async with asyncio.timeout(PATIENCE):
        while "GET" not in front.methods:
            await subject.call(call(order_id="A-1"))
    begun = b"id: 1\nretry: 0\ndata:\n\n"
    front.instead["tools/call"] = Endless(begun, kind=EVENTS, count=1)
    endless = front.instead["GET"] = drip()

    reply = await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        await endless.left.wait()

    assert ("timeout", True) == (reply.error_code, reply.outcome_unknown)


async def test_a_stream_that_ends_at_once_is_not_asked_for_without_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the server says that there is no need to wait."""
    monkeypatch.setattr(mcp_exchange, "_REOPEN_SECONDS", 3600.0)
    url, front = await bench.served(sessions=True)
    ends = front.instead["GET"] = Endless(b"id: 1\nretry: 0\ndata:\n\n", kind=EVENTS, count=1)
    subject = bench.bound(McpHttpServer(transport="streamable_http", url=url))
    async with asyncio.timeout(PATIENCE):
        while not ends.sent:
            await subject.call(call(order_id="A-1"))
    for _ in range(20):
        await subject.call(call(order_id="A-1"))

    assert 1 == ends.asked


# --- place --------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize("status", [303, 308])
async def test_no_redirect_leads_to_another_server(
    bench: Bench, status: int, method: str, how: dict[str, Any]
) -> None:
    """Also to one that may be spoken to: it would get what was meant for the first."""
    subject, front = await bench.over_http(
        effect="write", headers={"Authorization": "Bearer of-the-first"}, **how
    )
    await subject.call(call(order_id="A-1"))
    other, elsewhere = await bench.stack.enter_async_context(mcp_serving(Shop().server()))
    front.replies[method] = (status, {"location": other}, b"")

    reply = await subject.call(call(order_id="A-1"))

    assert reply.error_code in ("tool_error", "unavailable")
    assert [] == elsewhere.methods
    assert 1 == len(bench.shop.calls)
