"""What a changelog says of itself, and what is not read or added to."""

import pytest

from turnstream.stream import imprint
from turnstream.stream.imprint import (
    FORMAT,
    IMPRINT_KEY,
    check_imprint,
    check_partition,
    imprint_of,
    recreated,
    renewed,
)
from turnstream.stream.restore import RestoredState
from turnstream.stream.role import StartRefused
from turnstream.stream.topic_ids import TopicIds

from .lane_fakes import record


def checked(value: bytes | None, *, partitions: int | None = 4) -> str:
    """What is wrong with partition 2 of a changelog, nothing if it may be used."""
    try:
        check_imprint(value, changelog="state", partition=2, partitions=partitions)
    except StartRefused as refused:
        return str(refused)
    return ""


def test_its_key_is_no_text() -> None:
    """Keys of conversations are UTF-8, so none can ever be this one."""
    with pytest.raises(UnicodeDecodeError):
        IMPRINT_KEY.decode()


@pytest.mark.parametrize(
    "value", [imprint_of(4), None, b"", b'{"format":1,"partitions":4,"more":[]}']
)
def test_what_this_program_wrote_or_one_before_it_may_be_used(value: bytes | None) -> None:
    """A changelog that says nothing is of the first format; one may say more than is known."""
    assert "" == checked(value)
    assert "" == checked(value, partitions=None)


def test_an_older_format_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knows a format knows those before it."""
    older = imprint_of(4)
    monkeypatch.setattr(imprint, "FORMAT", FORMAT + 1)

    assert older != imprint_of(4)
    assert "" == checked(older)


@pytest.mark.parametrize(
    "value", [b'{"format":2,"partitions":4}', b'{"format":2}', b'{"format":"x"}']
)
def test_a_newer_format_is_refused_with_what_to_do(value: bytes) -> None:
    """Topic, partition, both versions, and which program can go on."""
    problem = checked(value)

    found = "2" if b"2" in value else "'x'"
    for part in (
        "changelog 'state' partition 2",
        f"has format {found}",
        f"formats up to {FORMAT}",
        "Run that version, or a newer one",
    ):
        assert part in problem


@pytest.mark.parametrize("value", [b"junk", b"[]", b"1", b"{}", b"\xff"])
def test_what_cannot_be_made_out_is_refused(value: bytes) -> None:
    """Anything may follow such a record."""
    problem = checked(value)

    assert "changelog 'state' partition 2 does not say its format" in problem
    assert "run the version of Turnstream that wrote it" in problem


def test_another_partition_count_is_refused_with_the_migration() -> None:
    """Both counts, and how the state gets to where its keys are now."""
    problem = checked(imprint_of(4), partitions=8)

    assert "partition 2 was written for 4 partitions, the topics now have 8" in problem
    assert "migrate the state" in problem
    assert "topics.prefix" in problem
    assert "" == checked(imprint_of(4), partitions=None)


@pytest.mark.parametrize(
    ("former", "told", "kept"),
    [
        (("here", {"a": "1", "b": "2"}), ("here", {"a": "1"}), ("here", {"a": "1", "b": "2"})),
        (("here", {"a": "1", "b": "2"}), ("here", {"a": "3"}), ("here", {"a": "3", "b": "2"})),
        (("here", {"a": "1"}), ("", {}), ("here", {"a": "1"})),
        (("here", {"a": "1", "b": "2"}), ("mirror", {"a": "4"}), ("mirror", {"a": "4"})),
        (("", {}), ("here", {"a": "1"}), ("here", {"a": "1"})),
    ],
)
def test_a_topic_whose_id_is_not_told_stays_known_by_its_former_one(
    former: tuple[str, dict[str, str]],
    told: tuple[str, dict[str, str]],
    kept: tuple[str, dict[str, str]],
) -> None:
    """Else one that is made anew later would pass for it; another cluster has other topics."""
    value = renewed(imprint_of(4, TopicIds(*told)), former=imprint_of(4, TopicIds(*former)))

    assert imprint_of(4, TopicIds(*kept)) == value
    assert imprint_of(4, TopicIds(*told)) == renewed(imprint_of(4, TopicIds(*told)), former=None)


def test_a_changelog_is_among_the_topics_that_it_knows() -> None:
    """One with the records of another has the other's id."""
    value = imprint_of(4, TopicIds("here", {"turns": "1", "state": "2"}))

    assert {"state"} == recreated(value, TopicIds("here", {"turns": "1", "state": "3"}))
    assert set() == recreated(value, TopicIds("mirror", {"turns": "1", "state": "3"}))


def test_partitions_that_were_there_at_the_start_may_be_taken() -> None:
    """One that was added since has no state, though its conversations may have one."""
    check_partition(3, changelog="state", partitions=4)
    check_partition(9, changelog="state", partitions=None)
    with pytest.raises(StartRefused, match="for 4 partitions, the topics now have more, such as 4"):
        check_partition(4, changelog="state", partitions=4)


def test_a_restore_tells_it_from_the_records() -> None:
    """It is not counted; the last one holds, and a tombstone takes it back."""
    state = RestoredState()
    state.apply(
        [
            record(0, key=IMPRINT_KEY, value=b"one"),
            record(1, key=b"a", value=b"1"),
            record(2, key=IMPRINT_KEY, value=b"two"),
        ],
        position=3,
    )

    assert b"two" == state.records.imprint
    assert {b"a": b"1"} == dict(state.records.items())
    assert 1 == state.read

    state.apply([record(3, key=b"b", value=b"2")], position=4)

    assert b"two" == state.records.imprint

    state.apply([record(4, key=IMPRINT_KEY, value=None)], position=5)

    assert state.records.imprint is None
