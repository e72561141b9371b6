"""Closed keys wait for the topics that still need them."""

from turnstream.stream.closing import ClosedKeys


def test_key_waits_for_one_topic_after_the_other() -> None:
    """It is given back when the topic it waits for has passed; then the next is looked at."""
    keys = ClosedKeys()
    marks = {"a": 4, "b": 9}

    assert keys.wait(b"k", watermarks=marks, prefixes={"a": 4, "b": 4})
    assert [] == list(keys.passed({"a": 4, "b": 50}))
    assert [b"k"] == list(keys.passed({"a": 5, "b": 9}))
    assert keys.wait(b"k", watermarks=marks, prefixes={"a": 5, "b": 9})
    assert [b"k"] == list(keys.passed({"a": 5, "b": 10}))
    assert not keys.wait(b"k", watermarks=marks, prefixes={"a": 5, "b": 10})
    assert 0 == len(keys)


def test_topic_that_is_not_read_needs_nothing() -> None:
    """A source that was removed holds no key back."""
    assert not ClosedKeys().wait(b"k", watermarks={"gone": 9}, prefixes={"a": 0})
