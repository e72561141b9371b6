"""What the checker says of dead letters: of whose they are, what they are about, how many."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos import shop
from tests.chaos.ledger import Ledger
from tests.chaos.reading import DEAD
from tests.chaos.stage import said
from tests.chaos.written import (
    ACTIONS,
    QUESTION,
    TURNS,
    Decided,
    changed,
    findings,
    found,
    ledger,
)
from tests.unit.roles.bench import CODEC, intake, record
from turnstream.stream import Record
from turnstream.stream.topic_definitions import load_topics


def _run() -> Ledger:
    """A run in which nothing has happened, and which reads turns and dead letters."""
    run = ledger()
    run.intake = intake()
    run.decode = CODEC.decode
    dead = (f"{TURNS}.dlq", f"{ACTIONS}.dlq", "shadow.proposals.dlq")
    run.logical = {name: name for name in (TURNS, ACTIONS, *dead)}
    return run


def _turn(text: str = QUESTION) -> Record:
    return record(said("c-1", 1, text), topic=TURNS)


def _refused() -> Record:
    return changed(_turn(), value=b"no turn")


def _letter(about: Record, role: str, *, stage: str = "handling", **more: Any) -> Record:
    """The dead letter of a record, some of its parts changed."""
    fields = {
        "topic": about.topic,
        "partition": str(about.partition),
        "offset": str(about.offset),
        "role": role,
        "stage": stage,
        "reason": "handler_failed" if stage == "handling" else "malformed",
    }
    topic = "shadow.proposals.dlq" if role == "shadow" else f"{about.topic}.dlq"
    given = {name: more.pop(name) for name in ("reason", "offset") if name in more}
    headers = tuple(
        (f"turnstream.error.{name}", value.encode()) for name, value in (fields | given).items()
    )
    return changed(about, topic=topic, headers=headers, **more)


def _read(*records: Record) -> Ledger:
    run = _run()
    for one in records:
        run.add(one)
    return run


@pytest.mark.parametrize("role", ["classify", "answer", "shadow"])
def test_a_letter_of_another_role_settles_no_turn(role: str, tmp_path: Path) -> None:
    """The turn is still waited for, undecided, and no part of the fold."""
    turn = _turn()
    run = _read(turn, _letter(turn, role))
    names = {one.check for one in findings(run, tmp_path)}

    assert {(TURNS, 0, 0)} == run.open
    assert run.given_up("decide", (TURNS, 0, 0)) is None
    assert {"undecided_turn", "wrong_letter"} <= names


def test_a_letter_of_decide_settles_a_turn(tmp_path: Path) -> None:
    """Also where it is read before the turn."""
    turn = _turn(shop.BUG)
    letter = _letter(turn, "decide")

    for run in (_read(turn, letter), _read(letter, turn)):
        assert set() == run.open
        assert "undecided_turn" not in {one.check for one in findings(run, tmp_path)}
        assert set() == found(run, tmp_path)


def test_what_no_role_can_read_has_one_letter(tmp_path: Path) -> None:
    """Of decide, with the reason for which it must be refused."""
    bad = _refused()
    letter = _letter(bad, "decide", stage="intake", reason="malformed")
    other = _letter(bad, "decide", stage="intake", reason="oversized")
    twin = _letter(bad, "classify", stage="intake", reason="malformed")
    here = _run()
    here.add(bad)

    assert {(TURNS, 0, 0): "malformed"} == here.refused
    assert set() == found(_read(bad, letter), tmp_path)
    assert {"wrong_letter"} == found(_read(bad, other), tmp_path)
    assert {"dead_twice"} == found(_read(bad, letter, letter), tmp_path)
    assert {"dead_twice", "wrong_letter"} == found(_read(bad, letter, twin), tmp_path)


@pytest.mark.parametrize("role", ["execute", "classify", "shadow"])
def test_letters_of_every_role_are_counted(role: str, tmp_path: Path) -> None:
    """One per record and role, in every dead-letter topic."""
    (action,) = Decided().actions
    one = record(action, topic=ACTIONS)
    letter = _letter(one, role)

    assert "dead_twice" not in found(_read(one, letter), tmp_path)
    assert "dead_twice" in found(_read(one, letter, letter), tmp_path)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (QUESTION, {}),
        (shop.BUG, {"stage": "intake"}),
        (shop.BUG, {"reason": "state_unreadable"}),
        (shop.BUG, {"value": b"other bytes"}),
        (shop.BUG, {"key": b"c-2"}),
        (shop.BUG, {"topic": f"{ACTIONS}.dlq"}),
    ],
)
def test_only_what_must_be_given_up_is_a_dead_letter(
    text: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Whoever gives everything up would lose nothing otherwise; and its bytes are untouched."""
    turn = _turn(text)
    letter = _letter(turn, "decide", stage=changes.pop("stage", "handling"))
    if "reason" in changes:
        letter = _letter(turn, "decide", **changes)
    else:
        letter = changed(letter, **changes)

    assert "wrong_letter" in found(_read(turn, letter), tmp_path)


def test_a_letter_is_about_a_committed_record(tmp_path: Path) -> None:
    """What its writer took back is no input of anybody."""
    turn = _turn(shop.BUG)

    assert {"not_committed"} == found(_read(_letter(turn, "decide", offset="7")), tmp_path)


def test_what_is_refused_is_not_decided(tmp_path: Path) -> None:
    """A record that nobody can read has its letter and no action."""
    bad, (action,) = _refused(), Decided().actions
    run = _read(bad, _letter(bad, "decide", stage="intake"), record(action, topic=ACTIONS))

    assert "decided_twice" in found(run, tmp_path)


def test_every_dead_letter_topic_is_read() -> None:
    """Whoever writes to one of them, the checker sees it."""
    assert {f"{one.name}.dlq" for one in load_topics() if one.dlq is not None} == set(DEAD)
