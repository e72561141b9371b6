"""Attempts at a proposal that failed: what kind each is, and what the log says of it.

Metrics and diagnostics have the kind alone, from a closed list. The log has the reason as well:
what whoever made the decider has said is fit for it (`DeciderUnavailable.problem`), or what the
system says of a connection. The text of an error is not among them; it may repeat a conversation.
"""

import time
from collections.abc import Callable
from typing import Final, Literal

import structlog

from turnstream.core.ports import DeciderRefused, DeciderUnavailable, ReplyUnusable
from turnstream.plain_http import why_broken
from turnstream.roles.log_suppression import LogSuppression

log = structlog.get_logger(__name__)

TRANSIENT: Final = (DeciderUnavailable, TimeoutError, ConnectionError)
"""What passes by itself. Anything else is a defect: the stream's business."""

Failure = DeciderUnavailable | TimeoutError | ConnectionError

FailureKind = Literal["timeout", "rate_limit", "unavailable", "unusable", "refused"]

_WINDOW_SECONDS: Final = 60.0
"""Between two lines of a kind: an outage that fails a thousand attempts a second is no thousand
lines."""

_REASON_CHARACTERS: Final = 200
"""Of a reason: a decider of the user's own may give any text."""


def kind_of(failure: Failure, *, wants_rest: bool) -> FailureKind:
    """What kind of failure an attempt ended in.

    Args:
        failure: the failure.
        wants_rest: whether the provider has said how long it wants to be left alone.
    """
    match failure:
        case TimeoutError():
            return "timeout"
        case DeciderRefused():
            return "refused"
        case ReplyUnusable():
            return "unusable"
    return "rate_limit" if wants_rest else "unavailable"


def reason_of(failure: Failure) -> str:
    """What is known of a failure, for the log: short, nothing of a conversation or a reply."""
    match failure:
        case TimeoutError():
            return "no reply in time"
        case DeciderUnavailable(problem=None):
            cause = failure.__cause__
            by = "" if cause is None else f", caused by {type(cause).__name__}"
            return f"the decider gave no `problem`{by}"
        case DeciderUnavailable(problem=problem):
            told = str(problem)[:_REASON_CHARACTERS]
            return "".join(one if one.isprintable() else " " for one in told)
    return f"the connection broke ({why_broken(failure)})"


class Notices:
    """Tells the log of failures of one decider: of each kind, one line in a while.

    What is refused is told apart by its problem: a conversation that is too long for the model must
    not keep a key that is not accepted out of the log.
    """

    def __init__(
        self,
        *,
        window_seconds: float = _WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember nothing yet.

        Args:
            window_seconds: how long no other line of a kind follows one.
            clock: a clock that never goes back, in seconds.
        """
        self._lines: LogSuppression[tuple[FailureKind, str]] = LogSuppression(
            window_seconds=window_seconds, clock=clock
        )

    def failed(self, decider: str, failure: Failure, kind: FailureKind) -> None:
        """An attempt failed."""
        refused = kind == "refused"
        untold = self._lines.due((kind, reason_of(failure) if refused else ""))
        if untold is None:
            return
        said = {"decider": decider, "failure": kind, "problem": reason_of(failure)}
        if untold:
            said["untold_before"] = str(untold)
        if refused:
            log.error("decider refuses our requests", **said)
        else:
            log.warning("attempt at a proposal failed", **said)
