"""The execute role: checks, the journal, retries, and what is said about each call."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, cast

import pytest

from tests.unit.roles.bench import (
    NOW,
    Clock,
    Counted,
    FakeLane,
    action,
    catalog,
    events,
    intake,
    publisher,
    record,
)
from turnstream.catalog import argument_checks
from turnstream.core.definitions import ToolErrorRule
from turnstream.core.events import ToolResult
from turnstream.core.ports import Reconciliation, ToolCall, ToolReply
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.roles.deployment import DeploymentError
from turnstream.roles.execute import ExecuteHandler, check_write_timeouts
from turnstream.roles.journal import Execution, journal_format
from turnstream.stream import Handled, Rejected, StateTooNew, StateUnreadable, TimerDue
from turnstream.stream.role import OwnershipUncertain

ACTIONS = "conversation.actions"
CARRIED = hashlib.sha256(b'{"order_id":"A-1001"}').hexdigest()
SHIPPED = ToolReply(result={"status": "shipped"}, body_hash=CARRIED, used_hash=CARRIED)
DOWN = ToolReply(result=None, error_code="unavailable", error_message="status 503", retryable=True)
TIMED_OUT = replace(DOWN, error_code="timeout", outcome_unknown=True)
NOT_FOUND = ToolReply(result=None, error_code="order_not_found", error_message="no such order")
REFUSED = replace(NOT_FOUND, error_code="tool_error", error_message="refused, status 401")
UNSENT = replace(NOT_FOUND, error_code="misconfigured", error_message="a secret is missing")
AT_WORK = replace(REFUSED, retryable=True, outcome_unknown=True)

DEADLINE = NOW + 60_000
"""When an action is refused, in every test that does not say otherwise."""

RETENTION = 900_000
"""How long the journal remembers."""

SESSION = 30.0
"""Seconds within which a former owner may still begin a call."""

UNSURE = Reconciliation("unknown")
SILENT = Reconciliation("unknown", retryable=True)
NOTHING_DONE = Reconciliation("not_found")
DONE_BEFORE = Reconciliation("found", ToolReply(result={"status": "cancelled"}))


class ScriptedTool:
    """A binding that replies as told, and says when it is called."""

    def __init__(
        self, *replies: ToolReply | Exception, during: Callable[[], object] = tuple
    ) -> None:
        self.replies = list(replies)
        self.calls: list[ToolCall] = []
        self.during = during
        self.known: list[Reconciliation] | None = None
        """What it says of earlier calls, in turn; None: it cannot be asked."""
        self.asked: list[ToolCall] = []

    async def call(self, call: ToolCall) -> ToolReply:
        """Give the next reply."""
        self.calls.append(call)
        self.during()
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def reconciles(self) -> bool:
        """As told."""
        return self.known is not None

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Say the next thing."""
        assert self.known is not None
        self.asked.append(call)
        return self.known.pop(0)

    async def close(self) -> None:
        """Nothing to release."""


class Bench:
    """An executor with one scripted tool behind every name."""

    def __init__(
        self,
        *replies: ToolReply | Exception,
        known: Sequence[Reconciliation] | None = None,
        errors: Sequence[str] = (),
    ) -> None:
        self.catalog = catalog()
        rules = {code: ToolErrorRule(description=code) for code in errors}
        tools = {
            name: tool.model_copy(update={"errors": {**tool.errors, **rules}})
            for name, tool in self.catalog.tools.items()
        }
        self.catalog = self.catalog.model_copy(update={"tools": tools})
        self.tool = ScriptedTool(*replies)
        self.tool.known = None if known is None else list(known)
        self.counted = Counted(self.catalog)
        self.clock = Clock(0.0)
        self.lane: FakeLane[Execution] = FakeLane(self.clock)
        self.handler = ExecuteHandler(
            intake=intake(),
            publisher=publisher("execute"),
            ruleset=Ruleset(
                catalog=self.catalog,
                decision_version="d",
                presentation_version="p",
                checks=argument_checks(self.catalog),
            ),
            tools=dict.fromkeys(self.catalog.tools, self.tool),
            metrics=self.counted.metrics,
            max_record_bytes=262_144,
            retention_ms=RETENTION,
            session_seconds=SESSION,
            now_ms=lambda: NOW + int(self.clock.now * 1000),
            clock=self.clock,
        )

    async def a_minute(self) -> None:
        """Let one pass."""
        self.clock.now += 60.0

    async def run(self, event: ActionEvent, state: Execution | None = None) -> Handled[Execution]:
        """Handle one action from admission to its end."""
        source = record(event, 7, topic=ACTIONS)
        key, admitted = self.handler.admit(source)
        assert key == b"c-1/" + event.action_id.encode()
        outcome = self.handler.handle(source, admitted, state, self.lane)
        return await outcome if isawaitable(outcome) else outcome


def order_call(tool: str = "get_order_status", **changes: Any) -> ActionEvent:
    """A call about one order."""
    payload: dict[str, Any] = {
        "tool_call_id": "a-1",
        "tool": tool,
        "arguments_json": '{"order_id":"A-1001"}',
        "provenance": {"order_id": "message"},
        "effect": "read",
        "deadline_at": DEADLINE,
        "subject_id": "customer-7",
        "permissions": ["orders:write"],
    }
    return action("call_tool", payload | changes)


def only(handled: Handled[Execution]) -> ToolResult:
    """The one result of an outcome."""
    (result,) = events(handled)
    assert isinstance(result, ToolResult)
    return result


def brief(result: ToolResult) -> tuple[bool, str, str | None, int]:
    """Final, outcome, error code, attempts."""
    code = result.error.code if result.error is not None else None
    return result.final, result.outcome, code, result.attempts


def started(attempts: int = 1, tool: str = "get_order_status") -> Execution:
    """What a call that was begun leaves in the journal."""
    return Execution(
        action_id="a-1",
        tool=tool,
        phase="started",
        attempts=attempts,
        updated_at=NOW,
        expires_at=NOW + RETENTION,
    )


async def test_a_call_is_begun_called_and_done() -> None:
    """STARTED is committed before the call; result, journal and offset come together after it."""
    bench = Bench(SHIPPED)
    at_call: list[int] = []
    bench.tool.during = lambda: at_call.append(len(bench.lane.committed))

    handled = await bench.run(order_call())

    assert at_call == [1]
    assert bench.lane.committed == [(b"c-1/a-1", started(), [])]
    assert bench.tool.calls == [
        ToolCall(
            tool="get_order_status",
            arguments={"order_id": "A-1001"},
            idempotency_key="a-1",
            subject_id="customer-7",
            conversation_id="c-1",
        )
    ]
    result = only(handled)
    assert (result.ok, result.final, result.outcome) == (True, True, "done")
    assert json.loads(result.result_json or "") == {"status": "shipped"}
    assert result.arguments_hash == hashlib.sha256(b'{"order_id":"A-1001"}').hexdigest()
    assert (result.body_hash, result.used_hash) == (CARRIED, CARRIED)
    assert handled.publications[0].key == b"c-1"
    assert handled.state == Execution(
        action_id="a-1",
        tool="get_order_status",
        phase="done",
        attempts=1,
        updated_at=NOW,
        expires_at=NOW + RETENTION,
        result_hash=hashlib.sha256(b'{"status":"shipped"}').hexdigest(),
        watermarks={ACTIONS: 7},
    )
    assert bench.counted.value("tool_calls_total", tool="get_order_status", outcome="done") == 1


@pytest.mark.parametrize(
    ("given", "one_form"),
    [('{"order_id": "A-1001"}', b'{"order_id":"A-1001"}'), ("{}", b"{}"), ("{broken", b"{broken")],
)
async def test_the_arguments_are_hashed_as_the_model_gave_them(given: str, one_form: bytes) -> None:
    """What code filled in shows as a difference to what was sent."""
    event = order_call(model_arguments_json=given, provenance={"order_id": "session"})

    result = only(await Bench(SHIPPED).run(event))

    assert result.arguments_hash == hashlib.sha256(one_form).hexdigest()


async def test_other_actions_are_passed_over() -> None:
    """An action that is no call leaves no record and no event."""
    handled = await Bench().run(action("answer", {"text": "hello", "locale": "en"}))

    assert handled == Handled(None)


async def test_another_action_under_the_id_of_a_call_is_passed_over() -> None:
    """However it comes, the call's record stays and remembers that it was met."""
    bench = Bench()
    event = action("answer", {"text": "hello", "locale": "en"})
    source = record(event, 7, topic=ACTIONS)
    met = Handled(replace(started(), watermarks={ACTIONS: 7}))

    assert met == await bench.run(event, started())
    assert met == bench.handler.flood(source, event, started())
    error = RuntimeError()
    assert met == bench.handler.abandon(source, event, started(), attempts=3, error=error)


async def test_a_failed_read_is_published_before_it_is_tried_again() -> None:
    """Each failure is published before its retry; the last reply ends the call."""
    bench = Bench(DOWN, DOWN, SHIPPED)

    handled = await bench.run(order_call())

    commits = [
        (state.attempts, [brief(cast("ToolResult", one)) for one in published])
        for _, state, published in bench.lane.committed
    ]
    assert commits == [
        (1, []),
        (2, [(False, "failed", "unavailable", 1)]),
        (3, [(False, "failed", "unavailable", 2)]),
    ]
    assert brief(only(handled)) == (True, "done", None, 3)
    assert {"a-1"} == {call.idempotency_key for call in bench.tool.calls}
    first, second = bench.lane.rests
    assert 0.5 <= first < 1.0
    assert 0.75 <= second < 1.5
    assert bench.counted.value("tool_retries_total", tool="get_order_status") == 2
    assert bench.counted.value("tool_call_seconds_count", tool="get_order_status") == 3


async def test_the_attempts_are_bounded() -> None:
    """A read that stays unavailable ends as failed after its policy's attempts."""
    bench = Bench(DOWN, DOWN, DOWN)

    assert brief(only(await bench.run(order_call()))) == (True, "failed", "unavailable", 3)


async def test_a_retry_that_would_miss_the_deadline_is_not_made() -> None:
    """Nothing is tried again once the conversation has stopped waiting for it."""
    bench = Bench(DOWN)

    handled = await bench.run(order_call(deadline_at=NOW + 100))

    assert brief(only(handled)) == (True, "failed", "unavailable", 1)
    assert bench.lane.rests == []


@pytest.mark.parametrize("tool", ["get_order_status", "cancel_order", "create_label"])
async def test_a_call_that_became_too_late_while_it_was_written_down_is_not_made(tool: str) -> None:
    """The commit may wait for the brokers for minutes; that nothing went out is certain."""
    bench = Bench(SHIPPED)
    bench.lane.meanwhile = bench.a_minute

    handled = await bench.run(order_call(tool))

    assert (True, "denied", "expired", 0) == brief(only(handled))
    assert handled.state is not None
    assert ("done", []) == (handled.state.phase, bench.tool.calls)


async def test_a_tool_that_failed_others_while_a_call_was_written_down_is_left_alone() -> None:
    """What others have met meanwhile counts."""
    bench = Bench(*[DOWN] * 5, SHIPPED)
    for _ in range(4):
        await bench.run(order_call("cancel_order"))
    other = FakeLane[Execution](bench.clock)
    source = record(order_call("cancel_order", tool_call_id="a-2"), 8, topic=ACTIONS)

    async def fail_meanwhile() -> None:
        _, event = bench.handler.admit(source)
        handled = bench.handler.handle(source, event, None, other)
        assert isawaitable(handled)
        await handled

    bench.lane.meanwhile = fail_meanwhile

    refused = only(await bench.run(order_call("cancel_order")))

    assert (True, "failed", "tool_unavailable", 0) == brief(refused)
    assert 5 == len(bench.tool.calls)


async def test_a_call_that_was_not_carried_out_may_become_too_late_as_well() -> None:
    """Written down anew, it is looked at anew; the first attempt had no effect."""
    bench = Bench(SHIPPED, known=[NOTHING_DONE])
    bench.lane.meanwhile = bench.a_minute

    handled = await bench.run(order_call("cancel_order"), started(tool="cancel_order"))

    assert (True, "denied", "expired", 1) == brief(only(handled))
    assert [] == bench.tool.calls


async def test_a_business_error_is_not_retried() -> None:
    """A definite refusal ends the call at once."""
    bench = Bench(NOT_FOUND)

    assert brief(only(await bench.run(order_call()))) == (True, "failed", "order_not_found", 1)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [(DOWN, "failed"), (TIMED_OUT, "outcome_unknown"), (NOT_FOUND, "failed"), (SHIPPED, "done")],
)
async def test_a_plain_write_is_called_once(reply: ToolReply, outcome: str) -> None:
    """A write that is not idempotent is never tried again, whatever comes back."""
    bench = Bench(reply)

    result = only(await bench.run(order_call("cancel_order")))

    assert result.outcome == outcome
    assert len(bench.tool.calls) == 1


@pytest.mark.parametrize(
    ("replies", "outcome", "attempts"),
    [
        ((TIMED_OUT, SHIPPED), "done", 2),
        ((TIMED_OUT, NOT_FOUND), "failed", 2),
        ((TIMED_OUT, REFUSED), "outcome_unknown", 2),
        ((TIMED_OUT, UNSENT), "outcome_unknown", 2),
        ((TIMED_OUT, replace(REFUSED, error_code="invalid_argument")), "outcome_unknown", 2),
        ((TIMED_OUT, AT_WORK, AT_WORK), "outcome_unknown", 3),
        ((TIMED_OUT, AT_WORK, SHIPPED), "done", 3),
        ((TIMED_OUT, AT_WORK, NOT_FOUND), "failed", 3),
        ((TIMED_OUT, DOWN, DOWN), "outcome_unknown", 3),
        ((TIMED_OUT, DOWN, REFUSED), "outcome_unknown", 3),
        ((DOWN, DOWN, DOWN), "failed", 3),
        ((DOWN, REFUSED), "failed", 2),
        ((UNSENT,), "failed", 1),
    ],
)
async def test_an_idempotent_write_is_tried_again(
    replies: tuple[ToolReply, ...], outcome: str, attempts: int
) -> None:
    """A result or a declared error decides; nothing else speaks for an attempt before.

    The catalog lists one of our own codes as well: said by us, it is none of the tool's.
    """
    bench = Bench(*replies, errors=("order_not_found", "misconfigured"))

    result = only(await bench.run(order_call("create_label")))

    assert (result.outcome, result.attempts) == (outcome, attempts)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [(NOT_FOUND, "failed"), (REFUSED, "outcome_unknown"), (UNSENT, "outcome_unknown")],
)
async def test_a_begun_idempotent_write_is_settled_by_the_tool_alone(
    reply: ToolReply, outcome: str
) -> None:
    """After a crash a gateway's refusal or a lost secret says nothing of the first call."""
    bench = Bench(reply, errors=("order_not_found",))

    result = only(await bench.run(order_call("create_label"), started(tool="create_label")))

    assert (outcome, 1) == (result.outcome, len(bench.tool.calls))


async def test_a_retry_that_was_refused_is_asked_about() -> None:
    """The outcome of the first attempt is open, and the tool knows it."""
    bench = Bench(TIMED_OUT, REFUSED, known=[DONE_BEFORE])

    result = only(await bench.run(order_call("create_label")))

    assert ("done", 2, 1) == (result.outcome, result.attempts, len(bench.tool.asked))


async def test_a_begun_read_is_called_again_after_a_crash() -> None:
    """STARTED of a read is repeated with the same key, counting on, without a second STARTED."""
    bench = Bench(SHIPPED)

    handled = await bench.run(order_call(), started(attempts=2))

    assert brief(only(handled)) == (True, "done", None, 2)
    assert bench.tool.calls[0].idempotency_key == "a-1"
    assert bench.lane.committed == []


async def test_a_begun_write_is_never_called_again() -> None:
    """STARTED of a plain write ends as outcome_unknown, with no second call."""
    bench = Bench()

    handled = await bench.run(order_call("cancel_order"), started(tool="cancel_order"))

    assert brief(only(handled)) == (True, "outcome_unknown", "interrupted", 1)
    assert handled.state is not None
    assert handled.state.phase == "outcome_unknown"
    assert bench.tool.calls == []


async def test_a_begun_idempotent_write_is_unknown_when_still_unavailable() -> None:
    """After a crash nobody knows about the first attempt until a definite reply comes."""
    bench = Bench(DOWN, DOWN)

    result = only(await bench.run(order_call("create_label"), started(attempts=2)))

    assert (result.outcome, result.attempts) == ("outcome_unknown", 3)


@pytest.mark.parametrize(
    ("tool", "outcome"),
    [
        ("create_label", "outcome_unknown"),
        ("get_order_status", "failed"),
        ("gone", "outcome_unknown"),
    ],
)
async def test_a_begun_call_that_may_not_be_repeated_any_more(tool: str, outcome: str) -> None:
    """Past its deadline, or without its tool, a begun call is ended with what is known of it."""
    bench = Bench()

    handled = await bench.run(order_call(tool, deadline_at=NOW), started(tool=tool))

    assert brief(only(handled)) == (True, outcome, "interrupted", 1)
    assert bench.tool.calls == []


async def test_an_ended_call_is_not_made_again() -> None:
    """The same action under another offset only moves the watermark."""
    bench = Bench()
    ended = replace(started(), phase="done", watermarks={ACTIONS: 3})

    handled = await bench.run(order_call(), ended)

    assert handled == Handled(replace(ended, watermarks={ACTIONS: 7}))
    assert bench.tool.calls == []


@pytest.mark.parametrize(
    ("event", "outcome", "code"),
    [
        (order_call(deadline_at=NOW), "denied", "expired"),
        (order_call("cancel_order", permissions=[]), "denied", "missing_permission"),
        (order_call(subject_id=None), "denied", "missing_subject"),
        (order_call("no_such_tool"), "failed", "tool_unavailable"),
        (order_call(arguments_json="[]"), "denied", "invalid_argument"),
        (order_call(arguments_json="{"), "denied", "invalid_argument"),
        (order_call(arguments_json="{}"), "denied", "invalid_argument"),
        (order_call(arguments_json='{"order_id":"../x"}'), "denied", "invalid_argument"),
    ],
)
async def test_what_must_not_be_called_is_refused(
    event: ActionEvent, outcome: str, code: str
) -> None:
    """The live catalog is asked again before anything is committed or sent."""
    bench = Bench()

    handled = await bench.run(event)

    assert brief(only(handled)) == (True, outcome, code, 0)
    assert (bench.tool.calls, bench.lane.committed) == ([], [])


async def test_public_data_needs_no_customer() -> None:
    """A tool of public scope is called without an authenticated customer."""
    bench = Bench(SHIPPED)

    result = only(await bench.run(order_call("list_stores", subject_id=None)))

    assert result.outcome == "done"


async def test_an_argument_fault_names_its_place() -> None:
    """The error of invalid arguments carries path and keyword for the decider."""
    result = only(await Bench().run(order_call(arguments_json='{"order_id":"B-1"}')))

    assert result.error is not None
    assert (result.error.path, result.error.keyword) == ("/order_id", "pattern")


@pytest.mark.parametrize(
    ("tool", "outcome"), [("get_order_status", "failed"), ("cancel_order", "outcome_unknown")]
)
async def test_a_result_too_long_for_its_readers(tool: str, outcome: str) -> None:
    """A result that could not be read by anybody is an error, small enough to be read."""
    bench = Bench(ToolReply(result={"status": "x" * 300_000}))

    handled = await bench.run(order_call(tool))

    assert brief(only(handled)) == (True, outcome, "invalid_result", 1)
    assert len(handled.publications[0].value or b"") < 2_000


async def test_a_defect_of_a_write_binding_leaves_the_outcome_unknown() -> None:
    """An exception out of the call is retried by the stream, which then finds STARTED."""
    bench = Bench(RuntimeError("defect"))
    event = order_call("cancel_order")
    with pytest.raises(RuntimeError, match="defect"):
        await bench.run(event)
    journal = bench.lane.committed[-1][1]

    handled = await bench.run(event, journal)

    assert only(handled).outcome == "outcome_unknown"
    assert len(bench.tool.calls) == 1


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        (None, "failed", "handler_failed"),
        (started(tool="cancel_order"), "outcome_unknown", "interrupted"),
    ],
)
def test_an_abandoned_call_has_a_result(state: Execution | None, outcome: str, code: str) -> None:
    """The conversation is told even when the handler itself fails for good."""
    bench = Bench()
    event = order_call("cancel_order")
    source = record(event, 7, topic=ACTIONS)

    handled = bench.handler.abandon(source, event, state, attempts=3, error=RuntimeError())

    assert brief(only(handled))[1:3] == (outcome, code)


@pytest.mark.parametrize(
    ("tool", "outcome"), [("cancel_order", "outcome_unknown"), ("get_order_status", "failed")]
)
def test_a_call_whose_journal_cannot_be_read_is_not_made(tool: str, outcome: str) -> None:
    """It was begun, or there would be no record; of a write nobody knows whether it happened."""
    bench = Bench()
    event = order_call(tool)
    source = record(event, 7, topic=ACTIONS)
    with pytest.raises(StateUnreadable, match="no migration to version 1") as raised:
        journal_format(retention_ms=RETENTION).load(b'{"record_version":0,"watermarks":{"a":1}}')
    assert (1, 0, {"a": 1}) == (raised.value.known, raised.value.found, raised.value.watermarks)

    handled = bench.handler.abandon(source, event, None, attempts=1, error=raised.value)

    assert (outcome, "interrupted") == brief(only(handled))[1:3]
    assert [] == bench.tool.calls


def test_a_repeated_action_is_refused() -> None:
    """A flood of one action makes no call."""
    bench = Bench()
    event = order_call()
    source = record(event, 7, topic=ACTIONS)

    assert only(bench.handler.flood(source, event, None)).outcome == "denied"
    ended = replace(started(), phase="done")
    assert bench.handler.flood(source, event, ended).publications == ()


@pytest.mark.parametrize(
    ("tool", "outcome"), [("cancel_order", "outcome_unknown"), ("get_order_status", "failed")]
)
def test_a_repeated_action_that_was_begun_is_ended(tool: str, outcome: str) -> None:
    """After a crash a flood may hold the only record that is left of it: somebody must be told."""
    bench = Bench()
    event = order_call(tool)

    handled = bench.handler.flood(record(event, 7, topic=ACTIONS), event, started(tool=tool))

    assert (True, outcome, "interrupted", 1) == brief(only(handled))
    assert handled.state is not None
    assert {ACTIONS: 7} == handled.state.watermarks


@pytest.mark.parametrize("action_id", ["", "a/b"])
def test_an_ambiguous_action_id_is_rejected(action_id: str) -> None:
    """An id that could be taken for another conversation's is not accepted."""
    event = order_call().model_copy(update={"action_id": action_id})

    with pytest.raises(Rejected, match="action_id"):
        Bench().handler.admit(record(event, topic=ACTIONS))


def test_the_journal_is_stored_and_read() -> None:
    """A record survives storage; a newer one parks its key; anything else is named unreadable."""
    layout = journal_format(retention_ms=RETENTION)
    state = replace(started(), watermarks={ACTIONS: 5})

    assert layout.load(layout.dump(state)) == state
    assert layout.watermark(state, ACTIONS) == 5
    assert layout.watermark(state, "other") == -1
    assert not layout.closed(state)
    ended = replace(state, phase="outcome_unknown")
    assert not layout.closed(ended)
    due_at = NOW + RETENTION + 60_000
    assert [TimerDue("expiry", "expiry", due_at)] == list(layout.timers(ended))
    (lost,) = layout.timers(state)
    assert TimerDue("get_order_status", "lost", due_at, after_backlog=True) == lost
    with pytest.raises(StateTooNew, match="2"):
        layout.load(b'{"record_version":2,"anything":1}')
    for junk in (b"\x00", b"[]", b"{}", b'{"record_version":1,"action_id":"secret"}'):
        with pytest.raises(StateUnreadable) as raised:
            layout.load(junk)
        assert "secret" not in str(raised.value)
        assert raised.value.kept_ms == RETENTION + 60_000


def test_a_write_must_fit_into_the_grace() -> None:
    """A write tool that a stop could not wait for refuses the start."""
    ruleset = Ruleset(catalog=catalog(), decision_version="d", presentation_version="p")

    check_write_timeouts(ruleset, grace_seconds=15.0)
    with pytest.raises(DeploymentError, match=r"tools\.cancel_order\.timeout_seconds is 5"):
        check_write_timeouts(ruleset, grace_seconds=5.0)


async def test_an_action_that_comes_again_is_not_called_again() -> None:
    """A mirrored topic or a replay repeats actions: the record of the first one answers."""
    bench = Bench(SHIPPED)
    first = await bench.run(order_call())

    again = await bench.run(order_call(), first.state)

    assert [] == list(again.publications)
    assert 1 == len(bench.tool.calls)


# --- who owns the partition ---------------------------------------------------------------------


async def test_a_write_is_not_begun_without_a_fresh_heartbeat() -> None:
    """Where the partition may have another owner, STARTED stays and no byte goes out."""
    bench = Bench(SHIPPED)
    bench.lane.owned = False

    with pytest.raises(OwnershipUncertain):
        await bench.run(order_call("cancel_order"))

    assert [] == bench.tool.calls
    assert ["started"] == [state.phase for _, state, _ in bench.lane.committed]


async def test_a_write_is_not_repeated_without_a_fresh_heartbeat() -> None:
    """Each attempt looks anew."""
    bench = Bench(DOWN, SHIPPED)

    def lost() -> None:
        bench.lane.owned = False

    bench.tool.during = lost
    with pytest.raises(OwnershipUncertain):
        await bench.run(order_call("create_label"))

    assert 1 == len(bench.tool.calls)


async def test_a_write_binding_can_look_right_before_it_sends() -> None:
    """What the binding calls before the first byte is the lane's own look; a read has none."""
    bench = Bench(SHIPPED, SHIPPED)
    await bench.run(order_call("create_label"))
    await bench.run(order_call())
    bench.lane.owned = False

    write, read = bench.tool.calls
    with pytest.raises(OwnershipUncertain):
        write.sending(write.arguments)
    read.sending(read.arguments)


async def test_a_read_needs_no_heartbeat() -> None:
    """Reading twice does no harm."""
    bench = Bench(SHIPPED)
    bench.lane.owned = False

    assert "done" == only(await bench.run(order_call())).outcome


# --- what became of a call ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected", "calls"),
    [
        ([DONE_BEFORE], ("done", None, 1), 0),
        ([SILENT, DONE_BEFORE], ("done", None, 1), 0),
        ([NOTHING_DONE], ("done", None, 2), 1),
        ([UNSURE], ("outcome_unknown", "interrupted", 1), 0),
        ([SILENT, SILENT, SILENT], ("outcome_unknown", "interrupted", 1), 0),
        (None, ("outcome_unknown", "interrupted", 1), 0),
    ],
)
async def test_a_begun_write_is_asked_about(
    known: Sequence[Reconciliation] | None, expected: tuple[str, str | None, int], calls: int
) -> None:
    """Found: its result; not there: called with the same key; otherwise unknown, never twice."""
    bench = Bench(SHIPPED, known=known)

    handled = await bench.run(order_call("cancel_order"), started(tool="cancel_order"))

    assert (True, *expected) == brief(only(handled))
    assert ["a-1"] * calls == [call.idempotency_key for call in bench.tool.calls]
    assert {"a-1"} >= {call.idempotency_key for call in bench.tool.asked}
    assert [] == bench.tool.known or known is None
    begun = [(state.phase, state.attempts) for _, state, _ in bench.lane.committed]
    assert [("started", 2)] * calls == begun


async def test_a_found_result_is_published_and_counted() -> None:
    """The result of the first call reaches the conversation as if its reply had."""
    bench = Bench(known=[DONE_BEFORE])

    result = only(await bench.run(order_call("cancel_order"), started(tool="cancel_order")))

    assert (True, '{"status":"cancelled"}') == (result.ok, result.result_json)
    labels = {"tool": "cancel_order", "verdict": "found"}
    assert 1 == bench.counted.value("tool_reconciliations_total", **labels)


@pytest.mark.parametrize("begun_at", [NOW - 40_000, NOW, NOW + 40_000])
async def test_a_call_that_may_still_run_is_waited_for_before_it_is_asked_about(
    begun_at: int,
) -> None:
    """A service at work does not know the call yet: not found would be no last word.

    How long ago the journal says it was begun does not count: its commit may have taken long, and
    it may be by another clock.
    """
    bench = Bench(SHIPPED, known=[NOTHING_DONE])
    begun = replace(started(tool="cancel_order"), updated_at=begun_at)

    await bench.run(order_call("cancel_order"), begun)

    assert [SESSION + bench.catalog.tools["cancel_order"].timeout_seconds] == bench.lane.rests
    assert (1, 1) == (len(bench.tool.asked), len(bench.tool.calls))


async def test_a_call_that_was_not_carried_out_and_is_too_late_has_failed() -> None:
    """Past its deadline nothing is called again, but the outcome is known."""
    bench = Bench(known=[NOTHING_DONE])
    event = order_call("cancel_order", deadline_at=NOW + 1_000)

    handled = await bench.run(event, started(tool="cancel_order"))

    assert (True, "failed", "interrupted", 1) == brief(only(handled))
    assert [] == bench.tool.calls


async def test_a_second_crash_is_asked_about_as_the_first() -> None:
    """A call made again after a reconciliation leaves STARTED behind as well."""
    bench = Bench(RuntimeError("defect"), known=[NOTHING_DONE, DONE_BEFORE])
    event = order_call("cancel_order")
    with pytest.raises(RuntimeError, match="defect"):
        await bench.run(event, started(tool="cancel_order"))

    handled = await bench.run(event, bench.lane.committed[-1][1])

    assert (True, "done", None, 2) == brief(only(handled))
    assert 1 == len(bench.tool.calls)


@pytest.mark.parametrize(
    ("tool", "replies", "known", "outcome"),
    [
        ("cancel_order", [TIMED_OUT], [DONE_BEFORE], "done"),
        ("cancel_order", [TIMED_OUT], [NOTHING_DONE], "outcome_unknown"),
        ("cancel_order", [TIMED_OUT], [UNSURE], "outcome_unknown"),
        ("create_label", [TIMED_OUT] * 3, [DONE_BEFORE], "done"),
    ],
)
async def test_a_reply_that_never_came_is_asked_for(
    tool: str, replies: list[ToolReply], known: list[Reconciliation], outcome: str
) -> None:
    """Found ends it; not found says little while the call may be under way: no second call."""
    bench = Bench(*replies, known=known)

    assert outcome == only(await bench.run(order_call(tool))).outcome
    assert len(replies) == len(bench.tool.calls)


async def test_an_idempotent_write_is_called_again_without_asking() -> None:
    """Its key is its protection."""
    bench = Bench(SHIPPED, known=[])

    result = only(await bench.run(order_call("create_label"), started(tool="create_label")))

    assert ("done", []) == (result.outcome, bench.tool.asked)


# --- how long a tool is left alone --------------------------------------------------------------


async def test_a_service_is_left_alone_as_long_as_it_asks() -> None:
    """Retry-After comes before the policy's own wait, which spreads those who return."""
    bench = Bench(replace(DOWN, retry_after_seconds=7.0), SHIPPED)

    assert (True, "done", None, 2) == brief(only(await bench.run(order_call())))
    (wait,) = bench.lane.rests
    assert 7.5 <= wait < 8.0


@pytest.mark.parametrize(
    ("seconds", "deadline"), [(11.0, DEADLINE), (9.0, NOW + 9_000)], ids=["policy", "deadline"]
)
async def test_a_wait_that_is_too_long_ends_the_call(seconds: float, deadline: int) -> None:
    """Neither the policy's bound nor the deadline is passed, and nobody is called too early."""
    bench = Bench(replace(DOWN, retry_after_seconds=seconds))

    handled = await bench.run(order_call(deadline_at=deadline))

    assert (True, "failed", "unavailable", 1) == brief(only(handled))
    assert [] == bench.lane.rests


async def test_a_tool_that_does_not_answer_is_left_alone_for_a_while() -> None:
    """After five failures in a row calls fail at once, then one may try."""
    bench = Bench(*[DOWN] * 5, SHIPPED, SHIPPED)
    labels = {"tool": "cancel_order"}
    for _ in range(5):
        await bench.run(order_call("cancel_order"))

    assert 2 == bench.counted.value("tool_breaker_state", **labels)
    refused = only(await bench.run(order_call("cancel_order")))
    assert (True, "failed", "tool_unavailable", 0) == brief(refused)
    assert (5, 5) == (len(bench.tool.calls), len(bench.lane.committed))

    bench.clock.now += 30
    assert 1 == bench.counted.value("tool_breaker_state", **labels)
    assert "done" == only(await bench.run(order_call("cancel_order"))).outcome
    assert 0 == bench.counted.value("tool_breaker_state", **labels)
    assert "done" == only(await bench.run(order_call("cancel_order"))).outcome


async def test_the_breaker_ends_a_call_between_its_attempts() -> None:
    """What others have met counts: no further attempt, and the last failure is the result."""
    bench = Bench(*[DOWN] * 5)
    await bench.run(order_call())

    handled = await bench.run(order_call())

    assert (True, "failed", "unavailable", 2) == brief(only(handled))
    assert 5 == len(bench.tool.calls)


async def test_business_errors_do_not_open_the_breaker() -> None:
    """Whoever refuses is there; what was never sent says nothing."""
    misconfigured = replace(NOT_FOUND, error_code="misconfigured")
    bench = Bench(*[DOWN] * 4, misconfigured, NOT_FOUND, *[DOWN] * 4)

    for _ in range(10):
        await bench.run(order_call("cancel_order"))

    assert 10 == len(bench.tool.calls)
    assert 0 == bench.counted.value("tool_breaker_state", tool="cancel_order")


# --- retention ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "outcome"), [(RETENTION, "denied"), (RETENTION - 1, "done")])
async def test_an_action_older_than_the_journal_is_refused(age: int, outcome: str) -> None:
    """Whatever its deadline says: the record that would tell of its call may be gone."""
    bench = Bench(SHIPPED)
    old = order_call().model_copy(update={"decided_at": NOW - age})

    result = only(await bench.run(old))

    assert outcome == result.outcome
    assert (outcome == "denied") == (result.error is not None and result.error.code == "expired")


@pytest.mark.parametrize(
    ("tool", "outcome"), [("cancel_order", "outcome_unknown"), ("get_order_status", "failed")]
)
def test_a_begun_call_whose_action_never_comes_back_is_reported(
    tool: str, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its record is given up, counted and logged, without the conversation's name."""
    bench = Bench()
    (due,) = journal_format(retention_ms=RETENTION).timers(started(tool=tool))

    bench.handler.timer(b"c-1/a-1", due)

    assert 1 == bench.counted.value("tool_calls_total", tool=tool, outcome=outcome)
    line = capsys.readouterr().out
    assert ("never came back" in line, tool in line, "c-1" in line) == (True, True, False)


def test_a_record_that_has_expired_is_given_up_quietly() -> None:
    """Its end was counted when it came."""
    bench = Bench()
    ended = replace(started(), phase="done")
    (due,) = journal_format(retention_ms=RETENTION).timers(ended)

    bench.handler.timer(b"c-1/a-1", due)
    assert 0 == bench.counted.value("tool_calls_total", tool="get_order_status", outcome="done")


async def test_a_record_outlives_the_deadline_by_the_retention() -> None:
    """A repeated action is passed over as long as it is remembered, and refused afterwards."""
    bench = Bench(SHIPPED)

    short = await bench.run(order_call(deadline_at=NOW + 1_000))
    long = await Bench(SHIPPED).run(order_call(deadline_at=NOW + 2 * RETENTION))

    assert short.state is not None
    assert NOW + RETENTION == short.state.expires_at
    assert long.state is not None
    assert NOW + 2 * RETENTION == long.state.expires_at


async def test_a_tool_that_has_changed_is_counted_and_not_left_alone() -> None:
    """Nothing was called, and that says nothing of whether somebody is there."""
    changed = replace(NOT_FOUND, error_code="schema_changed", error_message="another schema")
    bench = Bench(*[changed] * 6)

    briefs = [brief(only(await bench.run(order_call()))) for _ in range(6)]

    assert {(True, "failed", "schema_changed", 1)} == set(briefs)
    labels = {"tool": "get_order_status"}
    assert 6 == bench.counted.value("tool_schema_changes_total", **labels)
    assert 0 == bench.counted.value("tool_breaker_state", **labels)
