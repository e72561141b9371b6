"""One source topic partition of a lane: what was taken from it, in order, and what is finished."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Container, Sequence

    from turnstream.stream.deadletter import DeadRecord
    from turnstream.stream.handler import Publication, Record

S = TypeVar("S")


class Work(Generic[S]):
    """What goes into a transaction: of itself, an intermediate state or a timer's record."""

    __slots__ = ("dead_record", "key", "publications", "state", "stateful", "value", "waiter")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.stateful = False
        """Whether `state` is to be committed: a skipped or rejected record changes none."""
        self.state: S | None = None
        self.value: bytes | None = None
        """The encoded state; `None` for a closed one, which is encoded only if it is written."""
        self.publications: Sequence[Publication] = ()
        self.dead_record: DeadRecord | None = None
        self.waiter: asyncio.Future[None] | None = None


class Entry(Work[S]):
    """One record on its way: taken, handled, committed."""

    __slots__ = ("done", "event", "offset", "record", "source", "timestamp")

    def __init__(self, record: Record, *, source: Source[S], key: bytes, event: object) -> None:
        super().__init__(key)
        self.record = record
        self.source = source
        self.event: Any = event
        self.offset: int = record.offset
        self.timestamp = record.timestamp
        self.done = False

    def release(self) -> None:
        """Let go of the record and the event: an entry that waits for an older one costs little."""
        del self.record
        del self.event


class Source(Generic[S]):
    """One source topic partition of a lane.

    The backlog holds fetched records not yet taken; `order` the taken ones from the first
    unfinished on. The committed offset is only ever the end of the finished prefix of `order`, or
    where only control markers were left behind it.
    """

    __slots__ = (
        "backlog",
        "behind_parked",
        "cursor",
        "handled_through",
        "held",
        "letter_bytes",
        "letters",
        "mark",
        "order",
        "partition",
        "passed",
        "paused",
        "position",
        "prefix",
        "priority",
        "queued",
        "scheduled",
        "topic",
        "tp",
        "transactions",
    )

    def __init__(
        self, topic: str, *, partition: int, priority: bool, start: int, passed: bool = False
    ) -> None:
        """Begin to read.

        Args:
            topic: Its name.
            partition: Its partition number.
            priority: Whether its records go before those of other sources.
            start: Offset of the first record to read.
            passed: Whether the group has not committed that offset, but an older one.
        """
        self.topic = topic
        self.partition = partition
        self.tp = TopicPartition(topic, partition)
        self.priority = priority
        self.cursor = start
        """Offset of the next record to take."""
        self.prefix = start
        """Every record below this offset is finished and in a transaction."""
        self.position = start
        """How far the consumer has read; counts control markers, which are never records."""
        self.order: deque[Entry[S]] = deque()
        self.backlog: deque[Record] = deque()
        self.queued = 0
        """Records taken and not started."""
        self.scheduled = False
        self.held = False
        self.paused = False
        self.mark: tuple[int, int] | None = None
        """An end offset of the partition and the time (ms) before it was read."""
        self.handled_through = 0
        """Everything that was in the partition at this time (ms) has been handled.

        Only end offsets tell it. A record's timestamp does not: it is its sender's, and one whose
        clock runs ahead would let timers overtake what was sent before.
        """
        self.letters: list[DeadRecord] = []
        """Dead letters of what the prefix has passed, for the transaction that says so.

        No state remembers a record that was refused: a letter that went out before would go out
        again with every crash until the prefix gets there.
        """
        self.letter_bytes = 0
        """Of dead letters that are in no transaction yet: those wait with all of their record."""
        self.behind_parked = 0
        """Entries at the head of `order` that were seen finished or parked, a parked one first.

        None of them leaves: looking for an unfinished one begins behind them.
        """
        self.passed = passed
        """Whether the prefix is to be committed although nothing has moved it."""
        self.transactions = 0
        """Transactions of its lane so far; one that cannot commit ends the process."""

    def advance(self, *, letter_room: int) -> bool:
        """Move the prefix over finished entries; tell whether it is to be committed.

        A lane calls it once in every transaction.

        Args:
            letter_room: Bytes of dead letters at which it stops; the letter that passes the bound
                is the last.
        """
        self.transactions += 1
        order = self.order
        entry = None
        passed, self.passed = self.passed, False
        while letter_room > 0 and order and order[0].done:
            entry = order.popleft()
            dead = entry.dead_record
            if dead is not None and not entry.stateful:
                self.letters.append(dead)
                letter_room -= dead.size
        if entry is None:
            return passed
        self.prefix = entry.offset + 1
        return True

    @property
    def has_finished(self) -> bool:
        """Whether `advance` has stopped before the end of what is finished."""
        return bool(self.order) and self.order[0].done

    def oldest(self) -> int | None:
        """Return the timestamp (ms) of the first record fetched and not finished.

        Any thread may call it.
        """
        for waiting in (self.order, self.backlog):
            try:
                timestamp: int = waiting[0].timestamp
            except IndexError:
                continue
            return timestamp
        return None

    def observe_end(self, end: int, *, position: int, at: int) -> None:
        """Take note of the end offset, read at `at` (ms) or later, and of the read position."""
        self.position = max(self.position, position)
        if self.mark is None:
            self.mark = (end, at)

    def pass_markers(self) -> bool:
        """Move the prefix to the read position if only control markers are in between.

        An idle partition ends in one where its writers use transactions. Left uncommitted, it
        would look like a lost record once retention has removed it. Call it after `observe_end`,
        before another fetch.

        Returns:
            Whether the prefix is to be committed.
        """
        if self.order or self.backlog or self.position <= self.prefix:
            return False
        self.prefix = self.position
        self.passed = True
        return True

    def distrust(self, now: int) -> None:
        """Forget what was observed later than `now` (ms): the clock has been put back since.

        Called so often that no time passes twice unnoticed: what comes in the second time has not
        been handled.
        """
        if self.handled_through > now:
            self.handled_through = 0
        if self.mark is not None and self.mark[1] > now:
            self.mark = None

    def settle_mark(self, *, parked: Container[bytes] = frozenset()) -> None:
        """Raise `handled_through` once everything below the mark has been handled.

        Args:
            parked: Keys whose records wait for another version. They hold back no other key: one
                of them may wait for weeks, and it has no timer here that could overtake it.
        """
        if self.mark is None:
            return
        end, at = self.mark
        first_unfinished = self._first_unfinished(parked)
        if first_unfinished is None:
            first_unfinished = max(self.position, self.prefix)
        if first_unfinished >= end:
            self.handled_through = max(self.handled_through, at)
            self.mark = None

    def _first_unfinished(self, parked: Container[bytes]) -> int | None:
        """Return the offset of the first record fetched and not finished, parked ones left out."""
        order = self.order
        if order and order[0].key not in parked:
            return order[0].offset
        # Looked for ten times a second, perhaps behind tens of thousands that are finished.
        for entry in islice(order, self.behind_parked, None):
            if not entry.done and entry.key not in parked:
                return entry.offset
            self.behind_parked += 1
        if not self.backlog:
            return None
        offset: int = self.backlog[0].offset
        return offset
