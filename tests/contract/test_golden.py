"""The wire form of each action is pinned, byte for byte, in every version of its schema."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from turnstream.core.contract import ACTIONS
from turnstream.core.publications import ActionEvent
from turnstream.stream.codec import Codec


def golden(version: int) -> dict[str, Any]:
    """Name to event and bytes, as the newest build of that version wrote them."""
    path = Path(__file__).parent / f"golden_actions_v{version}.json"
    content: dict[str, Any] = orjson.loads(path.read_bytes())
    return content


VERSIONS = {version: golden(version) for version in (1, 2)}
NEWEST = max(VERSIONS)
EVERY = [(version, name) for version, events in VERSIONS.items() for name in events]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_action_has_a_golden_event(version: int) -> None:
    """None of the five actions is left out."""
    actions = {one["event"]["decision"]["action"] for one in VERSIONS[version].values()}

    assert sorted(ACTIONS) == sorted(actions)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_golden_bytes_are_read(version: int, name: str) -> None:
    """What an earlier build wrote is read as the same event; what it did not know is absent."""
    one = VERSIONS[version][name]
    event = ActionEvent.model_validate(one["event"])

    assert event == Codec().decode_as(ActionEvent, bytes.fromhex(one["hex"]))


@pytest.mark.parametrize("name", VERSIONS[NEWEST])
def test_golden_bodies_are_written(name: str) -> None:
    """The same event is the same bytes; with a new schema version, add new golden values."""
    one = VERSIONS[NEWEST][name]
    event = ActionEvent.model_validate(one["event"])

    assert one["hex"] == Codec().encode(event).hex()
