"""Dead letters read again: what they say, which are meant, in which order."""

from dataclasses import replace
from typing import Any

import pytest

from turnstream.stream.deadletter import (
    DeadLetterTopic,
    Place,
    Stage,
    dead_record,
    given_up_before,
    key_digest,
    record_size,
)
from turnstream.stream.handler import DeadLetterReason
from turnstream.stream.letters import (
    FOREIGN,
    Letter,
    Selection,
    in_order,
    overtaken,
    replayed_headers,
    split,
)

from .lane_fakes import record

Headers = tuple[tuple[str, bytes | None], ...]

DLQ = "turns.dlq"


def put_aside(
    offset: int = 7,
    *,
    role: str = "decide",
    stage: Stage = "intake",
    reason: DeadLetterReason = "malformed",
    at: int = 5_000,
    where: int = 0,
    max_bytes: int = 10_000,
    **given: Any,
) -> tuple[Letter, Headers]:
    """The letter of a record, read from where it was put, and all its headers."""
    topic = DeadLetterTopic(DLQ, partitions=1, max_bytes=max_bytes)
    dead = dead_record(
        record(offset, **given),
        topic=topic,
        role=role,
        stage=stage,
        reason=reason,
        detail="why",
        attempts=2,
    )
    kept = record(
        where, key=dead.key, value=dead.value, topic=DLQ, timestamp=at, headers=dead.headers
    )
    return Letter.of(kept), kept.headers


def letter(offset: int = 7, **given: Any) -> Letter:
    """The letter of a record."""
    return put_aside(offset, **given)[0]


def test_a_letter_says_what_it_was_and_why() -> None:
    """What was written is read: place, reason, attempts, times, size."""
    found = letter(partition=3, value=b"1234", timestamp=1_000)
    whole = record_size(b"k", b"1234", headers=())

    assert (Place("turns", 3, 7), "malformed", "why", 2) == (
        found.source,
        found.reason,
        found.detail,
        found.attempts,
    )
    assert (Place(DLQ, 0, 0), 5_000, 1_000, whole) == (
        found.place,
        found.at,
        found.source_at,
        found.size,
    )
    assert (found.source, 0, False) == (found.origin, found.replays, found.pointer)


def test_own_headers_come_back_even_if_they_look_like_ours() -> None:
    """A record that was a copy of a dead letter is replayed with all the headers that it had."""
    own: Headers = (("turnstream.error.topic", b"other"), ("trace", None), ("trace", b"\xff"))
    _, headers = put_aside(headers=own)

    assert own == split(headers)[0]
    assert (own, ()) != split(own)  # nothing but a lookalike: its own headers cannot be told


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("turnstream.error.topic", b"turns"),),
        (
            ("turnstream.error.topic", b"turns"),
            ("turnstream.error.partition", b"one"),
            ("turnstream.error.offset", b"9" * 5_000),
        ),
        (
            ("turnstream.error.topic", None),
            ("turnstream.error.partition", b"1"),
            ("turnstream.error.offset", b"1"),
        ),
    ],
)
def test_what_somebody_else_wrote_is_foreign(headers: Headers) -> None:
    """It is listed all the same; there is no record to replay."""
    found = Letter.of(replace(record(0, topic=DLQ), headers=headers))

    assert (FOREIGN, None, None) == (found.reason, found.source, found.origin)
    with pytest.raises(ValueError, match="does not say what record it was"):
        replayed_headers(found, (), recipient="all")


def test_a_replay_names_the_first_place_however_often_it_fails() -> None:
    """Headers of an earlier replay are replaced, all others stay in their order."""
    first, headers = put_aside(7, headers=(("trace", None), ("tenant", b"a")))
    once = replayed_headers(first, split(headers)[0], recipient="answer")
    again, headers = put_aside(90, headers=once, stage="handling", reason="handler_failed")
    twice = replayed_headers(again, split(headers)[0], recipient="all")
    third, _ = put_aside(91, headers=twice, stage="handling", reason="handler_failed")

    assert ("trace", None) == once[0] == twice[0]
    assert b"answer" == dict(once)["turnstream.origin.for"]
    assert {
        "turnstream.origin.topic": b"turns",
        "turnstream.origin.partition": b"0",
        "turnstream.origin.offset": b"7",
        "turnstream.origin.replays": b"2",
        "turnstream.origin.given_up": b"1",
    } == dict(twice[2:])
    assert (Place("turns", 0, 7), Place("turns", 0, 91), 2) == (
        third.origin,
        third.source,
        third.replays,
    )


@pytest.mark.parametrize(("stage", "used"), [("intake", 0), ("handling", 1)])
def test_ids_are_used_up_by_what_could_be_read(stage: Stage, used: int) -> None:
    """A record that nobody could read led to nothing, so its replay has the ids it always had."""
    found, headers = put_aside(reason="invalid", stage=stage)

    assert used == found.given_up
    assert used == given_up_before(replayed_headers(found, split(headers)[0], recipient="all"))


@pytest.mark.parametrize(
    ("role", "stage", "recipient"),
    [
        ("decide", "intake", "all"),
        ("execute", "intake", "all"),
        ("classify", "handling", "classify"),
        ("decide", "handling", "decide"),
        ("", "handling", None),
        ("tomorrow", "handling", None),
        ("decide", "tomorrow", None),
    ],
)
def test_a_letter_says_who_has_not_handled_its_record(
    role: str, stage: Any, recipient: str | None
) -> None:
    """The role that gave it up, or nobody has; what is not known is not guessed."""
    assert recipient == letter(role=role, stage=stage).recipient


@pytest.mark.parametrize("count", [b"", b"-1", b"x", b"1234567", b"\xb2", None])
def test_a_count_that_is_none_of_ours_is_none(count: bytes | None) -> None:
    """Anybody may write headers."""
    headers = (("turnstream.origin.given_up", count), ("turnstream.origin.replays", count))

    assert 0 == given_up_before(headers)
    assert letter(headers=headers).replays in {0, 1_234_567}


def test_a_pointer_keeps_what_a_replay_said() -> None:
    """Its record's own headers would not fit; without these its ids would change."""
    first, headers = put_aside(7, stage="handling")
    own = (("wide", b"x" * 9_000), ("turnstream.origin.stray", b"x" * 9_000))
    once = (*replayed_headers(first, split(headers)[0], recipient="decide"), *own)
    again, headers = put_aside(90, headers=once, stage="handling", max_bytes=4_000)
    twice = replayed_headers(again, once, recipient="all")
    third, _ = put_aside(91, headers=twice, stage="handling", max_bytes=4_000)

    assert (True, True) == (again.pointer, third.pointer)
    assert [(Place("turns", 0, 7), 1, 2), (Place("turns", 0, 7), 2, 3)] == [
        (one.origin, one.replays, one.given_up) for one in (again, third)
    ]
    assert "wide" not in dict(headers)
    assert "turnstream.origin.stray" not in dict(headers)


def test_a_pointer_says_how_large_its_record_is() -> None:
    """Whatever it says who has written it: anybody may."""
    assert 9_000 < letter(value=b"x" * 9_000, max_bytes=4_000).size < 10_000
    for value in (None, b"", b"x", b"[]", b"{}", b'{"size": -1}', b'{"size": {}}'):
        _, headers = put_aside(value=b"x" * 9_000, max_bytes=4_000)
        foreign = replace(record(0, topic=DLQ, value=value), headers=headers)

        assert 0 == Letter.of(foreign).size


def test_a_letters_size_is_that_of_its_whole_record() -> None:
    """As a pointer says it: the value may be the smallest part of it. Our own headers are none."""
    headers: Headers = (("trace", b"x" * 3_000), ("tenant", None))

    assert record_size(b"k", None, headers=headers) == letter(value=None, headers=headers).size
    assert letter(value=b"x" * 9_000, headers=headers, max_bytes=4_000).size == (
        letter(value=b"x" * 9_000, headers=headers, max_bytes=40_000).size
    )


def test_of_a_long_key_its_digest_is_kept() -> None:
    """There may be thousands; it is still known whose letter it is, and what overtakes it."""
    key, other = b"k" * 5_000, b"k" * 5_001
    first, second, third = (
        letter(offset, where=offset, key=one, max_bytes=20_000)
        for offset, one in ((1, key), (2, key), (3, other))
    )

    assert (None, key_digest(key)) == (first.key, first.key_digest)
    assert first.names(record(1, key=key, timestamp=first.source_at))
    assert not first.names(record(1, key=other, timestamp=first.source_at))
    assert not first.names(record(1, key=None, timestamp=first.source_at))
    assert [True, True, False] == [
        Selection(conversation=key).takes(one) for one in (first, second, third)
    ]
    assert [first] == overtaken([second], [first, third])
    assert [] == overtaken([third], [first, second])
    assert b"k" * 4_096 == letter(key=b"k" * 4_096).key


def test_what_headers_hold_is_bounded() -> None:
    """Somebody may have put a whole message into one; it would go into the audit and the list."""
    long = b"x" * 5_000
    names = ("role", "stage", "reason", "detail", "version")
    marks = (
        ("turnstream.error.topic", b"turns"),
        ("turnstream.error.partition", b"1"),
        ("turnstream.error.offset", b"1"),
        *((f"turnstream.error.{name}", long) for name in names),
    )
    found = Letter.of(replace(record(0, topic=DLQ), headers=marks))
    nowhere = Letter.of(
        replace(record(0, topic=DLQ), headers=(("turnstream.error.topic", long), *marks[1:]))
    )

    assert [100, 100, 100, 512, 100] == [len(getattr(found, name)) for name in names]
    assert (None, FOREIGN) == (nowhere.source, nowhere.reason)


def test_filters_hold_together() -> None:
    """Every one that is given must fit."""
    one = letter(7, key=b"c-1", at=5_000)
    fitting = Selection(
        places=frozenset({one.place}),
        sources=frozenset({"turns"}),
        reasons=frozenset({"malformed"}),
        conversation=b"c-1",
        since=5_000,
        until=5_001,
    )

    assert Selection().takes(one)
    assert fitting.takes(one)
    for change in (
        {"places": frozenset({Place(DLQ, 0, 1)})},
        {"sources": frozenset({"results"})},
        {"reasons": frozenset({"flood"})},
        {"conversation": b"c-2"},
        {"since": 5_001},
        {"until": 5_000},
    ):
        assert not replace(fitting, **change).takes(one)
    assert (True, False) == (Selection().everything, fitting.everything)


def test_letters_are_replayed_in_the_order_of_their_records() -> None:
    """By offset within a partition, whenever each was given up; by time across partitions."""
    letters = [
        letter(3, timestamp=40, where=0),
        letter(1, timestamp=50, where=1),
        letter(2, timestamp=10, where=2),
        letter(8, timestamp=45, where=3, partition=1),
        letter(9, timestamp=20, where=4, topic="results"),
    ]
    places = [str(one.source) for one in in_order(letters)]

    assert ["results/0/9", "turns/1/8", "turns/0/1", "turns/0/2", "turns/0/3"] == places


def test_letters_that_would_be_overtaken_are_named() -> None:
    """Earlier ones of a conversation and topic that are not chosen beside a later one."""
    early, late = letter(1, where=1), letter(5, where=5)
    other_key, other_topic = letter(2, where=2, key=b"x"), letter(3, where=3, topic="results")
    waiting = [early, other_key, other_topic, late]

    assert [early] == overtaken([late], waiting)
    assert [] == overtaken([early], waiting)
    assert [] == overtaken(waiting, waiting)


@pytest.mark.parametrize(
    "text", ["", "turns", "turns/1", "turns/x/1", "turns/1/-1", f"turns/{2**31}/0", "/1/x"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    """A place has a topic, a partition and an offset."""
    with pytest.raises(ValueError):  # noqa: PT011 - of several makers
        Place.parse(text)
    assert Place("a/b", 1, 2) == Place.parse("a/b/1/2")
