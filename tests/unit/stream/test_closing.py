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


def test_a_key_that_closes_again_and_again_is_one_entry() -> None:
    """One topic stands still while the key goes on in it and in others; the last offset counts."""
    keys = ClosedKeys()
    for turn in range(100):
        prefixes = {"control": 5, "turns": turn + 1}
        keys.wait(b"k", watermarks={"control": 5 + turn // 50, "turns": turn}, prefixes=prefixes)

    assert 1 == len(keys)
    assert keys.has_passed({"control": 6})
    assert [] == list(keys.passed({"control": 6}))
    assert not keys.has_passed({"control": 6})
    assert [b"k"] == list(keys.passed({"control": 7}))
    assert 0 == len(keys)
