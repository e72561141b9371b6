"""What the log says of attempts that failed: the kind, the reason, and not too often."""

import errno

import pytest
from structlog.testing import capture_logs

from tests.unit.roles.bench import Clock
from turnstream.core.ports import DeciderRefused, DeciderUnavailable, ReplyUnusable
from turnstream.roles.failed_attempts import Failure, Notices, kind_of, reason_of

SECRET = "Anna, +49 170 1234567"


def caused(by: Exception) -> DeciderUnavailable:
    """A failure of a decider of the user's own, who says nothing for the log."""
    failure = DeciderUnavailable(SECRET)
    failure.__cause__ = by
    return failure


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (TimeoutError(SECRET), "no reply in time"),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, SECRET),
            "the connection broke (Connection refused)",
        ),
        (ConnectionError(SECRET), "the connection broke (ConnectionError)"),
        (DeciderUnavailable(SECRET), "the decider gave no `problem`"),
        (caused(KeyError(SECRET)), "the decider gave no `problem`, caused by KeyError"),
        (DeciderUnavailable(SECRET, problem="status 503"), "status 503"),
        (DeciderUnavailable(SECRET, problem="a\n" * 500), "a " * 100),
        (ReplyUnusable("no JSON"), "no JSON"),
        (DeciderRefused("no key"), "no key"),
    ],
)
def test_the_reason_is_what_may_be_told(failure: Failure, reason: str) -> None:
    """Never the text of an error; one line of bounded length."""
    found = reason_of(failure)

    assert reason == found
    assert SECRET not in found


def test_one_line_of_a_kind_in_a_while() -> None:
    """The next one says how many were not told of; a refusal is an error."""
    clock = Clock(0.0)
    notices = Notices(window_seconds=60.0, clock=clock)
    down, broken = DeciderUnavailable(problem="status 503"), ReplyUnusable("no JSON")
    with capture_logs() as logs:
        for _ in range(3):
            for one in (down, broken):
                notices.failed("gpt", one, kind_of(one, wants_rest=False))
        clock.now = 60.0
        notices.failed("gpt", down, "unavailable")
        notices.failed("gpt", DeciderRefused("no key"), "refused")

    assert [
        ("warning", "unavailable", "status 503", None),
        ("warning", "unusable", "no JSON", None),
        ("warning", "unavailable", "status 503", "2"),
        ("error", "refused", "no key", None),
    ] == [
        (one["log_level"], one["failure"], one["problem"], one.get("untold_before")) for one in logs
    ]
    assert {"gpt"} == {one["decider"] for one in logs}


def test_a_refusal_does_not_hide_another() -> None:
    """One customer's conversation is too long; that the key is not accepted concerns everybody."""
    notices = Notices(window_seconds=60.0, clock=Clock(0.0))
    with capture_logs() as logs:
        for problem in ("too long", "too long", "no key"):
            notices.failed("gpt", DeciderRefused(problem), "refused")

    assert ["too long", "no key"] == [one["problem"] for one in logs]
