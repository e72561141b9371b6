"""Calls that something on the way has changed: caught in every binding, counted, never retried."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from pydantic import JsonValue

from tests.contract.warehouse import Warehouse, answered, reopened
from tests.contract.warehouse_mcp import warehouse_server
from tests.mcp_serving import mcp_serving
from tests.unit.roles.bench import (
    NOW,
    Clock,
    Counted,
    FakeLane,
    action,
    events,
    intake,
    publisher,
    record,
)
from tests.unit.roles.bench import catalog as shop
from tests.unit.tools.shop import http_reply, service, tool
from turnstream.catalog import argument_checks
from turnstream.core.bindings import FunctionBinding, HttpBinding, McpBinding
from turnstream.core.definitions import Catalog, Tool
from turnstream.core.events import ToolResult
from turnstream.core.ports import Reconciliation, ToolBinding, ToolCall, ToolReply
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.core.servers import McpHttpServer
from turnstream.plain_http import plain_client
from turnstream.roles.execute import ExecuteHandler
from turnstream.roles.journal import Execution
from turnstream.roles.raw_sink import RawSink
from turnstream.tools import Egress, FunctionTool, HttpTool
from turnstream.tools.mcp import McpTool
from turnstream.tools.mcp_connection import McpConnection

NAME = "get_order"
ARGUMENTS: Mapping[str, JsonValue] = {"order_id": "A-1001"}


def order_tool(effect: str = "read", **changes: Any) -> Tool:
    """The tool, one that anybody may call."""
    more = {"threshold": 0.5} if effect == "write" else {}
    return tool(effect=effect, data_scope="public", **more, **changes)


class Desk:
    """An executor with one tool."""

    def __init__(
        self, binding: ToolBinding, definition: Tool, *, raw: RawSink | None = None
    ) -> None:
        catalog: Catalog = shop().model_copy(update={"tools": {NAME: definition}})
        self.counted = Counted(catalog)
        self.lane: FakeLane[Execution] = FakeLane(Clock(0.0))
        self.publisher = publisher("execute")
        self.handler = ExecuteHandler(
            intake=intake(),
            publisher=self.publisher,
            ruleset=Ruleset(
                catalog=catalog,
                decision_version="d",
                presentation_version="p",
                checks=argument_checks(catalog),
            ),
            tools={NAME: binding},
            metrics=self.counted.metrics,
            max_record_bytes=262_144,
            retention_ms=900_000,
            now_ms=lambda: NOW,
            raw=raw,
        )

    async def run(self, event: ActionEvent) -> ToolResult:
        """The final result of an action, the only one there is."""
        result = await self.reconciled(event)
        assert [] == [one for _, _, published in self.lane.committed for one in published]
        return result

    async def reconciled(self, event: ActionEvent) -> ToolResult:
        """The final result of an action, whatever was said of attempts before it."""
        source = record(event, 7, topic="conversation.actions")
        _, admitted = self.handler.admit(source)
        outcome: Any = self.handler.handle(source, admitted, None, self.lane)
        handled = outcome if not hasattr(outcome, "__await__") else await outcome
        (publication,) = handled.publications
        (result,) = events((publication,))
        assert isinstance(result, ToolResult)
        return result

    def altered(self, stage: str) -> float:
        """How many calls were found at a stage."""
        return self.counted.value("tool_arguments_altered_total", tool=NAME, stage=stage)


def asked(arguments: Mapping[str, JsonValue] = ARGUMENTS, **changes: Any) -> ActionEvent:
    """The decision to call."""
    payload: dict[str, Any] = {
        "tool_call_id": "call-1",
        "tool": NAME,
        "arguments_json": json.dumps(arguments),
        "provenance": dict.fromkeys(arguments, "model"),
        "effect": "read",
        "deadline_at": NOW + 60_000,
        **changes,
    }
    return action("call_tool", payload)


def told(result: ToolResult) -> tuple[str, str | None, bool]:
    """Outcome, error code, whether it may be tried again."""
    error = result.error
    return result.outcome, error.code if error else None, error.retryable if error else False


@pytest.fixture
def house() -> Warehouse:
    """The other side."""
    return reopened()


# --- something between us and the tool changes a field ------------------------------------------

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


class _Streamed(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"order_id":"A-1001"}'


def as_stream(request: httpx.Request) -> None:
    """A body that cannot be looked at before it leaves."""
    request.stream = _Streamed()


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(
    ("alter", "method"),
    [(in_path, "GET"), (in_query, "GET"), (in_body, "POST"), (as_stream, "POST")],
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


# --- what the tool says it used -----------------------------------------------------------------


class Echoing:
    """A binding that says what its tool used."""

    def __init__(self, reply: ToolReply) -> None:
        self.reply = reply
        self.asked = 0

    async def call(self, call: ToolCall) -> ToolReply:
        """Give the reply."""
        call.sending(call.arguments)
        return self.reply

    @property
    def reconciles(self) -> bool:
        """It would say that the call was carried out."""
        return True

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Say so."""
        self.asked += 1
        return Reconciliation("found", ToolReply({"status": "shipped"}))

    async def close(self) -> None:
        """Nothing to release."""


OTHERS = ToolReply({"status": "shipped"}, used={"order_id": "A-1002"})


@pytest.mark.parametrize(
    ("reply", "effect", "outcome"),
    [
        (OTHERS, "read", "failed"),
        (OTHERS, "write", "outcome_unknown"),
        (ToolReply({"status": "shipped"}, used_hash="0" * 64), "write", "outcome_unknown"),
        (ToolReply(None, "order_not_found", used_hash="0" * 64), "write", "failed"),
    ],
)
async def test_a_tool_that_used_something_else(reply: ToolReply, effect: str, outcome: str) -> None:
    """Its result is not used, and it is not asked about a call that it did not carry out."""
    definition = order_tool(effect)
    binding = Echoing(reply)
    desk = Desk(binding, definition)

    result = await desk.run(asked(effect=effect))

    assert (outcome, "arguments_altered", False) == told(result)
    assert (1, 0) == (desk.altered("used"), binding.asked)


class AlteredLater(Echoing):
    """Gets no reply to what it sent as it was asked; its next attempt would be another call."""

    attempts = 0

    async def call(self, call: ToolCall) -> ToolReply:
        """Send, or try to."""
        self.attempts += 1
        call.sending(call.arguments if self.attempts == 1 else {"order_id": "A-1002"})
        return ToolReply(None, "timeout", retryable=True, outcome_unknown=True)


async def test_an_attempt_before_the_altered_one_is_asked_about() -> None:
    """The altered one did not leave: what the tool finds is the call that was asked for."""
    definition = order_tool("write", idempotent=True)
    binding = AlteredLater(OTHERS)
    desk = Desk(binding, definition)

    result = await desk.reconciled(asked(effect="write"))

    assert ("done", None, False) == told(result)
    assert (2, 1, 1) == (binding.attempts, desk.altered("sent"), binding.asked)


async def test_a_service_shows_what_it_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the binding says so: equal is fine, else the log names the place and no value."""
    definition = order_tool()
    results = []
    for used in ({"order_id": "A-1001", "idempotency_key": "a-1"}, {"order_id": "secret-1"}, None):
        body = {"order_id": "A-1001", "status": "shipped"} | ({"used": used} if used else {})
        async with service(lambda _, body=body: http_reply(json.dumps(body).encode())) as (base, _):  # type: ignore[misc]
            url = {"method": "GET", "url": f"{base}/orders/{{order_id}}", "used_path": "used"}
            binding = HttpTool(
                NAME,
                tool=definition,
                binding=HttpBinding.model_validate(url),
                client=plain_client(),
                egress=Egress.of_urls([base]),
            )
            results.append(told(await Desk(binding, definition).run(asked())))
            await binding.close()

    assert [
        ("done", None, False),
        ("failed", "arguments_altered", False),
        ("failed", "invalid_result", False),
    ] == results
    out = capsys.readouterr().out
    assert 1 == out.count("a call does not carry what was asked for")
    assert "/order_id" in out
    assert "secret-1" not in out


# --- what the model asked for -------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_arguments_that_are_not_the_models_are_not_sent(effect: str) -> None:
    """Nothing is begun: no record, no call."""
    definition = order_tool(effect)
    desk = Desk(Echoing(OTHERS), definition)

    result = await desk.run(asked(effect=effect, model_arguments_json='{"order_id":"A-1002"}'))

    assert ("denied", "arguments_altered", False) == told(result)
    assert (0, 1, []) == (result.attempts, desk.altered("gated"), desk.lane.committed)


async def test_a_decision_by_another_catalog_is_not_compared() -> None:
    """What that one declared is not known here."""
    definition = order_tool()
    desk = Desk(Echoing(ToolReply({"status": "shipped"})), definition)
    event = asked(model_arguments_json='{"order_id":"A-1002"}')
    versions = event.versions.model_copy(update={"decision_version": "older"})

    result = await desk.run(event.model_copy(update={"versions": versions}))

    assert ("done", None, False) == told(result)
