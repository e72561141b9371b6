"""Calls to tools of real MCP servers: their sessions, and what goes wrong."""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_serving import mcp_serving
from tests.unit.tools.mcp_shop import (
    PATIENCE,
    RESULT,
    SCHEMA,
    WAYS,
    Bench,
    Shop,
    answered,
    said,
)
from tests.unit.tools.shop import call
from turnstream.core.servers import McpHttpServer, McpStdioServer
from turnstream.tools import BindingError, Egress
from turnstream.tools.mcp_connection import McpConnection


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A shop that nobody serves yet."""
    async with AsyncExitStack() as stack:
        yield Bench(stack, Shop())


@WAYS
async def test_a_call_reaches_the_tool(bench: Bench, how: dict[str, Any]) -> None:
    """With its arguments, and key and trace in the metadata of the request."""
    subject, front = await bench.over_http(**how)
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"

    reply = await subject.call(replace(call(order_id="A-1"), traceparent=trace))

    assert RESULT == reply.result
    (asked,) = bench.shop.calls
    meta: dict[str, Any] = dict(asked.meta or {})
    assert {"order_id": "A-1"} == asked.arguments
    assert ("action-1", trace) == (meta["turnstream/idempotency_key"], meta["traceparent"])
    assert hashlib.sha256(b'{"order_id":"A-1"}').hexdigest() == reply.body_hash
    had = {"mcp-session-id" in one for one in front.headers[front.methods.index("tools/call") :]}
    assert {bool(how.get("sessions"))} == had


async def test_a_tool_may_have_another_name_there(bench: Bench) -> None:
    """The binding says which."""
    bench.shop.schemas = {"orders.get": SCHEMA}
    subject, _ = await bench.over_http(binding={"tool": "orders.get"})

    assert RESULT == (await subject.call(call(order_id="A-1"))).result


async def test_a_restarted_server_is_greeted_anew(bench: Bench) -> None:
    """It does not know the session: that call was not carried out, and goes on within itself."""
    async with mcp_serving(bench.shop.server(), sessions=True) as (url, _):
        server = McpHttpServer(transport="streamable_http", url=url)
        subject = bench.bound(server, effect="write")
        await subject.call(call(order_id="A-1"))
    port = int(url.split(":")[2].split("/")[0])
    await bench.served(sessions=True, port=port)

    reply = await subject.call(call(order_id="A-1"))

    assert RESULT == reply.result
    assert 2 == len(bench.shop.calls)


async def test_nobody_there(bench: Bench) -> None:
    """Nothing was sent, so nothing is unknown; and the next call may succeed."""
    async with mcp_serving(bench.shop.server()) as (url, _):
        pass
    server = McpHttpServer(transport="streamable_http", url=url)
    subject = bench.bound(server, effect="write")

    reply = await subject.call(call(order_id="A-1"))

    assert ("unavailable", True, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )


@pytest.mark.parametrize(
    ("status", "headers", "code", "retryable", "unknown"),
    [
        (503, {"retry-after": "2"}, "unavailable", True, True),
        (503, {}, "unavailable", True, True),
        (429, {}, "unavailable", True, False),
        (500, {}, "unavailable", True, True),
        (403, {}, "tool_error", False, False),
        (307, {"location": "http://127.0.0.2:1/mcp"}, "tool_error", False, False),
        (303, {"location": "http://127.0.0.2:1/mcp"}, "tool_error", False, True),
        (200, {"content-encoding": "gzip"}, "invalid_result", False, True),
        (200, {"content-type": "text/plain"}, "unavailable", True, True),
    ],
)
async def test_what_a_status_means_for_a_write(  # noqa: PLR0917 - pytest passes by name
    bench: Bench, status: int, headers: dict[str, str], code: str, retryable: bool, unknown: bool
) -> None:
    """As over plain HTTP; and no redirect is followed to another host."""
    subject, front = await bench.over_http(effect="write")
    await subject.call(call(order_id="A-1"))
    front.replies["tools/call"] = (status, headers, b"{}")

    reply = await subject.call(call(order_id="A-1"))

    assert (code, retryable, unknown) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert 1 == len(bench.shop.calls)

    del front.replies["tools/call"]
    assert RESULT == (await subject.call(call(order_id="A-1"))).result


async def test_a_text_may_be_the_result(bench: Bench) -> None:
    """Of servers without structured content; what the schema does not declare is left out."""
    bench.shop.reply = lambda: said(json.dumps({**RESULT, "note": "internal"}))
    subject, _ = await bench.over_http()

    assert RESULT == (await subject.call(call(order_id="A-1"))).result


@pytest.mark.parametrize("refused", [False, True])
async def test_a_number_that_nobody_can_hold_is_a_bad_reply_of_a_made_call(
    bench: Bench, refused: bool
) -> None:
    """The SDK lets it through; the call ends like any whose outcome is not known."""
    bench.shop.reply = lambda: answered({**RESULT, "order_id": 2**70}, is_error=refused)
    subject, _ = await bench.over_http(effect="write")

    reply = await subject.call(call(order_id="A-1"))

    code = "tool_error" if refused else "invalid_result"
    assert (code, True) == (reply.error_code, reply.outcome_unknown)


async def test_a_long_number_beside_the_result_does_no_harm(bench: Bench) -> None:
    """What the schema does not declare goes no further, and neither does its size."""
    bench.shop.reply = lambda: answered({**RESULT, "trace": 2**70})
    subject, _ = await bench.over_http(effect="write")

    assert RESULT == (await subject.call(call(order_id="A-1"))).result


@WAYS
async def test_a_call_that_breaks_leaves_the_others_alone(
    bench: Bench, how: dict[str, Any]
) -> None:
    """They share a connection, and nothing else."""
    bench.shop.open = asyncio.Event()
    subject, _ = await bench.over_http(effect="write", **how)
    waiting = asyncio.create_task(subject.call(call(order_id="waits")))
    async with asyncio.timeout(PATIENCE):
        while not bench.shop.calls:  # noqa: ASYNC110 - the other side is no coroutine of ours
            await asyncio.sleep(0.005)

    broken = await subject.call(call(order_id="broken"))
    bench.shop.open.set()

    assert ("unavailable", True) == (broken.error_code, broken.outcome_unknown)
    assert RESULT == (await waiting).result


async def test_a_server_says_what_it_used(bench: Bench) -> None:
    """In the metadata of its reply; what is no hash is not taken for one."""
    subject, _ = await bench.over_http()
    used = []
    for told in ("a" * 64, "A-1"):
        reply = answered(RESULT, _meta={"turnstream/used_sha256": told})
        bench.shop.reply = partial(copy, reply)
        used.append((await subject.call(call(order_id="A-1"))).used_hash)

    assert ["a" * 64, None] == used


async def test_secrets_are_read_at_each_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotated one is picked up; without one nothing is sent."""
    monkeypatch.setenv("SHOP_KEY", "first")
    subject, front = await bench.over_http(headers={"Authorization": "env:SHOP_KEY"})
    await subject.call(call(order_id="A-1"))
    monkeypatch.setenv("SHOP_KEY", "second")
    await subject.call(call(order_id="A-1"))
    monkeypatch.delenv("SHOP_KEY")
    reply = await subject.call(call(order_id="A-1"))

    sent = [
        one.get("authorization")
        for one, method in zip(front.headers, front.methods, strict=True)
        if method == "tools/call"
    ]
    assert ["first", "second"] == sent
    assert "misconfigured" == reply.error_code
    assert "SHOP_KEY" in reply.error_message


def test_a_host_that_is_not_allowed_is_refused_at_the_start() -> None:
    """Before anything is opened."""
    server = McpHttpServer(transport="streamable_http", url="http://mcp.test/mcp")

    with pytest.raises(BindingError, match=r"mcp\.test"):
        McpConnection("shop", server, egress=Egress(["127.0.0.1"]))


# --- over pipes ---------------------------------------------------------------------------------


def piped(folder: Path, **env: str) -> McpStdioServer:
    """A server that is a process, with its calls in a file."""
    return McpStdioServer(
        transport="stdio",
        command=sys.executable,
        args=("-m", "tests.mcp_process", "stdio", str(folder)),
        env={"PYTHONPATH": ":".join(path for path in sys.path if path), **env},
    )


async def test_a_server_may_be_a_process_of_ours(bench: Bench, tmp_path: Path) -> None:
    """Started with the first call, ended at the close; its secrets are its own."""
    subject = bench.bound(piped(tmp_path), effect="write")

    replies = [await subject.call(call(order_id=one)) for one in ("A-1", "A-2")]
    await subject.close()

    assert ["A-1", "A-2"] == [one.result["order_id"] for one in replies if one.result]
    assert hashlib.sha256(b'{"order_id":"A-1"}').hexdigest() == replies[0].body_hash
    assert 2 == len((tmp_path / "calls").read_text().splitlines())


async def test_a_process_that_dies_in_a_call_leaves_its_outcome_open(
    bench: Bench, tmp_path: Path
) -> None:
    """It may have done it; the next call starts another."""
    subject = bench.bound(piped(tmp_path), effect="write")

    died = await subject.call(call(order_id="die"))
    again = await subject.call(call(order_id="A-1"))

    assert ("unavailable", True, True) == (died.error_code, died.retryable, died.outcome_unknown)
    assert again.result is not None


async def test_a_message_of_a_process_is_bounded(bench: Bench, tmp_path: Path) -> None:
    """What goes on beyond the bound is not kept, and nobody knows what it would have said."""
    subject = bench.bound(piped(tmp_path), effect="write")

    endless = await subject.call(call(order_id="endless"))
    after = await subject.call(call(order_id="A-é"))

    assert ("unavailable", True) == (endless.error_code, endless.outcome_unknown)
    assert {"order_id": "A-é", "status": "shipped"} == after.result


async def test_a_process_that_cannot_be_started(bench: Bench) -> None:
    """Nothing was called."""
    server = McpStdioServer(transport="stdio", command="no-such-program")
    subject = bench.bound(server, effect="write")

    reply = await subject.call(call(order_id="A-1"))

    assert ("unavailable", False) == (reply.error_code, reply.outcome_unknown)


async def test_a_secret_of_a_process_that_is_missing(bench: Bench, tmp_path: Path) -> None:
    """Says which, and calls nothing."""
    subject = bench.bound(piped(tmp_path, SHOP_KEY="env:NOT_SET_ANYWHERE"))

    reply = await subject.call(call(order_id="A-1"))

    assert "misconfigured" == reply.error_code
    assert "NOT_SET_ANYWHERE" in reply.error_message
