"""The lists of tools of MCP servers: when they are read, and what a changed one prevents."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import HEADER_MISMATCH

from tests.mcp_serving import Front, mcp_serving
from tests.unit.tools.mcp_shop import (
    OTHER,
    PATIENCE,
    RESULT,
    SCHEMA,
    WAYS,
    Bench,
    Shop,
    said,
)
from tests.unit.tools.shop import call
from turnstream.core.servers import McpHttpServer
from turnstream.tools import mcp_connection
from turnstream.tools.mcp import McpTool
from turnstream.tools.mcp_connection import Live, Unreachable


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A shop that nobody serves yet."""
    async with AsyncExitStack() as stack:
        yield Bench(stack, Shop())


async def test_the_list_is_read_once(bench: Bench) -> None:
    """Not before each call, while it is believed."""
    subject, front = await bench.over_http()

    for _ in range(3):
        await subject.call(call(order_id="A-1"))

    assert (3, 1) == (len(bench.shop.calls), front.methods.count("tools/list"))


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("schemas", [{"get_order": OTHER}, {}], ids=["another form", "gone"])
async def test_nothing_is_called_in_a_wrong_form(
    bench: Bench, schemas: dict[str, Any], effect: str
) -> None:
    """Said before the call, and that it will not be otherwise the next time."""
    bench.shop.schemas = schemas
    subject, _ = await bench.over_http(effect=effect)

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", False, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert [] == bench.shop.calls
    assert schemas == {} or "/properties/order_id/type" in reply.error_message


async def test_an_old_list_is_read_again(bench: Bench) -> None:
    """A server without sessions tells nobody that it has changed."""
    subject, _ = await bench.over_http(stateless=True, list_seconds=0.001)
    await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}
    await asyncio.sleep(0.01)

    assert "schema_changed" == (await subject.call(call(order_id="A-1"))).error_code
    assert 1 == len(bench.shop.calls)


async def test_a_server_may_say_that_its_tools_have_changed(bench: Bench) -> None:
    """Then the list is read again before the next call."""
    subject, front = await bench.over_http(sessions=True)
    await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}

    async with asyncio.timeout(PATIENCE):
        while (await subject.call(call(order_id="A-1"))).error_code != "schema_changed":
            await bench.shop.sessions[0].send_tool_list_changed()
            await asyncio.sleep(0.01)

    assert 2 == front.methods.count("tools/list")


async def test_an_unknown_tool_has_the_list_read_again(bench: Bench) -> None:
    """It was there when the list was read."""
    subject, front = await bench.over_http(effect="write")
    await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {}

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", False) == (reply.error_code, reply.outcome_unknown)
    assert (1, 2) == (len(bench.shop.calls), front.methods.count("tools/list"))


async def test_headers_by_an_old_list_are_mended(bench: Bench) -> None:
    """The server called nothing; the list is read again, and the next attempt has new ones."""
    subject, front = await bench.over_http(effect="write")
    await subject.call(call(order_id="A-1"))
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": HEADER_MISMATCH, "message": "no"}}
    front.replies["tools/call"] = (400, {}, json.dumps(body).encode())

    reply = await subject.call(call(order_id="A-1"))

    assert ("unavailable", True, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert 3 == front.methods.count("tools/list")  # before each write, and for this


# --- before a write -----------------------------------------------------------------------------


@WAYS
async def test_a_write_is_called_by_a_list_read_for_it(bench: Bench, how: dict[str, Any]) -> None:
    """Of servers that would not say that their tools changed, however long a list is believed."""
    subject, front = await bench.over_http(effect="write", list_seconds=3600, **how)
    await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", False, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert (1, 2) == (len(bench.shop.calls), front.methods.count("tools/list"))


async def test_writes_at_once_read_one_list(bench: Bench) -> None:
    """The one that was asked for first and those after it, whose list is as new as they need."""
    subject, front = await bench.over_http(effect="write")
    await subject.call(call(order_id="A-1"))
    bench.shop.listing = asyncio.Event()
    before = front.methods.count("tools/list")

    calls = [asyncio.create_task(subject.call(call(order_id="A-1"))) for _ in range(20)]
    async with asyncio.timeout(PATIENCE):
        while front.methods.count("tools/list") == before:  # noqa: ASYNC110 - of the other side
            await asyncio.sleep(0.005)
    bench.shop.listing.set()
    replies = await asyncio.gather(*calls)

    assert [RESULT] * 20 == [one.result for one in replies]
    assert front.methods.count("tools/list") - before <= 2


async def believed(subject: McpTool, front: Front, listed: Callable[[], int]) -> None:
    """Wait until a write reads no list."""
    async with asyncio.timeout(PATIENCE):
        while True:
            before = listed()
            assert RESULT == (await subject.call(call(order_id="A-1"))).result
            if listed() == before:
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("sessions", [False, True], ids=["asked to", "with sessions"])
async def test_a_server_that_says_when_it_changes_is_believed(bench: Bench, sessions: bool) -> None:
    """As long as the stream is there on which it would say so."""
    bus = InMemorySubscriptionBus()
    bench.shop.heard, bench.shop.announces = ListenHandler(bus), True
    subject, front = await bench.over_http(effect="write", list_seconds=3600, sessions=sessions)

    def listed() -> int:
        return front.methods.count("tools/list")

    await believed(subject, front, listed)
    bench.shop.schemas = {"get_order": OTHER}
    async with asyncio.timeout(PATIENCE):
        while (await subject.call(call(order_id="A-1"))).error_code != "schema_changed":
            await bus.publish(ToolsListChanged())
            if sessions:
                await bench.shop.sessions[0].send_tool_list_changed()
            await asyncio.sleep(0.01)


async def test_a_server_that_stopped_saying_so_is_asked_again(bench: Bench) -> None:
    """From the end of its stream on, before each write."""
    bench.shop.heard = ListenHandler(InMemorySubscriptionBus())
    subject, front = await bench.over_http(effect="write", list_seconds=3600)
    await believed(subject, front, lambda: front.methods.count("tools/list"))
    bench.shop.heard.close()
    bench.shop.schemas = {"get_order": OTHER}

    async with asyncio.timeout(PATIENCE):
        while (await subject.call(call(order_id="A-1"))).error_code != "schema_changed":
            pass


async def test_a_stream_without_the_promise_is_none(bench: Bench) -> None:
    """A server with sessions may have one and never say that its tools changed."""
    subject, _ = await bench.over_http(effect="write", list_seconds=3600, sessions=True)
    live = await subject._connection.live()
    async with asyncio.timeout(PATIENCE):
        while not live.standing:  # noqa: ASYNC110 - nobody else is to be told
            await asyncio.sleep(0.005)
    await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}

    assert "schema_changed" == (await subject.call(call(order_id="A-1"))).error_code


@pytest.mark.parametrize("piped", [False, True])
async def test_a_pipe_is_such_a_stream(piped: bool) -> None:
    """To a server of the older protocol, which says what it has to say without being asked."""

    def nobody_listens(**_: bool) -> None:
        raise ListenNotSupportedError("2025-11-25")

    tools = SimpleNamespace(list_changed=True)
    client: Any = SimpleNamespace(
        listen=nobody_listens, server_capabilities=SimpleNamespace(tools=tools)
    )
    live = Live()
    live.client = client

    await live.listen(client, piped=piped)

    assert piped == live.announces


# --- between the list and the call --------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_tool_that_goes_between_list_and_call(
    bench: Bench, effect: str, how: dict[str, Any]
) -> None:
    """The server refuses it; what its list says then is why."""
    subject, front = await bench.over_http(effect=effect, **how)
    front.then["tools/list"] = bench.shop.schemas.clear

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", False, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert (0, 2) == (len(bench.shop.calls), front.methods.count("tools/list"))


@pytest.mark.parametrize(("effect", "unknown"), [("read", False), ("write", True)])
async def test_a_server_that_refuses_in_words_alone(
    bench: Bench, effect: str, unknown: bool
) -> None:
    """Its list says that the tool is gone, and nothing whether it was called before that."""
    subject, front = await bench.over_http(effect=effect)
    bench.shop.reply = lambda: said("Unknown tool: get_order", is_error=True)
    front.then["tools/call"] = lambda: setattr(bench.shop, "schemas", {})

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", unknown) == (reply.error_code, reply.outcome_unknown)


async def test_a_tool_that_a_server_of_the_sdk_does_not_know(bench: Bench) -> None:
    """In the words of the SDK's own server, whatever they are."""
    shop = MCPServer("shop")

    def get_order(order_id: str) -> dict[str, str]:
        return {**RESULT, "order_id": order_id}

    shop.add_tool(get_order, structured_output=False)
    url, front = await bench.stack.enter_async_context(
        mcp_serving(shop._lowlevel_server, stateless=True)
    )
    subject = bench.bound(McpHttpServer(transport="streamable_http", url=url))
    assert RESULT == (await subject.call(call(order_id="A-1"))).result
    shop.remove_tool("get_order")

    reply = await subject.call(call(order_id="A-1"))

    assert ("schema_changed", False) == (reply.error_code, reply.retryable)
    assert 2 == front.methods.count("tools/list")


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_server_restarted_with_another_version(bench: Bench, effect: str) -> None:
    """Of a new session the list is new too: nothing is called in the old form."""
    async with mcp_serving(bench.shop.server(), sessions=True) as (url, _):
        server = McpHttpServer(transport="streamable_http", url=url, list_seconds=3600)
        subject = bench.bound(server, effect=effect)
        await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}
    await bench.served(sessions=True, port=int(url.split(":")[2].split("/")[0]))

    reply = await subject.call(call(order_id="A-1"))

    # A read may find the session gone first; its call is refused and it is greeted anew.
    assert ("schema_changed", False) == (reply.error_code, reply.outcome_unknown)
    assert 1 == len(bench.shop.calls)


# --- the reading --------------------------------------------------------------------------------


async def test_all_pages_are_read(bench: Bench) -> None:
    """The tool may be on the last."""
    bench.shop.schemas = {f"other_{number}": {"type": "object"} for number in range(6)}
    bench.shop.schemas["get_order"] = SCHEMA
    bench.shop.page = 3
    subject, front = await bench.over_http()

    assert RESULT == (await subject.call(call(order_id="A-1"))).result
    assert 3 == front.methods.count("tools/list")


@pytest.mark.parametrize("size", [1, 1_000_000], ids=["many", "long"])
async def test_a_list_that_never_ends(
    bench: Bench, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is no list: of a tool that it might go on to name nothing is known."""
    monkeypatch.setattr(mcp_connection, "_PAGES", 10)
    bench.shop.schemas = {
        f"other_{number}": {"type": "object", "title": "x" * size}
        for number in range(15 if size == 1 else 8)
    }
    bench.shop.schemas["get_order"] = SCHEMA
    bench.shop.page = 1
    subject, _ = await bench.over_http(effect="write")

    reply = await subject.call(call(order_id="A-1"))

    assert ("unavailable", True, False) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
    )
    assert [] == bench.shop.calls


async def test_a_server_may_want_to_be_left_alone_with_its_list(bench: Bench) -> None:
    """As with a call; the next attempt comes no earlier."""
    subject, front = await bench.over_http(effect="write")
    front.replies["tools/list"] = (429, {"retry-after": "7"}, b"")

    reply = await subject.call(call(order_id="A-1"))

    assert ("unavailable", True, False, 7.0) == (
        reply.error_code,
        reply.retryable,
        reply.outcome_unknown,
        reply.retry_after_seconds,
    )


async def test_a_change_is_not_forgotten_by_a_reading_that_was_given_up(bench: Bench) -> None:
    """The call ran out of time while the list was read again; the old one is not believed."""
    subject, front = await bench.over_http(sessions=True, timeout_seconds=1, list_seconds=3600)
    await subject.call(call(order_id="A-1"))
    async with asyncio.timeout(PATIENCE):
        while "GET" not in front.methods:
            await subject.call(call(order_id="A-1"))
    bench.shop.schemas = {"get_order": OTHER}
    bench.shop.listing = asyncio.Event()
    async with asyncio.timeout(PATIENCE):
        while (await subject.call(call(order_id="A-1"))).error_code != "timeout":
            await bench.shop.sessions[0].send_tool_list_changed()
            await asyncio.sleep(0.01)
    bench.shop.listing.set()

    assert "schema_changed" == (await subject.call(call(order_id="A-1"))).error_code


async def test_a_list_is_looked_at_for_so_long(bench: Bench) -> None:
    """Who only looks, as the doctor does, waits no longer than a call would."""
    subject, _ = await bench.over_http(timeout_seconds=1)
    assert await subject.changed() is None
    bench.shop.listing = asyncio.Event()
    other, _ = await bench.over_http(timeout_seconds=0.2)

    with pytest.raises(Unreachable):
        await other.changed()
