"""Where a new group may start."""

import pytest

from turnstream.stream.role import StartRefused
from turnstream.stream.start import start_time_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T02:00:01+02:00", 1_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1970-01-02", 86_400_000),
    ],
)
def test_reads_iso_times(text: str, expected: int) -> None:
    """A time without a zone is UTC."""
    assert expected == start_time_ms(text)


def test_refuses_anything_else() -> None:
    """The message says what is allowed."""
    with pytest.raises(StartRefused, match="latest"):
        start_time_ms("yesterday")
