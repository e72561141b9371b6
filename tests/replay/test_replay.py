"""Recorded conversations come out as they were recorded: same ids, same effects, same record."""

import pytest
from pydantic_core import from_json, to_json

from tests.catalogs import DEFINITION, ruleset
from tests.replay.recordings import NAMES, difference, read, record_of, replayed
from turnstream.core.record import dump, load

HOW = "if this is wanted, run `python -m tests.replay --write` and read what it changes"


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_comes_out_as_it_was(name: str) -> None:
    """Every event of every step, and what is stored at the end."""
    recorded = read(name)
    now = replayed(recorded)

    assert recorded == now, f"{difference(name, recorded, now)}\n{HOW}"


@pytest.mark.parametrize("name", NAMES)
def test_a_restart_after_every_step_changes_nothing(name: str) -> None:
    """What is not in the record is not needed to go on."""
    recorded = read(name)

    assert "" == difference(name, recorded, replayed(recorded, stored=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_that_was_stored_is_read(name: str) -> None:
    """Records are in changelogs for weeks: this version reads what an earlier build wrote."""
    recorded = read(name)
    conversation = record_of(recorded)

    assert recorded["record"] == from_json(dump(conversation))
    assert conversation == load(dump(conversation))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_kept_as_it_is_written(name: str) -> None:
    """So that a difference shows only what has changed."""
    recorded = read(name)

    assert "" == difference(name, recorded, from_json(to_json(recorded)))
    assert list(recorded) == ["about", "always", "steps", "record"]


def test_another_word_is_noticed() -> None:
    """The comparison bites: where one question reads otherwise, just that is the difference."""
    recorded = read("correction")
    order_id = {**DEFINITION["fields"]["order_id"], "question": {"en": "What order?"}}
    rules = ruleset(fields={**DEFINITION["fields"], "order_id": order_id})

    text = difference("correction", recorded, replayed(recorded, rules=rules))

    assert '+              "text": "What order?",' in text.splitlines()


def test_another_decision_is_noticed() -> None:
    """A machine that needs the decider at another moment cannot go through the recording."""
    rules = ruleset(thresholds={**DEFINITION["thresholds"], "ask": 0.95})

    with pytest.raises(AssertionError, match="none is open"):
        replayed(read("correction"), rules=rules)
