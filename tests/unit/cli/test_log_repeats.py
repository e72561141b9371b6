"""Warnings that a library repeats at every retry become one line now and then."""

import logging

from turnstream.cli.log_repeats import Repeats


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def record(
    text: str, *values: object, name: str = "aiokafka.producer.sender", level: int = logging.WARNING
) -> logging.LogRecord:
    """A line of a library."""
    return logging.LogRecord(name, level, __file__, 1, text, values, None)


def test_a_text_whose_values_do_not_fit_passes() -> None:
    """A library's mistake is shown by the handler; it is no exception inside the library."""
    repeats = Repeats(clock=Clock())
    wrong = record("%s", 1, 2), record("%s", 1, 2)

    assert [True, True] == [repeats.filter(one) for one in wrong]


def passing(repeats: Repeats, *records: logging.LogRecord) -> list[str]:
    """What is written of these lines."""
    return [one.getMessage() for one in records if repeats.filter(one)]


def test_a_flood_is_one_line_and_a_count_later() -> None:
    """Whatever its values; after the window the next line says how many were left out."""
    clock = Clock()
    repeats = Repeats(window_seconds=30, clock=clock)

    first = passing(repeats, *(record("no replicas for %s", part) for part in range(50)))
    clock.now = 30.0
    later = passing(repeats, record("no replicas for %s", 7))

    assert ["no replicas for 0"] == first
    assert ["no replicas for 7 [and 49 more like it before]"] == later


def test_what_differs_passes() -> None:
    """Another text, another level, another logger, another kind of error, a bare value."""
    repeats = Repeats(clock=Clock())

    written = passing(
        repeats,
        record("got %s", ValueError("1")),
        record("got %s", ValueError("2")),
        record("got %s", KeyError("3")),
        record("got %s", ConnectionError),
        record("sent %s", 4),
        record("sent %s", 4, level=logging.ERROR),
        record("sent %s", 4, name="faust.app"),
        record("%s", "one"),
        record("%s", "two"),
        record("%s", "two"),
    )

    assert ["got 1", "got '3'", f"got {ConnectionError}", *["sent 4"] * 3, "one", "two"] == written


def test_our_own_lines_and_what_is_no_warning_always_pass() -> None:
    """Nothing of ours is held back, and nothing that explains a crash."""
    repeats = Repeats(clock=Clock())
    lines = [
        record("same", name="turnstream.roles.decide"),
        record("same", level=logging.INFO),
        record("same", level=logging.CRITICAL),
    ]
    crash = record("same")
    crash.exc_info = (ValueError, ValueError(), None)

    assert 8 == len(passing(repeats, *lines, *lines, crash, crash))


def test_what_is_remembered_is_bounded() -> None:
    """Texts that hold a value each push the oldest ones out, which are then written again."""
    repeats = Repeats(clock=Clock())

    assert 1000 == len(passing(repeats, *(record(f"text {number}") for number in range(1000))))
    assert ["text 0"] == passing(repeats, record("text 0"), record("text 999"))
