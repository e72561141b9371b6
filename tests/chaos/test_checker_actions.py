"""What the checker says of what became of actions: calls, journal, messages, ids, places."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.chaos import logs
from tests.chaos.ledger import Ledger
from tests.chaos.written import (
    ACTIONS,
    OUTBOUND,
    RESULTS,
    Decided,
    changed,
    findings,
    found,
    from_role,
    kept,
    ledger,
    result_of,
)
from tests.unit.roles.bench import NOW, record
from turnstream.core.events import ToolError
from turnstream.core.publications import OutboundMessage, Outcome
from turnstream.core.record import dump

CALL, ANSWER, HANDOFF = Decided("refund A-1"), Decided(), Decided("human")
(ACTION,) = CALL.actions
CALLED = NOW + 50
"""When the tool was called."""


def _called(folder: Path, *, phases: Mapping[str, int] | None = None, **result: Any) -> Ledger:
    """A run with one call and its effect, of which some parts are otherwise.

    Args:
        folder: for the tool's log.
        phases: of the journal, each with its time (ms).
        result: parts of the result.
    """
    effect = {"tool": "refund", "action_id": ACTION.action_id, "at": CALLED, "pid": 1}
    (folder / logs.EFFECTS).write_bytes(orjson.dumps(effect | {"slow": False}) + b"\n")
    run = CALL.written()
    run.with_calls, run.shadowed = True, False
    key = f"c-1/{ACTION.action_id}".encode()
    for phase, at in (phases or {"started": CALLED, "done": NOW + 100}).items():
        run.add(kept("execute", key, {"phase": phase}, at=at))
    one = result_of(ACTION).model_copy(update=result)
    run.results.append((record(one, topic=RESULTS), one))
    return run


UNKNOWN: dict[str, Any] = {
    "outcome": "outcome_unknown",
    "ok": False,
    "error": ToolError(code="interrupted", message=""),
}


@pytest.mark.parametrize(
    ("phases", "result", "expected"),
    [
        ({}, {}, set()),
        ({"started": CALLED + 1, "done": NOW + 100}, {}, {"begun_unwritten"}),
        ({"done": NOW + 100}, {}, {"begun_unwritten"}),
        ({"started": CALLED}, {}, {"untrue_journal"}),
        ({"started": CALLED, "outcome_unknown": NOW + 100}, {}, {"untrue_journal"}),
        ({}, {"name": "book"}, {"untrue_result"}),
        ({}, {"tool_call_id": "another"}, {"untrue_result"}),
        ({"started": CALLED, "outcome_unknown": NOW + 100}, UNKNOWN, {"unknown_unforced"}),
        (
            {"started": CALLED, "outcome_unknown": NOW + 9_000},
            UNKNOWN | {"occurred_at": NOW + 9_000},
            set(),
        ),
    ],
)
def test_a_call_its_journal_and_its_result_agree(
    phases: dict[str, int], result: dict[str, Any], expected: set[str], tmp_path: Path
) -> None:
    """It is written down before it is made, ends as is said, and is lost with a process only."""
    assert expected == found(
        _called(tmp_path, phases=phases, **result), tmp_path, CALL.fold(CALL.replies)
    )


@pytest.mark.parametrize(
    ("word", "looked", "expected"),
    [
        ("book", (CALLED - 3, CALLED - 1), {"done_twice"}),
        # It was stopped for longer than a session lasts, after it had looked.
        ("book", (CALLED - 9_000, CALLED - 1), set()),
        ("transfer", (None, None), {"done_twice"}),
    ],
)
def test_a_write_has_one_effect(
    word: str, looked: tuple[int | None, int | None], expected: set[str], tmp_path: Path
) -> None:
    """Of a tool that knows its keys again too, unless the second comes of a look long ago."""
    call = Decided(f"{word} A-1")
    (action,) = call.actions
    run = call.written()
    run.with_calls, run.shadowed = True, False
    key = f"c-1/{action.action_id}".encode()
    for phase, at in {"started": CALLED, "done": NOW + 100}.items():
        run.add(kept("execute", key, {"phase": phase}, at=at))
    one = result_of(action)
    run.results.append((record(one, topic=RESULTS), one))
    about = {"tool": word, "action_id": action.action_id, "slow": False}
    lines = [
        {**about, "at": CALLED, "pid": pid, "looked": since} for pid, since in enumerate(looked)
    ]
    (tmp_path / logs.EFFECTS).write_bytes(b"\n".join(map(orjson.dumps, lines)))

    assert expected == found(run, tmp_path, call.fold(call.replies))


def test_the_journal_and_the_results_are_of_calls(tmp_path: Path) -> None:
    """Nothing in either is of an action that nobody has ordered."""
    run = _called(tmp_path)
    run.actions.clear()

    assert {"done_unasked", "untrue_journal", "untrue_result"} <= found(run, tmp_path)


def _names(run: Ledger, folder: Path) -> set[str]:
    return {one.check for one in findings(run, folder)} & {
        "no_message",
        "wrong_message",
        "message_twice",
    }


def test_the_customer_sees_what_was_decided(tmp_path: Path) -> None:
    """Every handoff has its notice, once, with its text, from the role that decides."""
    fine, none, twice = HANDOFF.written(), HANDOFF.written(), HANDOFF.written()
    other, foreign = HANDOFF.written(), HANDOFF.written()
    ((one, message),) = fine.messages
    none.messages.clear()
    twice.messages *= 2
    other.messages = [(one, message.model_copy(update={"text": "something else"}))]
    foreign.messages = [(from_role(one, "answer"), message)]

    assert set() == _names(fine, tmp_path)
    assert {"no_message"} == _names(none, tmp_path)
    assert {"message_twice"} == _names(twice, tmp_path)
    assert {"wrong_message"} == _names(other, tmp_path)
    assert {"wrong_message"} == _names(foreign, tmp_path)


def test_a_message_is_of_something_that_was_decided(tmp_path: Path) -> None:
    """An answer that nobody has composed must not be seen."""
    run = ANSWER.written()
    ((one, action),) = run.actions
    message = OutboundMessage(
        message_id=action.action_id,
        conversation_id="c-1",
        channel_id="web",
        kind="answer",
        text="At nine.",
        locale="en",
        sequence=1,
        occurred_at=NOW,
    )
    run.messages.append((from_role(changed(one, topic=OUTBOUND), "answer"), message))

    assert {"wrong_message"} == _names(run, tmp_path)


@pytest.mark.parametrize("name", ["action_id", "decision_id"])
def test_ids_are_functions_of_the_input(name: str, tmp_path: Path) -> None:
    """Of the action, and of all actions of one input."""
    run = HANDOFF.written()
    ((one, action),) = run.actions
    run.actions = [(one, action.model_copy(update={name: "another"}))]

    assert "wrong_id" in found(run, tmp_path)


@pytest.mark.parametrize("change", [{"partition": 1}, {"key": b"c-2"}])
@pytest.mark.parametrize("topic", ["actions", "messages"])
def test_what_is_written_stays_with_its_conversation(
    topic: str, change: dict[str, Any], tmp_path: Path
) -> None:
    """Under its key, in its partition."""
    run = HANDOFF.written()
    ((one, event),) = getattr(run, topic)
    setattr(run, topic, [(changed(one, **change), event)])

    assert "astray" in found(run, tmp_path)


def test_a_record_names_its_writer(tmp_path: Path) -> None:
    """One that does not could be anybody's; and what customers write is of none of our roles."""
    for topic, role in ((ACTIONS, ""), ("conversation.turns", "shadow")):
        run = ledger()
        run.writers[topic, role] += 1

        assert {"wrong_writer"} == found(run, tmp_path)


def test_a_state_belongs_to_a_conversation_that_was(tmp_path: Path) -> None:
    """A record of a key that nobody has written to is a finding in every role."""
    for role in ("answer", "classify", "shadow"):
        run = ledger()
        run.add(kept(role, b"c-9", {}))

        assert [("state", f"{role}: {b'c-9'!r} has no input")] == [
            (one.check, one.where) for one in findings(run, tmp_path)
        ]


def test_the_end_of_a_question_is_said_once(tmp_path: Path) -> None:
    """Two outcomes of one input about one question are one too many."""
    run = HANDOFF.written()
    end = Outcome(
        of="question",
        outcome="expired",
        conversation_id="c-1",
        source=HANDOFF.actions[0].source,
        question_id="q-1",
        input_no=1,
        occurred_at=NOW,
    )
    run.outcomes = [(record(end, topic="conversation.outcomes"), end)]
    once = found(run, tmp_path)
    run.outcomes *= 2

    assert "decided_twice" not in once
    assert "decided_twice" in found(run, tmp_path)


def test_a_decision_is_folded_whole(tmp_path: Path) -> None:
    """Also what the contract does not name: the arguments of a call."""
    run = CALL.written()
    ((one, action),) = run.actions
    assert action.call is not None
    other = action.call.model_copy(update={"arguments_json": '{"order_id":"A-2"}'})
    run.actions = [(one, action.model_copy(update={"call": other}))]
    fold, state = CALL.fold(CALL.replies), orjson.loads(dump(CALL.state))

    for each, expected in ((CALL.written(), []), (run, ["state"])):
        each.add(kept("decide", b"c-1", state))
        found_there = [one.check for one in findings(each, tmp_path, fold)]
        assert expected == [one for one in found_there if one == "state"]
