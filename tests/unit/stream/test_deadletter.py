"""Dead letters carry the record untouched and say why."""

import orjson
import pytest

from turnstream import __version__
from turnstream.stream.deadletter import DeadLetterTopic, DeadRecord, addressee, dead_record

from .lane_fakes import record


def letter(*, max_bytes: int, value: bytes) -> DeadRecord:
    """Return a dead letter."""
    return dead_record(
        record(7, value=value, partition=5, headers=[("trace", b"\xff")]),
        topic=DeadLetterTopic("turns.dlq", partitions=3, max_bytes=max_bytes),
        role="decide",
        stage="intake",
        reason="malformed",
        detail="d" * 2_000,
        attempts=2,
    )


def test_keeps_key_value_and_headers_and_adds_the_error() -> None:
    """Bytes stay as they were; the error headers follow."""
    found = letter(max_bytes=10_000, value=b"\x00\xff")

    assert (b"k", b"\x00\xff", 2) == (found.key, found.value, found.partition)
    assert ("trace", b"\xff") == found.headers[0]
    assert {
        "turnstream.error.topic": b"turns",
        "turnstream.error.partition": b"5",
        "turnstream.error.offset": b"7",
        "turnstream.error.timestamp": b"1000",
        "turnstream.error.role": b"decide",
        "turnstream.error.stage": b"intake",
        "turnstream.error.reason": b"malformed",
        "turnstream.error.attempts": b"2",
        "turnstream.error.version": __version__.encode(),
        "turnstream.error.detail": b"d" * 512,
    } == dict(found.headers[1:])


def test_too_large_record_becomes_a_pointer() -> None:
    """What the topic would not take is named by its place and size."""
    found = letter(max_bytes=4_000, value=b"x" * 9_000)
    pointer = orjson.loads(found.value or b"")

    assert ("turns", 5, 7) == (pointer["topic"], pointer["partition"], pointer["offset"])
    assert pointer["size"] >= 9_000
    assert b"1" == dict(found.headers)["turnstream.error.pointer"]
    assert "trace" not in dict(found.headers)


ORIGIN = (
    ("turnstream.origin.topic", b"turns"),
    ("turnstream.origin.partition", b"1"),
    ("turnstream.origin.offset", b"7"),
)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((*ORIGIN, ("turnstream.origin.for", b"answer")), "answer"),
        ((("turnstream.origin.for", b"answer"), *ORIGIN), "answer"),
        (ORIGIN, None),
        ((*ORIGIN, ("turnstream.origin.for", None)), None),
        ((*ORIGIN, ("turnstream.origin.for", b"")), None),
        ((*ORIGIN, ("turnstream.origin.for", b"all")), None),
        ((*ORIGIN, ("turnstream.origin.for", b"decide")), None),
        ((*ORIGIN, ("turnstream.origin.for", b"\xff")), None),
        ((("turnstream.origin.for", b"answer"),), None),
        ((*ORIGIN[:2], ("turnstream.origin.for", b"answer")), None),
        (
            (("turnstream.origin.topic", b"x"), *ORIGIN[1:], ("turnstream.origin.for", b"answer")),
            None,
        ),
    ],
)
def test_a_record_is_one_roles_only_as_a_replay_in_its_own_topic(
    headers: tuple[tuple[str, bytes | None], ...], expected: str | None
) -> None:
    """Anybody may write headers: what a stray one excludes from all roles would be lost."""
    assert expected == addressee(headers, topic="turns", readers={"answer"})
