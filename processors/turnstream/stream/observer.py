"""What the stream reports while it runs: the hooks a role turns into metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstream.stream.handler import DeadLetterReason


class Observer(Protocol):
    """Called by the stream from its event loop; must return at once and never raise.

    Topics are physical names of the role's own sources: a closed set, fit for a label.
    """

    def handled(self, topic: str, count: int) -> None:
        """Records of a source topic finished in a committed transaction."""
        ...

    def skipped(self, topic: str) -> None:
        """A record was met again and skipped by the watermark in its key's state."""
        ...

    def dead_lettered(self, topic: str, reason: DeadLetterReason) -> None:
        """A record was dead-lettered."""
        ...

    def mended(self, topic: str, count: int) -> None:
        """Records had header names that are no UTF-8, or stand in for a batch nobody can read."""
        ...

    def lost(self, topic: str, count: int) -> None:
        """That many offsets at most held records that were deleted before they were handled."""
        ...

    def retried(self, topic: str) -> None:
        """A handler raised and will be called again."""
        ...

    def committed(self, records: int, seconds: float) -> None:
        """A transaction with that many records was committed; begin to commit took `seconds`."""
        ...

    def running(self, tasks: int) -> None:
        """Number of handlers running now, at most the slots."""
        ...

    def resting(self, tasks: int) -> None:
        """Number of handlers that wait to try again, without a slot."""
        ...

    def lanes(self, open_lanes: int) -> None:
        """Number of lanes owned now."""
        ...

    def held(self, topic: str, partition: int, held: bool) -> None:  # noqa: FBT001 - a gauge
        """A source partition waits for a schema, or goes on."""
        ...

    def paused(self, topic: str, partition: int, paused: bool) -> None:  # noqa: FBT001 - a gauge
        """A source partition is full and not fetched, or is fetched again."""
        ...

    def parked(self, partition: int, keys: int) -> None:
        """Number of keys of a lane whose state is newer than this program."""
        ...

    def full(self, partition: int, full: bool) -> None:  # noqa: FBT001 - a gauge
        """A lane has as many state records as it may, or has room again."""
        ...

    def unreadable(self, partition: int, keys: int) -> None:
        """Number of keys of a lane whose state cannot be read and whose next record is to come."""
        ...

    def restored(self, partition: int, records: int, keys: int, seconds: float) -> None:
        """A lane's state was read from its changelog: records read, keys alive."""
        ...

    def keys(self, partition: int, count: int) -> None:
        """Number of keys with a state record in a lane."""
        ...

    def oldest_unfinished(self, topic: str, partition: int, timestamp: int | None) -> None:
        """Timestamp (ms) of the oldest record fetched and not finished; `None` without any."""
        ...

    def position(self, topic: str, partition: int, *, committed: int) -> None:
        """A transaction committed this offset: the next record to handle after a restart."""
        ...

    def forget(self, partition: int) -> None:
        """The lane is closed: gauges of its partition end."""
        ...


class NullObserver:
    """An `Observer` that ignores everything."""

    def handled(self, topic: str, count: int) -> None:
        """Ignore."""

    def skipped(self, topic: str) -> None:
        """Ignore."""

    def dead_lettered(self, topic: str, reason: DeadLetterReason) -> None:
        """Ignore."""

    def mended(self, topic: str, count: int) -> None:
        """Ignore."""

    def lost(self, topic: str, count: int) -> None:
        """Ignore."""

    def retried(self, topic: str) -> None:
        """Ignore."""

    def committed(self, records: int, seconds: float) -> None:
        """Ignore."""

    def running(self, tasks: int) -> None:
        """Ignore."""

    def resting(self, tasks: int) -> None:
        """Ignore."""

    def lanes(self, open_lanes: int) -> None:
        """Ignore."""

    def held(self, topic: str, partition: int, held: bool) -> None:  # noqa: FBT001 - as Observer
        """Ignore."""

    def paused(self, topic: str, partition: int, paused: bool) -> None:  # noqa: FBT001 - as Observer
        """Ignore."""

    def parked(self, partition: int, keys: int) -> None:
        """Ignore."""

    def full(self, partition: int, full: bool) -> None:  # noqa: FBT001 - as Observer
        """Ignore."""

    def unreadable(self, partition: int, keys: int) -> None:
        """Ignore."""

    def restored(self, partition: int, records: int, keys: int, seconds: float) -> None:
        """Ignore."""

    def keys(self, partition: int, count: int) -> None:
        """Ignore."""

    def oldest_unfinished(self, topic: str, partition: int, timestamp: int | None) -> None:
        """Ignore."""

    def position(self, topic: str, partition: int, *, committed: int) -> None:
        """Ignore."""

    def forget(self, partition: int) -> None:
        """Ignore."""
