"""Calls of agent models that passed no gate: what is counted, logged and kept, and where."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import JsonValue

from tests.agents import RULES, calling, saying, wanting
from tests.unit.roles.altering import Desk, asked, order_tool
from tests.unit.roles.bench import (
    NOW,
    Clock,
    Counted,
    FakeLane,
    asked_of,
    intake,
    publisher,
    record,
    turn,
)
from turnstream.core.conversation import Conversation
from turnstream.core.events import SessionClaims
from turnstream.core.ports import Proposal, ToolCall, ToolReply
from turnstream.models.scripted import ScriptedDecider, Step
from turnstream.roles.decide import DecideHandler
from turnstream.roles.pending import PendingQuestions
from turnstream.roles.raw_sink import RawSink
from turnstream.stream import Handled, concluded

WORD = "secret-of-the-customer"
TEXT = "passed no gate"


class Kept(RawSink):
    """Keeps in memory what would be written."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, dict[str, JsonValue]]] = []

    def put(self, raw: str, about: Any) -> None:
        """Keep."""
        self.texts.append((raw, about))


def decided(
    *replies: Proposal, raw: RawSink | None = None, counted: Counted | None = None
) -> tuple[list[Any], Counted]:
    """One turn decided: what was logged of rejections, and the counters."""
    counted = counted or Counted(RULES.catalog)
    decider = ScriptedDecider([Step(one) for one in replies])
    handler = DecideHandler(
        intake=intake(),
        publisher=publisher("decide"),
        ruleset=RULES,
        **asked_of(decider, counted.metrics, clock=Clock()),
        metrics=counted.metrics,
        pending=PendingQuestions(topic="conversation.turns"),
        now_ms=lambda: NOW,
        raw=raw,
    )
    claims = SessionClaims(subject_id="c1", permissions=("refunds:write",), values={})
    source = record(turn("Hello", session_claims=claims), topic="conversation.turns")
    _, event = handler.admit(source)
    lane: FakeLane[Conversation] = FakeLane()
    with structlog.testing.capture_logs() as logs:
        handled = concluded(handler.handle(source, event, None, lane))
    assert isinstance(handled, Handled)
    assert WORD not in json.dumps(logs, default=str)
    return [one for one in logs if TEXT in one["event"]], counted


@pytest.mark.parametrize(
    ("tool", "arguments", "told", "gate"),
    [
        ("lookup_order", '{"order_id": "' + WORD, ("lookup_order", "parse", "/"), "parse"),
        ("lookup_order", {"order_id": WORD}, ("lookup_order", "pattern", "/order_id"), "schema"),
        ("list_orders", {WORD: 1}, ("list_orders", "additionalProperties", "/"), "schema"),
        ("list_orders", {"tags": [1]}, ("list_orders", "type", "/tags/0"), "schema"),
        ("get_order", {"order_id": "A-7"}, ("get_order", "provenance", "/order_id"), "provenance"),
        (WORD, "{}", ("unknown", None, "/"), "unknown_tool"),
    ],
)
def test_a_rejected_call_is_one_line_without_a_word(
    tool: str, arguments: Any, told: tuple[str, str | None, str], gate: str
) -> None:
    """Its id, tool, keyword and place by the catalog's names, and how long it was; no value."""
    kept = Kept()
    wrong = calling(wanting(tool, arguments, call_id="call_1"))
    logs, counted = decided(wrong, saying("Sorry."), raw=kept)
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"))

    (line,) = logs
    assert told == (line["tool"], line["keyword"], line["path"])
    assert ("call_1", gate, len(raw)) == (line["tool_call_id"], line["gate"], line["length"])
    label = tool if tool in RULES.catalog.tools else "other"
    assert 1 == counted.value("model_calls_rejected_total", tool=label, gate=gate)
    ((text, about),) = kept.texts
    assert raw == text
    assert ("c-1", "t-1", "call_1", gate) == tuple(
        about[name] for name in ("conversation_id", "turn_id", "tool_call_id", "gate")
    )


def test_an_id_that_a_model_may_have_written_is_not_logged() -> None:
    """It goes with the raw text alone."""
    kept = Kept()
    logs, _ = decided(
        calling(wanting("lookup_order", "{", call_id=f"{WORD} says")), saying("Sorry."), raw=kept
    )

    assert ["unknown"] == [line["tool_call_id"] for line in logs]
    assert f"{WORD} says" == kept.texts[0][1]["tool_call_id"]


def test_a_rejected_call_beside_a_sound_one_is_told_too() -> None:
    """Each rejected call of a reply has its line, in every try; a sound one has none."""
    sound = wanting("list_orders", {}, call_id="call_1")
    broken = wanting("lookup_order", None, call_id="call_2")
    odd = wanting("find_ticket", {"ticket_id": float("nan")}, call_id="call_3")
    logs, counted = decided(calling(sound, broken, odd))

    assert ["call_2", "call_3"] == [line["tool_call_id"] for line in logs]
    assert 0 == counted.value("model_calls_rejected_total", tool="list_orders", gate="schema")


def test_a_rejected_call_beside_one_that_decides_about_all_is_told_too() -> None:
    """A question to the customer comes first, and still the other call was wrong."""
    broken = wanting("list_orders", "{", call_id="call_1")
    secret = wanting("close_account", {}, call_id="call_2")
    logs, _ = decided(calling(broken, secret))

    assert ["call_1"] == [line["tool_call_id"] for line in logs]


def test_a_call_that_something_else_stands_against_is_not_rejected() -> None:
    """The same call twice in a reply passed every gate."""
    calls = [wanting("list_orders", {}, call_id=f"call_{number}") for number in (1, 2)]
    logs, _ = decided(calling(*calls))

    assert [] == logs


def test_arguments_of_any_kind_have_a_text() -> None:
    """What no JSON can hold stops nobody."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for odd in ({"x": deep}, {"x": "\ud800"}, {"x": 2**70}, {"x": {1, 2}}):
        kept = Kept()
        decided(calling(wanting("list_orders", odd)), saying("Sorry."), raw=kept)  # type: ignore[arg-type]

        assert 1 == len(kept.texts)


def test_a_sink_that_fails_stops_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted."""

    def write(descriptor: int, data: object) -> int:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr("turnstream.roles.raw_sink.os.write", write)
    counted = Counted(RULES.catalog)
    lost = counted.metrics.raw_text_lost
    sink = RawSink(
        tmp_path / "raw",
        role="decide",
        max_bytes=1_000,
        files=1,
        max_age_seconds=60,
        lost=lost,
        now_ms=lambda: NOW,
    )
    logs, _ = decided(
        calling(wanting("lookup_order", "{")), saying("Sorry."), raw=sink, counted=counted
    )
    sink.close()

    assert 1 == len(logs)
    assert 1 == counted.value("raw_texts_lost_total")


class Replying:
    """A binding with one reply."""

    reconciles = False

    def __init__(self, reply: ToolReply) -> None:
        self.reply = reply

    async def call(self, _: ToolCall) -> ToolReply:
        """Give it."""
        return self.reply


async def test_a_reply_that_is_no_result_is_kept() -> None:
    """With action, turn and call; its text stands in no result and no log."""
    kept = Kept()
    reply = ToolReply(None, "invalid_result", "not JSON", raw=f"<p>{WORD}\xff".encode("latin-1"))
    desk = Desk(Replying(reply), order_tool(), raw=kept)  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as logs:
        result = await desk.run(asked())

    assert WORD not in json.dumps(logs, default=str) + repr(result)
    ((text, about),) = kept.texts
    assert f"<p>{WORD}\ufffd" == text
    assert ("a-1", "t-1", "call-1", "invalid_result") == tuple(
        about[name] for name in ("action_id", "turn_id", "tool_call_id", "error")
    )
