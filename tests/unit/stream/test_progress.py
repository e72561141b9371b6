"""The state of a role that keeps none."""

import pytest

from turnstream.stream.handler import StateTooNew, StateUnreadable
from turnstream.stream.progress import Progress, ProgressFormat

FORMAT = ProgressFormat()


def test_reads_what_it_wrote() -> None:
    """A record survives the changelog."""
    progress = Progress().advance("turns", 4, at=9).advance("results", 2, at=10)

    assert progress == FORMAT.load(FORMAT.dump(progress))
    assert (4, 2, -1) == tuple(
        FORMAT.watermark(progress, topic) for topic in ("turns", "results", "other")
    )


def test_is_always_closed() -> None:
    """Only its watermarks matter."""
    assert FORMAT.closed(Progress())
    assert () == FORMAT.timers(Progress())


def test_newer_record_is_told_from_an_unreadable_one() -> None:
    """The first parks its key; the second is of another version, or anything."""
    with pytest.raises(StateTooNew):
        FORMAT.load(b'{"v":2}')
    for value in (b"", b"[]", b'{"v":1}', b'{"v":1,"w":{"t":"x"},"t":0}'):
        with pytest.raises(StateUnreadable) as unreadable:
            FORMAT.load(value)
        assert 0 == unreadable.value.kept_ms
    with pytest.raises(StateUnreadable, match="no migration to version 1") as raised:
        FORMAT.load(b'{"v":0,"w":{"turns":4},"t":0}')
    assert (1, 0) == (raised.value.known, raised.value.found)
    assert {"turns": 4} == raised.value.watermarks
