"""The audit says what was done about a letter, and nothing that a customer wrote."""

import orjson
import pytest

from turnstream.stream.audit import AuditRecord, AuditUnreadable, name_of, read_audit
from turnstream.stream.deadletter import Place
from turnstream.stream.topics import load_topics

from .test_letters import letter

PLACE = Place("turnstream.audit", 0, 3)


def test_a_record_comes_back() -> None:
    """It names the letter, its record, who acted, when and why; never the key or the value."""
    one = letter(7, key=b"SENTINEL-KEY", value=b"SENTINEL-VALUE")
    written = AuditRecord.about(
        one, action="replayed", at=9_000, actor="ann", because="mended", sent_to="turns/0"
    )
    key, value = written.encode()

    assert b"turns.dlq/0/0" == key
    assert written == read_audit(value, place=PLACE)
    assert (name_of(one), 1, "turns/0/7") == (written.name, written.replay, written.origin)
    assert b"SENTINEL" not in value


def test_what_a_newer_version_adds_is_passed_over() -> None:
    """The letter is understood."""
    _, value = AuditRecord.about(
        letter(), action="discarded", at=1, actor="ann", because=None
    ).encode()
    more = orjson.dumps(orjson.loads(value) | {"colour": "red"})

    assert read_audit(value, place=PLACE) == read_audit(more, place=PLACE)


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b'{"version": 2}', b"\xff"])
def test_what_is_not_understood_is_named(value: bytes | None) -> None:
    """A letter might be replayed twice, so nothing is done."""
    with pytest.raises(AuditUnreadable, match=r"turnstream\.audit/0/3 is no audit record"):
        read_audit(value, place=PLACE)


def test_the_audit_is_kept_longer_than_any_letter() -> None:
    """A letter that is still there is known to be done with."""
    definitions = {one.name: one for one in load_topics()}
    letters = [one.dlq.retention for one in definitions.values() if one.dlq is not None]
    kept = definitions["turnstream.audit"].retention

    assert kept is not None
    assert kept > 2 * max(letters)
