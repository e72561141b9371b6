"""What all parts of one running role share."""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeVar

from aiokafka.errors import KafkaError

from turnstream.stream.heartbeats import Heartbeats
from turnstream.stream.outage import is_outage

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstream.stream.handler import Handler, StateFormat
    from turnstream.stream.observer import Observer
    from turnstream.stream.settings import StreamSettings

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)

logger = logging.getLogger(__name__)

EXIT_FAILED: Final = 3
"""Exit status when the delivery machinery failed: restart the process, committed state is kept."""

EXIT_REFUSED: Final = 4
"""Exit status when the start was refused: the message says what to change first."""


class StartRefused(Exception):
    """The stream must not start on these topics, offsets or state; the message says what to do."""


class Explained(Exception):
    """Ends the process, and says in its message what happened, where, and what to do."""


class LaneFailed(Explained):
    """A lane could not commit: fenced by a new owner, or the broker refused. The process ends."""


class OwnershipUncertain(Explained):
    """The group's coordinator has not been heard of for too long to act on a partition.

    Others may own it by now. The process ends; committed state is the truth.
    """


def now_ms() -> int:
    """Return the wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def end_process(error: BaseException) -> NoReturn:
    """End the process at once: what is not committed must not be acted on any more.

    No cleanup runs, on purpose: a fenced or half-failed worker that goes on stopping could still
    send. The log line is the record of it.
    """
    try:
        if isinstance(error, StartRefused):
            logger.critical("start refused: %s", error)
        else:
            logger.critical(
                "the process ends with status %s: %s. Nothing that was committed is lost: the next "
                "start goes on from there",
                EXIT_FAILED,
                _told(error),
                exc_info=None if _is_explained(error) else error,
            )
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Also when the log cannot be written: a disk that is full is one reason to be here.
        os._exit(EXIT_REFUSED if isinstance(error, StartRefused) else EXIT_FAILED)


def _told(error: BaseException) -> str:
    if isinstance(error, Explained):
        return str(error)
    if is_outage(error):
        return f"the brokers (kafka.bootstrap_servers) could not be used: {error!r}"
    return repr(error)


def _is_explained(error: BaseException) -> bool:
    """Tell whether the message says it all: a traceback is for faults of the program."""
    if is_outage(error):
        return True
    cause = error.__cause__
    return isinstance(error, Explained) and (
        cause is None or isinstance(cause, KafkaError | OSError | TimeoutError | Explained)
    )


class Owned(Protocol[S_contra]):
    """Something that a role keeps per owned partition; called from the event loop."""

    def note(self, partition: int, key: bytes, state: S_contra | None) -> None:
        """Take over the state of a key, as it was restored."""
        ...

    def forget(self, partition: int) -> None:
        """The partition is given up."""
        ...


@dataclass(frozen=True, slots=True)
class Role(Generic[S]):
    """A role's parts, and the two things tests replace: the clock and the end of the process."""

    settings: StreamSettings
    handler: Handler[S, Any]
    state_format: StateFormat[S]
    observer: Observer
    now_ms: Callable[[], int] = now_ms
    owned: Owned[S] | None = None
    """Follows the states of the partitions owned, where the role keeps count of something there."""
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    """When the group's coordinator was last heard of."""
    fail: Callable[[BaseException], None] = end_process
    """Ends the process; where it returns, as in tests, nothing more is done."""
