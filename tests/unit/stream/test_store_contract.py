"""What every store of a lane's records promises, in memory and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnstream.stream.changelog import Changelog
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.rocks_store import open_records
from turnstream.stream.store import MemoryRecords, Records, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DAY_MS = 86_400_000


@pytest.fixture(params=["memory", "rocksdict"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records]:
    """An empty store of each kind."""
    opened: Records = (
        MemoryRecords()
        if request.param == "memory"
        else await open_records(
            "group",
            0,
            data_dir=str(tmp_path),
            changelog=Changelog("cluster", "changelog", "id", tombstones_kept_ms=DAY_MS),
        )
    )
    yield opened
    opened.close()


@pytest.fixture
def decoded() -> list[bytes]:
    """The values that `store` has decoded."""
    return []


@pytest.fixture
def store(records: Records, decoded: list[bytes]) -> Store[str]:
    """Both layers, over one committed record; one decoded state is kept."""

    def load(value: bytes) -> str:
        decoded.append(value)
        return value.decode()

    records.write({b"k": b"old"}, position=1)
    return Store(records, load=load, hot=1)


# The records.


def test_an_empty_store_knows_no_position(records: Records) -> None:
    """Everything is to be read from the changelog."""
    assert records.position is None
    assert 0 == len(records)
    assert [] == list(records.items())
    assert records.get(b"k") is None
    assert b"k" not in records


def test_what_was_written_is_read(records: Records) -> None:
    """The last value of a key counts, and the position of the last write that had one."""
    records.write({b"a": b"1", b"b": b"2"}, position=7)
    records.write({b"a": b"3"}, position=9, at=1)
    records.write({b"c": b""})

    assert {b"a": b"3", b"b": b"2", b"c": b""} == dict(records.items())
    assert b"3" == records.get(b"a")
    assert b"" == records.get(b"c")
    assert b"b" in records
    assert 3 == len(records)
    assert 9 == records.position


def test_removed_records_are_gone(records: Records) -> None:
    """A tombstone removes what there is; one without a record changes nothing."""
    records.write({b"a": b"1", b"b": b"2"}, position=2)
    records.write({b"a": None, b"never": None}, position=4)

    assert {b"b": b"2"} == dict(records.items())
    assert records.get(b"a") is None
    assert b"a" not in records
    assert 1 == len(records)


def test_changes_are_seen_before_and_after_a_scan(records: Records) -> None:
    """Counting and membership do not depend on when the store was read through."""
    records.write({b"a": b"1"})
    assert 1 == len(list(records.items()))
    records.write({b"b": b"2", b"a": None})

    assert [b"b"] == [key for key, _ in records.items()]
    assert b"b" in records
    assert b"a" not in records
    assert 1 == len(records)


@pytest.mark.parametrize(
    "key",
    [b"", b"!position", b"!identity", b"!imprint", b"k", b"\x00\xff", IMPRINT_KEY, "é".encode()],
)
def test_any_key_is_a_key(records: Records, key: bytes) -> None:
    """Nothing that a store keeps for itself can be met or overwritten by a record."""
    records.write({key: b"v"}, position=3)

    assert [(key, b"v")] == list(records.items())
    assert b"v" == records.get(key)
    assert 3 == records.position
    assert records.imprint is None


def test_a_position_alone_can_be_written(records: Records) -> None:
    """Control markers move the end of the changelog without a record."""
    records.write({}, position=12, at=1)

    assert 12 == records.position
    assert 0 == len(records)


def test_cleared_records_are_gone_with_their_position(records: Records) -> None:
    """What does not belong to the changelog is not mixed with what does."""
    records.write({b"a": b"1"}, position=5)
    records.clear("as told")

    assert records.position is None
    assert [] == list(records.items())
    assert records.get(b"a") is None

    records.write({b"b": b"2"}, position=1)

    assert {b"b": b"2"} == dict(records.items())


def test_what_the_changelog_says_of_itself_is_kept_and_is_no_record(records: Records) -> None:
    """It is neither listed nor counted, and stays until something else is said."""
    said = [records.imprint]
    records.write({b"a": b"1"}, position=2, imprint=b"one")
    records.write({b"b": b"2"}, position=4)
    said.append(records.imprint)

    assert {b"a": b"1", b"b": b"2"} == dict(records.items())
    assert 2 == len(records)

    records.write({}, position=6, imprint=b"two")
    said.append(records.imprint)
    records.write({}, position=8, imprint=b"")
    said.append(records.imprint)
    records.write({}, position=9, imprint=b"three")
    records.clear("as told")
    said.append(records.imprint)

    assert [None, b"one", b"two", None, None] == said


def test_close_may_be_called_again(records: Records) -> None:
    """A lane and whoever opened its store both close it."""
    records.close()
    records.close()


# Both layers.


def test_reads_the_uncommitted_state_first(store: Store[str]) -> None:
    """A later input of a key sees the state its predecessor left, committed or not."""
    store.put(b"k", "new")

    assert "new" == store.get(b"k")
    assert store.is_pending(b"k")


def test_removed_state_reads_as_none_before_and_after_the_commit(store: Store[str]) -> None:
    """Removing a state hides the committed record at once."""
    store.put(b"k", None)

    assert store.get(b"k") is None
    assert store.has_record(b"k")

    store.commit({b"k": None}, states={b"k": None})

    assert store.get(b"k") is None
    assert not store.has_record(b"k")
    assert not store.is_pending(b"k")


def test_commit_of_an_older_state_keeps_the_newer_one(store: Store[str], records: Records) -> None:
    """A transaction commits what it took; the next state of the key stays uncommitted."""
    store.put(b"k", "one")
    store.put(b"k", "two")
    store.commit({b"k": b"one"}, states={b"k": "one"}, position=2)

    assert "two" == store.get(b"k")
    assert store.is_pending(b"k")
    assert b"one" == records.get(b"k")
    assert 2 == records.position


def test_uncommitted_states_never_reach_the_records(store: Store[str], records: Records) -> None:
    """What is lost with its transaction must be lost altogether."""
    store.put(b"k", "new")
    store.put(b"other", "new")

    assert {b"k": b"old"} == dict(records.items())
    assert 1 == records.position
    assert 1 == len(store)


def test_decoded_states_are_bounded(store: Store[str], decoded: list[bytes]) -> None:
    """Only the keys used last stay decoded."""
    store.get(b"k")
    store.get(b"k")
    store.put(b"other", "x")
    store.commit({b"other": b"x"}, states={b"other": "x"})
    store.get(b"k")

    assert [b"old", b"old"] == decoded
    assert 2 == len(store)
