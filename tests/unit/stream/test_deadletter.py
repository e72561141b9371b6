"""Dead letters carry the record untouched and say why."""

import orjson

from turnstream import __version__
from turnstream.stream.deadletter import DeadLetterTopic, DeadRecord, dead_record

from .lane_fakes import record


def letter(*, max_bytes: int, value: bytes) -> DeadRecord:
    """Return a dead letter."""
    return dead_record(
        record(7, value=value, partition=5, headers=[("trace", b"\xff")]),
        topic=DeadLetterTopic("turns.dlq", partitions=3, max_bytes=max_bytes),
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
