"""The circuit breaker: when it opens, when it lets one call through, when it closes."""

from tests.unit.roles.bench import Clock
from turnstream.roles.breaker import CircuitBreaker


def breaker(clock: Clock) -> CircuitBreaker:
    """One that opens after two failures, for ten seconds."""
    return CircuitBreaker(failures=2, cool_down_seconds=10.0, now=clock)


def test_only_failures_in_a_row_open_it() -> None:
    """A success in between begins the count anew."""
    subject = breaker(Clock())
    subject.failed()
    subject.succeeded()
    subject.failed()

    assert ("closed", True) == (subject.state, subject.allows())

    subject.failed()

    assert ("open", False) == (subject.state, subject.allows())


def test_one_probe_after_the_cool_down() -> None:
    """Half open, a single call is let through; its success lets everybody in again."""
    clock = Clock()
    subject = breaker(clock)
    subject.failed()
    subject.failed()
    clock.now += 10

    assert "half_open" == subject.state
    assert [True, False, False] == [subject.allows() for _ in range(3)]

    subject.succeeded()

    assert ("closed", True) == (subject.state, subject.allows())


def test_a_failed_probe_opens_it_again() -> None:
    """The cool-down begins anew with the probe's failure, not with a straggler's."""
    clock = Clock()
    subject = breaker(clock)
    subject.failed()
    subject.failed()
    clock.now += 9
    subject.failed()
    clock.now += 1

    assert subject.allows()
    subject.failed()
    assert "open" == subject.state

    clock.now += 9.9
    assert not subject.allows()
    clock.now += 0.2
    assert subject.allows()


def test_a_probe_that_never_reports_keeps_nobody_out_for_ever() -> None:
    """After another cool-down the next caller may try."""
    clock = Clock()
    subject = breaker(clock)
    subject.failed()
    subject.failed()
    clock.now += 10
    assert subject.allows()
    clock.now += 9
    assert not subject.allows()
    clock.now += 1

    assert subject.allows()
