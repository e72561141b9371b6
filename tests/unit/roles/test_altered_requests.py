"""Requests that something between us and the tool has changed: none leaves, in no binding."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import httpx2
import pytest
from mcp import ClientSession
from pydantic import JsonValue

from tests.contract.warehouse import Warehouse, answered, reopened
from tests.contract.warehouse_mcp import warehouse_server
from tests.mcp_serving import mcp_serving
from tests.unit.roles.altering import ARGUMENTS, NAME, Desk, asked, order_tool, told
from tests.unit.tools.shop import service
from turnstream.core.bindings import FunctionBinding, HttpBinding, McpBinding
from turnstream.core.definitions import Tool
from turnstream.core.ports import ToolBinding
from turnstream.core.servers import McpHttpServer
from turnstream.plain_http import plain_client
from turnstream.tools import Egress, FunctionTool, HttpTool
from turnstream.tools.mcp import McpTool
from turnstream.tools.mcp_connection import McpConnection
from turnstream.tools.mcp_exchange import GuardedTransport


@pytest.fixture
def house() -> Warehouse:
    """The other side."""
    return reopened()


Bound = tuple[ToolBinding, list[bytes]]


@asynccontextmanager
async def over_http(
    definition: Tool, alter: Callable[[httpx.Request], None], **binding: Any
) -> AsyncIterator[Bound]:
    """A tool over HTTP whose client has a hook that changes requests."""

    async def hook(request: httpx.Request) -> None:
        alter(request)

    async with service(answered) as (base, seen):
        client = plain_client()
        client.event_hooks = {"request": [hook]}
        given = {"method": "GET", "url": f"{base}/orders/{{order_id}}", **binding}
        if given["method"] == "POST":
            given["url"] = f"{base}/orders"
        bound = HttpTool(
            NAME,
            tool=definition,
            binding=HttpBinding.model_validate(given),
            client=client,
            egress=Egress.of_urls([base]),
        )
        yield bound, seen
        await bound.close()


def in_path(request: httpx.Request) -> None:
    """Another order."""
    request.url = request.url.copy_with(raw_path=b"/orders/A-1002")


def in_query(request: httpx.Request) -> None:
    """One parameter more."""
    request.url = request.url.copy_add_param("force", "true")


def in_body(request: httpx.Request) -> None:
    """Another order in the body."""
    content = request.content.replace(b"A-1001", b"A-1002")
    request.stream = httpx.ByteStream(content)


def twice_in_body(request: httpx.Request) -> None:
    """Another order in the body, before the one that was asked for."""
    request.stream = httpx.ByteStream(b'{"order_id":"A-1002","order_id":"A-1001"}')


def in_path_and_query(request: httpx.Request) -> None:
    """Another order in the path, the one that was asked for in the query."""
    request.url = request.url.copy_with(raw_path=b"/orders/A-1002?order_id=A-1001")


class _Streamed(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"order_id":"A-1001"}'


def as_stream(request: httpx.Request) -> None:
    """A body that cannot be looked at before it leaves."""
    request.stream = _Streamed()


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(
    ("alter", "method"),
    [
        (in_path, "GET"),
        (in_query, "GET"),
        (in_path_and_query, "GET"),
        (in_body, "POST"),
        (twice_in_body, "POST"),
        (as_stream, "POST"),
    ],
)
async def test_a_request_that_was_altered_does_not_leave(
    alter: Callable[[httpx.Request], None], method: str, effect: str
) -> None:
    """In its path, its query or its body; nothing was done, by a write either."""
    definition = order_tool(effect)
    async with over_http(definition, alter, method=method) as (binding, seen):
        desk = Desk(binding, definition)
        result = await desk.run(asked(effect=effect))

        assert ("failed", "arguments_altered", False) == told(result)
        assert [] == seen
    assert (1, 1) == (desk.altered("sent"), result.attempts)


async def test_a_request_that_was_not_altered_is_no_fault(house: Warehouse) -> None:
    """Whatever a hook looks at."""
    definition = order_tool()
    async with over_http(definition, lambda _: None) as (binding, seen):
        desk = Desk(binding, definition)
        result = await desk.run(asked())

    assert ("done", None, False) == told(result)
    assert 1 == len(seen)
    assert 0 == desk.altered("sent") + desk.altered("used") + desk.altered("gated")
    assert result.arguments_hash == result.body_hash


@pytest.mark.parametrize(("effect", "outcome"), [("read", "failed"), ("write", "outcome_unknown")])
async def test_what_is_seen_only_afterwards_may_have_been_done(effect: str, outcome: str) -> None:
    """A transport that does not say when it sends: a write's outcome is then not known."""

    async def hook(request: httpx.Request) -> None:
        in_path(request)

    definition = order_tool(effect)
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, json={"order_id": "A-1002", "status": "shipped"})
    )
    client = httpx.AsyncClient(transport=transport, event_hooks={"request": [hook]})
    assert isinstance(definition.binding, HttpBinding)
    binding = HttpTool(
        NAME,
        tool=definition,
        binding=definition.binding,
        client=client,
        egress=Egress(["shop.test"]),
    )
    desk = Desk(binding, definition)

    result = await desk.run(asked(effect=effect))

    assert (outcome, "arguments_altered", False) == told(result)
    assert result.result_json is None
    assert result.body_hash not in (None, result.arguments_hash)
    assert 1 == desk.altered("sent")


class Meddling(FunctionTool):
    """Changes what its function gets."""

    async def _run(self, work: partial[Any], sending: Any = None) -> Any:
        changed = partial(work.func, **{**work.keywords, "order_id": "A-1002"})
        return await super()._run(changed, sending)


@pytest.mark.parametrize("function", ["order", "order_later"])
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_function_is_not_called_with_something_else(
    house: Warehouse, function: str, effect: str
) -> None:
    """In a thread or in the event loop; the same binding without the change is fine."""
    definition = order_tool(effect)
    binding = FunctionBinding(target=f"tests.contract.warehouse:{function}")
    desk = Desk(Meddling(NAME, tool=definition, binding=binding), definition)
    sound = Desk(FunctionTool(NAME, tool=definition, binding=binding), definition)

    result = await desk.run(asked(effect=effect))

    assert ("failed", "arguments_altered", False) == told(result)
    assert [] == house.calls
    assert 1 == desk.altered("sent")
    result = await sound.run(asked(effect=effect))
    assert ("done", None, False) == told(result)
    assert result.arguments_hash == result.body_hash == result.used_hash


@pytest.mark.parametrize("function", ["sorts", "sorts_later"])
async def test_a_function_may_change_what_it_was_given(function: str) -> None:
    """A list that it sorts was asked for unsorted: the call is what it was, and the write done."""
    definition = order_tool("write")
    target = FunctionBinding(target=f"tests.unit.tools.functions:{function}")
    desk = Desk(FunctionTool(NAME, tool=definition, binding=target), definition)
    given: dict[str, JsonValue] = {"tags": ["b", "a"], "address": {"zip": "1", "city": "x"}}

    result = await desk.run(asked({**ARGUMENTS, **given}, effect="write"))

    assert ("done", None, False) == told(result)
    assert result.arguments_hash == result.body_hash == result.used_hash


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_message_to_a_server_that_was_altered_does_not_leave(
    house: Warehouse, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    """Changed inside the SDK, and seen in the frame that it wants to write."""
    sound = ClientSession.call_tool
    meddling = True

    async def call_tool(self: Any, name: str, arguments: Any = None, **how: Any) -> Any:
        changed = {**arguments, "order_id": "A-1002"} if meddling else arguments
        return await sound(self, name, changed, **how)

    monkeypatch.setattr(ClientSession, "call_tool", call_tool)
    definition = order_tool(effect)
    async with mcp_serving(warehouse_server(), sessions=False) as (url, _):
        server = McpHttpServer(transport="streamable_http", url=url)
        connection = McpConnection("warehouse", server, egress=Egress.of_urls([url]))
        binding = McpBinding(server="warehouse")
        subject = McpTool(NAME, tool=definition, binding=binding, connection=connection)
        desk = Desk(subject, definition)

        result = await desk.run(asked(effect=effect))
        meddling = False
        again = await Desk(subject, definition).run(asked(effect=effect))
        await subject.close()

    assert ("failed", "arguments_altered", False) == told(result)
    assert 1 == desk.altered("sent")
    assert ("done", None, False) == told(again)
    assert again.arguments_hash == again.body_hash
    assert ["A-1001"] == [one.order_id for one in house.calls]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"order_id":', b'"order_id":"A-1002","order_id":'),
        (b'"arguments":', b'"arguments":{"order_id":"A-1002"},"arguments":'),
        (b'"method":', b'"method":"tools/list","method":'),
        (b'"arguments":{"order_id":"A-1001"}', b'"arguments":["A-1001"]'),
        (b'"params":{', b'"params":null,"others":{'),
        (b"{", b"[{"),
        (b"{", b"\xff{"),
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_message_that_can_be_read_in_two_ways_does_not_leave(
    house: Warehouse, monkeypatch: pytest.MonkeyPatch, before: bytes, after: bytes, effect: str
) -> None:
    """Nor one that cannot be read, or has no arguments: it is not taken for one without a call."""
    sound = GuardedTransport.handle_async_request

    async def altering(self: GuardedTransport, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        if b"tools/call" in body:
            changed = body.replace(before, after, 1) + b"]" * after.startswith(b"[")
            assert changed != body
            headers = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
            extensions = request.extensions
            request = httpx2.Request(
                "POST", request.url, headers=headers, content=changed, extensions=extensions
            )
        return await sound(self, request)

    monkeypatch.setattr(GuardedTransport, "handle_async_request", altering)
    definition = order_tool(effect)
    async with mcp_serving(warehouse_server(), sessions=False) as (url, _):
        server = McpHttpServer(transport="streamable_http", url=url)
        connection = McpConnection("warehouse", server, egress=Egress.of_urls([url]))
        subject = McpTool(
            NAME,
            tool=definition,
            binding=McpBinding(server="warehouse"),
            connection=connection,
        )
        desk = Desk(subject, definition)

        result = await desk.run(asked(effect=effect))
        await subject.close()

    assert ("failed", "arguments_altered", False) == told(result)
    assert 1 == desk.altered("sent")
    assert [] == house.calls
