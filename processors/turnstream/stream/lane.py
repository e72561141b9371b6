"""A lane: one owned partition number, its state, and the transactions that change it."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from turnstream.stream import failpoints
from turnstream.stream.committer import Committer
from turnstream.stream.deadletter import dead_record
from turnstream.stream.handler import LaneClosing
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.role import OwnershipUncertain
from turnstream.stream.source import Entry, Work
from turnstream.stream.states import States

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator, Mapping, Sequence

    from turnstream.stream.deadletter import DeadLetterTopic, DeadRecord, Stage
    from turnstream.stream.failpoints import Failpoints
    from turnstream.stream.handler import DeadLetterReason, Handled, Publication
    from turnstream.stream.role import Role
    from turnstream.stream.slots import Slots
    from turnstream.stream.source import Source
    from turnstream.stream.store import Records
    from turnstream.stream.transaction import TransactionalProducer

S = TypeVar("S")

logger = logging.getLogger(__name__)

_SURE_PART: Final = 0.75
"""Part of the session in which a member acts outside Kafka: after a whole one somebody else may do
the same. The rest is for what clocks and networks add, and for the way from the look at the clock
to the first byte."""

_FIRED_KEYS: Final = 500
"""Keys whose timers are looked at in one go, others ten times a second after them. All that were
due after a long stop, at once, held up an open transaction until the broker had ended it: the lane
was fenced, the process ended with nothing of them committed, and so did each start after it."""


class UnusableOutcome(Exception):
    """A handler's outcome cannot be committed: a fault of the handler, treated like one."""

    def __init__(self, message: str, *, reason: DeadLetterReason = "handler_failed") -> None:
        super().__init__(message)
        self.reason: DeadLetterReason = reason


class Lane(Generic[S]):
    """One partition number of the role's source topics, from its opening to its closing.

    It has the partition's state and takes what inputs lead to; what must commit together leaves
    through its one transactional producer (`Committer`). It is the `LaneContext` of the handlers
    that run on it.
    """

    def __init__(
        self,
        partition: int,
        *,
        role: Role[S],
        producer: TransactionalProducer,
        dead_letter_topics: Mapping[str, DeadLetterTopic],
        progressed: Callable[[Source[S]], None],
        imprint: bytes | None = None,
    ) -> None:
        """Make a lane, not open yet.

        Args:
            partition: The partition number.
            role: What it works for.
            producer: Its transactional producer, not started.
            dead_letter_topics: Source topic to its dead-letter topic.
            progressed: Told after each commit which sources have moved on.
            imprint: What its part of the changelog must say of itself; `None` leaves it as it is.
        """
        self._partition = partition
        self._role = role
        self._producer = producer
        self._dead_letter_topics = dead_letter_topics
        self._progressed = progressed
        self._max_bytes = role.settings.max_record_bytes
        self._max_publication_bytes = role.settings.max_publication_bytes
        self.states = States(role.state_format, settings=role.settings)
        self.sources: dict[str, Source[S]] = {}
        self.busy: dict[bytes, deque[Entry[S]]] = {}
        """Keys with a task or waiting for a slot, each with its waiting records."""
        self.flooded: set[bytes] = set()
        self.slots: Slots | None = None
        """Those of the process, while the intake is open."""
        self._committer = Committer(
            partition,
            role=role,
            producer=producer,
            states=self.states,
            imprint=imprint,
            committed=self._committed,
        )
        self.full = False
        """Whether it has as many state records as it may: nothing new is taken then."""

    @property
    def partition(self) -> int:
        """The lane's partition number, the same in every source topic."""
        return self._partition

    # Opening: fence, load, attach, start. `Ownership` calls them in this order.

    async def fence(self) -> None:
        """Take the transactional id: ends the former owner and its open transaction."""
        await self._producer.start()

    def load(self, records: Records, *, ends: Mapping[str, int]) -> None:
        """Take over the committed state at once; see `loading`."""
        for _ in self.loading(records, ends=ends):
            pass

    def loading(self, records: Records, *, ends: Mapping[str, int]) -> Generator[None]:
        """Take over the committed state in steps; see `States.loading`."""
        owned = self._role.owned
        note = None if owned is None else functools.partial(owned.note, self._partition)
        now = self._role.now_ms()
        yield from self.states.loading(
            records, partition=self._partition, ends=ends, now=now, note=note
        )
        self._role.observer.parked(self._partition, len(self.states.parked))
        self._role.observer.unreadable(self._partition, len(self.states.unreadable))

    def start(self, sources: Mapping[str, Source[S]]) -> None:
        """Take the sources, positioned at their committed offsets, and begin to commit."""
        self.sources = dict(sources)
        self._measure()
        self._committer.start(self.sources)

    # Closing: drain, close.

    async def drain(self) -> None:
        """Wait until everything finished is committed."""
        await self._committer.drain()

    async def close(self) -> None:
        """Stop committing and disconnect; what is not committed is given up."""
        await self._committer.stop()
        # Before the broker is waited for: who has the partition next may want the same files.
        self.states.close()
        self._role.observer.forget(self._partition)
        if self._role.owned is not None:
            self._role.owned.forget(self._partition)
        await self._producer.stop()

    # What handlers and the dispatcher hand in.

    async def commit(self, key: bytes, state: S, publications: Sequence[Publication] = ()) -> None:
        """Commit an intermediate state of the handler's own key; no offset moves."""
        work: Work[S] = Work(key)
        self._set_outcome(work, state=state, publications=publications)
        waiter = work.waiter = asyncio.get_running_loop().create_future()
        self._committer.hurry()
        self._committer.add(work)
        await waiter

    def ensure_owned(self) -> None:
        """End the process unless the coordinator has been heard of a short while ago.

        Raises:
            OwnershipUncertain: It has not, and the end of the process is replaced by a test.
        """
        settings = self._role.settings
        limit = _SURE_PART * settings.session_timeout_ms / 1000
        age = self._role.heartbeats.age()
        if age < limit:
            return
        error = OwnershipUncertain(
            f"the last answered heartbeat of group {settings.group!r} was sent {age:.1f} s ago, "
            f"and with a session of {settings.session_timeout_ms / 1000:g} s nothing may be done "
            f"outside after {limit:g} s: partition {self._partition} may have another owner"
        )
        self._role.fail(error)
        raise error

    def passed(self, topic: str, offset: int) -> bool:
        """Whether all of a source topic up to an offset has been handled, here or before."""
        source = self.sources.get(topic)
        return source is not None and offset < source.prefix

    async def rest(self, seconds: float) -> None:
        """Wait between two attempts of a handler, without its slot."""
        if self.slots is None or not await self.slots.rest(seconds):
            message = f"partition {self._partition} is given up"
            raise LaneClosing(message)

    def finish(
        self,
        entry: Entry[S],
        handled: Handled[S],
        *,
        attempts: int = 1,
        failure: str | None = None,
        reason: DeadLetterReason = "handler_failed",
    ) -> None:
        """Take what an input led to; it goes into one of the next transactions.

        Args:
            entry: The input.
            handled: What it led to.
            attempts: Calls of the handler so far.
            failure: Why the input was given up; then its record is dead-lettered in any case.
            reason: Why, for the dead letter, where the handler asks for none.

        Raises:
            UnusableOutcome: The outcome cannot be committed. Nothing of it has been taken.
        """
        if failpoints.armed is not None:
            failpoints.armed.pass_by("after_step")
        source, record = entry.source, entry.record
        state = handled.state
        if (
            state is not None
            and self._role.state_format.watermark(state, source.topic) < entry.offset
        ):
            message = f"the new state's watermark of {source.topic!r} is below the input's offset"
            raise UnusableOutcome(message)
        letter = handled.dead_letter
        dead: DeadRecord | None = None
        if letter is not None or failure is not None:
            dead = dead_record(
                record,
                topic=self._dead_letter_topics[source.topic],
                role=self._role.settings.role,
                stage="handling",
                reason=reason if letter is None else letter.reason,
                detail=failure or ("" if letter is None else letter.detail),
                attempts=attempts,
            )
        self._set_outcome(entry, state=state, publications=handled.publications)
        if dead is not None:
            self._bury(entry, dead)
        self._end(entry)
        if failpoints.armed is not None:
            self._entered(failpoints.armed)

    def reject(
        self,
        entry: Entry[S],
        *,
        reason: DeadLetterReason,
        detail: str,
        attempts: int,
        stage: Stage = "handling",
    ) -> None:
        """Dead-letter an input; no state changes, only the committed offset will pass it.

        The letter goes out with that offset, and so only once.
        """
        dead = dead_record(
            entry.record,
            topic=self._dead_letter_topics[entry.record.topic],
            role=self._role.settings.role,
            stage=stage,
            reason=reason,
            detail=detail,
            attempts=attempts,
        )
        self._bury(entry, dead)
        self._end(entry)

    def skip(self, entry: Entry[S]) -> None:
        """Finish an input that the state has already seen."""
        self._end(entry)

    def _set_outcome(
        self, work: Work[S], *, state: S | None, publications: Sequence[Publication]
    ) -> None:
        key = work.key
        if key == IMPRINT_KEY:
            message = "its key is the changelog's own"
            raise UnusableOutcome(message)
        writes = self._role.settings.writes
        for publication in publications:
            if writes is not None and publication.topic not in writes:
                message = f"this role may not write to {publication.topic!r}"
                raise UnusableOutcome(message)
            size = len(publication.key) + len(publication.value or b"")
            if size > self._max_publication_bytes:
                message = f"a publication to {publication.topic!r} has {size} bytes"
                raise UnusableOutcome(message, reason="output_too_large")
        value = None if state is None else self.states.encode(state)
        if value is not None and len(key) + len(value) > self._max_bytes:
            message = f"the new state has {len(value)} bytes"
            raise UnusableOutcome(message, reason="state_too_large")
        work.stateful = True
        work.state = state
        work.value = value
        work.publications = publications
        self.states.put(key, state)

    def _bury(self, entry: Entry[S], dead: DeadRecord) -> None:
        entry.dead_record = dead
        entry.source.letter_bytes += dead.size

    def _end(self, entry: Entry[S]) -> None:
        entry.release()
        self._committer.add(entry)

    def _entered(self, armed: Failpoints) -> None:
        try:
            armed.pass_by("after_enter")
        except failpoints.FailpointReached as error:
            # The outcome is taken: this is no failure of the handler, to be asked again.
            self._role.fail(error)

    # The bound on its records.

    def _committed(self, moved: Sequence[Source[S]]) -> None:
        """After a transaction: let the sources go on that have room again."""
        for source in self.sources.values() if self._measure() else moved:
            self._progressed(source)

    def _measure(self) -> bool:
        """Compare the state records with their bound; tell whether there is room again."""
        bound = self._role.settings.max_keys_per_partition
        if bound is None:
            return False
        # What only the source can settle must not close it: nothing would ever be taken again.
        count = len(self.states.store) - len(self.states.unsettled)
        full = count >= bound
        if full == self.full:
            return False
        self.full = full
        self._role.observer.full(self._partition, full)
        if full:
            logger.error(
                "partition %s has %s state records, as many as it may: nothing new is taken until "
                "some expire. Raise the bound, or let them expire sooner",
                self._partition,
                count,
            )
        else:
            logger.info("partition %s has room again: %s records", self._partition, count)
        return not full

    # Timers.

    def pass_markers(self) -> None:
        """Commit that idle sources have been read beyond their last record."""
        moved = [source for source in self.sources.values() if source.pass_markers()]
        if moved:
            self._committer.commit_prefixes()

    def handled_through(self) -> int:
        """Return the time (ms) up to which everything in all sources has been handled."""
        for source in self.sources.values():
            source.settle_mark(parked=self.states.parked)
        return min(source.handled_through for source in self.sources.values())

    def fire_timers(self, now: int) -> bool:
        """Publish the timers that are due and not overtaken by a backlog.

        Returns:
            Whether a timer is due still. It waits for its turn, or because records older than it
            may be unhandled: the end offsets of the sources must be observed.
        """
        for source in self.sources.values():
            source.distrust(now)
        due = self.states.earliest_timer()
        if due is None or due > now:
            return False
        through = self.handled_through()
        # At the bound the backlog waits for what expires, so that must not wait for the backlog.
        until = now if self.full else min(now, through)
        for key, timer in self.states.fire(until, through=through, keys=_FIRED_KEYS):
            lost = key in self.states.unreadable
            if lost and self.states.parked:
                # A parked record may be before what this key has handled, and how far that is
                # cannot be read: without the key's record it could all be handled once more. No key
                # is parked or freed while a lane is open, and an opening sets all timers anew.
                continue
            work: Work[S] = Work(key)
            publication = None if lost else self._role.handler.timer(key, timer)
            if publication is None:
                self.states.expire(key)
            else:
                work.publications = (publication,)
            self._committer.add(work)
        due = self.states.earliest_timer()
        return due is not None and due <= now
