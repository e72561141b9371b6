"""The prefix of a source partition, and the time up to which it has been handled."""

from hypothesis import given
from hypothesis import strategies as st

from turnstream.stream.deadletter import dead_record
from turnstream.stream.source import Entry, Source

from .lane_fakes import LETTERS, TURNS, Tally, record


def taken(*offsets: int) -> tuple[Source[Tally], dict[int, Entry[Tally]]]:
    """Return a source with entries taken."""
    source: Source[Tally] = Source(TURNS, partition=0, priority=False, start=offsets[0])
    entries = {}
    for offset in offsets:
        each = record(offset)
        entries[offset] = Entry(each, source=source, key=b"k", event=None)
        source.order.append(entries[offset])
    return source, entries


def test_prefix_stops_at_the_first_unfinished_entry() -> None:
    """What is finished behind an unfinished entry is not passed."""
    source, entries = taken(5, 6, 9)
    entries[6].done = True

    assert not source.advance(letter_room=1)

    entries[5].done = True

    assert source.advance(letter_room=1)
    assert 7 == source.prefix


@given(st.permutations(range(8)))
def test_prefix_never_passes_an_unfinished_offset(order: list[int]) -> None:
    """Whatever the order of completion, with gaps in the offsets."""
    source, entries = taken(*(offset * 3 for offset in range(8)))
    finished: set[int] = set()
    for index in order:
        entries[index * 3].done = True
        finished.add(index)
        source.advance(letter_room=1)
        unfinished = [each * 3 for each in range(8) if each not in finished]

        assert all(offset >= source.prefix for offset in unfinished)
        assert source.prefix == (22 if not unfinished else _end_before(min(unfinished)))


def _end_before(offset: int) -> int:
    return 0 if offset == 0 else offset - 2


def test_end_offset_counts_once_everything_below_it_is_handled() -> None:
    """A control marker behind the last record does not hold the time back."""
    source, entries = taken(0, 1)
    source.observe_end(3, position=3, at=5_000)
    source.settle_mark()

    assert 0 == source.handled_through

    entries[0].done = entries[1].done = True
    source.advance(letter_room=1)
    source.settle_mark()

    assert 5_000 == source.handled_through


def test_later_end_offsets_do_not_move_the_mark() -> None:
    """A partition that is never idle still proves what it handled."""
    source, entries = taken(0, 1)
    source.observe_end(1, position=1, at=5_000)
    source.observe_end(99, position=2, at=9_000)
    entries[0].done = True
    source.advance(letter_room=1)
    source.settle_mark()

    assert 5_000 == source.handled_through


def test_what_waits_for_another_version_holds_the_time_of_no_other_key_back() -> None:
    """A parked record has no end here; whatever else is unfinished still counts."""
    source, entries = taken(0, 1, 2, 3)
    entries[1].key = entries[3].key = b"parked"
    source.observe_end(4, position=4, at=5_000)

    for finished, expected in ((0, 0), (2, 5_000)):
        source.settle_mark(parked={b"parked"})
        assert 0 == source.handled_through

        entries[finished].done = True
        source.advance(letter_room=1)
        source.settle_mark(parked={b"parked"})
        assert expected == source.handled_through

    assert 1 == source.prefix

    # Each later mark, too, though nothing has left the order since.
    entries[4] = Entry(record(4), source=source, key=b"k", event=None)
    source.order.append(entries[4])
    source.observe_end(5, position=5, at=6_000)
    source.settle_mark(parked={b"parked"})
    assert 5_000 == source.handled_through

    entries[4].done = True
    source.backlog.append(record(5))
    source.settle_mark(parked={b"parked"})
    assert 6_000 == source.handled_through

    source.observe_end(6, position=6, at=7_000)
    source.settle_mark(parked={b"parked"})
    assert (6_000, (6, 7_000)) == (source.handled_through, source.mark)


def test_the_prefix_stops_where_the_letters_of_a_transaction_are_full() -> None:
    """The letter that passes the bound is the last; what is left goes with the next prefix."""
    source, entries = taken(0, 1, 2, 3)
    for offset in (0, 1, 3):
        entries[offset].dead_record = dead_record(
            record(offset, value=b"x" * 1_000),
            topic=LETTERS[TURNS],
            role="decide",
            stage="intake",
            reason="malformed",
            detail="",
            attempts=1,
        )
    for entry in entries.values():
        entry.done = True
    size = len(b"x" * 1_000) + 1
    steps = []
    while source.has_finished:
        assert source.advance(letter_room=size)
        steps.append((source.prefix, len(source.letters)))

    assert [(1, 1), (2, 2), (4, 3)] == steps


def test_a_records_timestamp_proves_nothing() -> None:
    """It is its sender's: one from the future would speak for records that are still to come."""
    source, entries = taken(0, 1)
    entries[0].timestamp = 10**12
    entries[0].done = True

    assert source.advance(letter_room=1)
    source.settle_mark()
    assert 0 == source.handled_through


def test_what_was_observed_at_a_time_to_come_is_forgotten() -> None:
    """A clock put forward and back: the time passes again, with records of its own."""
    source, entries = taken(0)
    entries[0].done = True
    source.advance(letter_room=1)
    source.observe_end(1, position=1, at=9_000)
    source.settle_mark()
    source.observe_end(1, position=1, at=9_500)
    source.distrust(9_500)

    assert (9_000, (1, 9_500)) == (source.handled_through, source.mark)

    source.distrust(9_200)

    assert (9_000, None) == (source.handled_through, source.mark)

    source.distrust(8_999)

    assert 0 == source.handled_through
