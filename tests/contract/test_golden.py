"""The wire form of each action is pinned, byte for byte."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from turnstream.core.contract import ACTIONS
from turnstream.core.publications import ActionEvent
from turnstream.stream.codec import Codec

GOLDEN: dict[str, Any] = orjson.loads((Path(__file__).parent / "golden_actions.json").read_bytes())


def test_every_action_has_a_golden_event() -> None:
    """None of the five actions is left out."""
    assert sorted(ACTIONS) == sorted(GOLDEN)


@pytest.mark.parametrize("action", ACTIONS)
def test_golden_bytes_are_read(action: str) -> None:
    """What an earlier build wrote is read as the same event."""
    event = ActionEvent.model_validate(GOLDEN[action]["event"])

    assert event == Codec().decode_as(ActionEvent, bytes.fromhex(GOLDEN[action]["hex"]))


@pytest.mark.parametrize("action", ACTIONS)
def test_golden_bodies_are_written(action: str) -> None:
    """The same event is the same bytes; with a new schema version, add new golden values."""
    event = ActionEvent.model_validate(GOLDEN[action]["event"])

    assert GOLDEN[action]["hex"] == Codec().encode(event).hex()
