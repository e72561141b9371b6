"""What the checker says of committed offsets: of every role, by its own traces."""

from pathlib import Path

import orjson
import pytest

from tests.chaos.ledger import Ledger, Letter
from tests.chaos.written import (
    ACTIONS,
    ANSWERS,
    CONTROL,
    RESULTS,
    TURNS,
    Decided,
    changed,
    control,
    findings,
    kept,
    ledger,
    result_of,
)
from tests.unit.roles.bench import NOW, record
from turnstream.core.events import Answer
from turnstream.core.publications import ActionEvent
from turnstream.core.record import dump

LOOKED = NOW + 1_000
"""When the offsets were looked at that pass the one input."""

CALL, ANSWER = Decided("refund A-1"), Decided()
OF_ROLE = {"decide": ANSWER, "execute": CALL, "answer": ANSWER, "classify": ANSWER, "shadow": CALL}
READS = {"decide": TURNS, "execute": ACTIONS, "answer": ACTIONS, "classify": TURNS}
"""Role to the topic whose offset it passes; the shadow's is that of the actions as well."""


def _finished(role: str, *, at: int) -> Ledger:
    """A run in which a role has finished its input at a time (ms)."""
    decided = OF_ROLE[role]
    run = decided.written()
    (action,) = decided.actions
    if role == "execute":
        _result(run, action, at=at)
    elif role == "answer":
        _answer(run, action, at=at)
    else:
        value = {"watermarks": {READS.get(role, ACTIONS): 0}}
        run.add(kept(role, b"c-1", orjson.loads(dump(decided.state)) | value, at=at))
    run.look(role, {}, at=NOW - 1)
    run.look(role, {(READS.get(role, ACTIONS), 0): 1}, at=LOOKED)
    return run


@pytest.mark.parametrize("role", OF_ROLE)
def test_an_offset_passes_what_was_finished_before(role: str, tmp_path: Path) -> None:
    """A trace that is older than the look is in order."""
    assert [] == _passed(_finished(role, at=LOOKED), tmp_path)


@pytest.mark.parametrize("role", OF_ROLE)
def test_an_offset_that_passes_an_unfinished_input_is_found(role: str, tmp_path: Path) -> None:
    """In every role, and by name: what is finished later, or never, was passed unfinished."""
    expected = [f"{role}: {(READS.get(role, ACTIONS), 0, 0)}"]
    never = OF_ROLE[role].written()
    never.look(role, {(READS.get(role, ACTIONS), 0): 1}, at=LOOKED)

    assert expected == _passed(_finished(role, at=LOOKED + 1), tmp_path)
    assert expected == _passed(never, tmp_path)


def test_a_call_is_not_finished_by_its_result_alone(tmp_path: Path) -> None:
    """Nor by the journal alone: both were to be committed with the offset."""
    (action,) = CALL.actions
    for late in ("result", "journal"):
        run = CALL.written()
        _result(run, action, at=LOOKED, journal_at=LOOKED + (late == "journal"))
        if late == "result":
            run.results = [(changed(one, timestamp=LOOKED + 1), each) for one, each in run.results]
        run.look("execute", {(ACTIONS, 0): 1}, at=LOOKED)

        assert [f"execute: {(ACTIONS, 0, 0)}"] == _passed(run, tmp_path)


def test_a_turn_is_not_finished_by_its_state_alone(tmp_path: Path) -> None:
    """What was decided is committed with the offset as well, also where the conversation ended."""
    run = _finished("decide", at=LOOKED)
    run.actions = [(changed(one, timestamp=LOOKED + 1), each) for one, each in run.actions]
    _end(run, at=NOW)

    assert [f"decide: {(TURNS, 0, 0)}"] == _passed(run, tmp_path)


@pytest.mark.parametrize("role", ["decide", "classify", "shadow"])
def test_only_an_end_before_the_look_excuses_a_state(role: str, tmp_path: Path) -> None:
    """A conversation that was told to end need not be in the changelog any more, from then on."""
    before, after = _finished(role, at=LOOKED + 1), _finished(role, at=LOOKED + 1)
    _end(before, at=LOOKED)
    _end(after, at=LOOKED + 1)

    assert [] == _passed(before, tmp_path)
    assert [f"{role}: {(READS.get(role, ACTIONS), 0, 0)}"] == _passed(after, tmp_path)


def test_a_letter_finishes_an_input_of_its_own_role_only(tmp_path: Path) -> None:
    """What decide gave up, the classifier has still to handle."""
    for writer, expected in (("classify", []), ("decide", [f"classify: {(TURNS, 0, 0)}"])):
        run = ANSWER.written()
        dead = record(ANSWER.turn, topic=f"{TURNS}.dlq")
        letter = Letter(dead, writer, "handling", "handler_failed", pointer=False)
        run.letters[writer, (TURNS, 0, 0)].append(letter)
        run.look("classify", {(TURNS, 0): 1}, at=LOOKED)

        assert expected == _passed(run, tmp_path)


def test_what_is_not_read_yet_is_not_judged(tmp_path: Path) -> None:
    """The trace of an offset that was seen may be among the records that are still to come."""
    run = CALL.written()
    run.look("execute", {(ACTIONS, 0): 1}, at=LOOKED)
    run.whole_until = LOOKED - 1
    early = _passed(run, tmp_path)
    run.whole_until = LOOKED

    assert ([], [f"execute: {(ACTIONS, 0, 0)}"]) == (early, _passed(run, tmp_path))


def test_committed_offsets_never_go_back(tmp_path: Path) -> None:
    """A process that was replaced and commits once more is found, in any role."""
    run = ledger()
    for offset in (5, 5, 7, 6):
        run.look("answer", {(ACTIONS, 1): offset}, at=NOW)

    found = [one for one in findings(run, tmp_path) if one.check == "offset_back"]

    assert [f"answer: {(ACTIONS, 1)} from 7 to 6"] == [one.where for one in found]


# --- records --------------------------------------------------------------------------------------


def _passed(run: Ledger, folder: Path) -> list[str]:
    return [one.where for one in findings(run, folder) if one.check == "offset_passed"]


def _end(run: Ledger, *, at: int) -> None:
    close = control("close")
    one = changed(record(close, topic=CONTROL), timestamp=at)
    run.sources[CONTROL, 0, 0] = (one, close)


def _result(run: Ledger, action: ActionEvent, *, at: int, journal_at: int | None = None) -> None:
    result = result_of(action)
    run.results.append((changed(record(result, topic=RESULTS), timestamp=at), result))
    key = f"c-1/{action.action_id}".encode()
    # Begun is not finished.
    run.add(kept("execute", key, {"phase": "started"}))
    run.add(kept("execute", key, {"phase": "done"}, at=at if journal_at is None else journal_at))


def _answer(run: Ledger, action: ActionEvent, *, at: int) -> None:
    answer = Answer(
        action_id=action.action_id,
        conversation_id="c-1",
        turn_id=action.turn_id,
        text="At nine.",
        failure=None,
        model="",
        occurred_at=0,
    )
    run.answers.append((changed(record(answer, topic=ANSWERS), timestamp=at), answer))
