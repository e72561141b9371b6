"""Reads a deployment's dead letters, and what has been done about them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from turnstream.core.errors import TurnstreamError
from turnstream.stream.audit import AUDIT, AuditRecord, name_of, read_audit
from turnstream.stream.clients import partition_counts
from turnstream.stream.deadletter import Place
from turnstream.stream.fetched import read_what_the_broker_took
from turnstream.stream.letters import Letter
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.topics import DEAD_LETTERS, load_topics

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )
    from types import TracebackType

    from turnstream.config import Settings
    from turnstream.stream.handler import Record

    Progress = Callable[[int, int], None]
    """Told how many records have been passed, and how many there are."""

REQUEST_MS: Final = 20_000
"""A broker that accepts and does not answer must not hang the command for aiokafka's 40 s."""

_STALLED_SECONDS: Final = 30.0
"""A partition without a leader gives nothing and no error; the command must not wait for ever."""

_POLL_MS: Final = 50
"""Nothing is given at the end of a transaction, and a longer wait for it would be noticed."""

_AT_ONCE: Final = 500
"""Records per poll: bounds what is in memory, and lets the progress bar move."""

_FETCH_BYTES: Final = 4 * 1024 * 1024
"""Per partition and fetch: above any record of ours, below what would fill the memory."""

_CLOCKS_APART_MS: Final = 86_400_000
"""An audit record is younger than its letter, by clocks of different machines."""


class LettersUnavailable(TurnstreamError):
    """The dead letters cannot be read; the message says what to change."""


class LetterBox:
    """One connection that reads dead letters, their records and the audit."""

    def __init__(self, settings: Settings) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
        """
        self._settings = settings
        self._audit = settings.topics.name(AUDIT)
        self._topics = tuple(
            settings.topics.name(definition.name) + DEAD_LETTERS
            for definition in load_topics()
            if definition.dlq is not None
        )
        self._counts: Mapping[str, int] = {}
        self._stack = AsyncExitStack()
        self._consumer: Any = None

    async def __aenter__(self) -> Self:
        """Connect, and see which topics there are.

        Raises:
            LettersUnavailable: The cluster cannot be reached, or has none of the topics.
        """
        options: dict[str, Any] = self._settings.kafka.client_options()
        # As who gave a record up has read it. Not the audit: what stands in for a batch says
        # nothing, and letters would seem not to be done with.
        sources = [topic.removesuffix(DEAD_LETTERS) for topic in self._topics]
        read_what_the_broker_took(
            (*sources, *self._topics), max_record_bytes=self._settings.stream.max_record_bytes
        )
        try:
            self._counts = await partition_counts(options, request_timeout_ms=REQUEST_MS)
            self._consumer = AIOKafkaConsumer(
                **options,
                check_crcs=self._settings.kafka.check_crcs,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                request_timeout_ms=REQUEST_MS,
                max_partition_fetch_bytes=_FETCH_BYTES,
            )
            self._stack.push_async_callback(self._consumer.stop)
            await self._consumer.start()
            # A client that ends before its own tasks have begun cancels whoever ends it.
            await asyncio.sleep(0)
        except (KafkaError, OSError) as error:
            await self._stack.aclose()
            raise LettersUnavailable(str(await why_unreachable(options, error))) from error
        if not any(map(self.partitions, self._topics)):
            await self._stack.aclose()
            raise LettersUnavailable(
                f"{self._settings.kafka.bootstrap_servers} has no dead-letter topic, such as "
                f"{self._topics[0]!r}: is topics.prefix ({self._settings.topics.prefix!r}) right? "
                "`turnstream topics apply` makes them (an embedded broker makes a topic when it is "
                "first named; the demo names them all)"
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 when it does not exist."""
        return self._counts.get(topic, 0)

    def holds(self, topic: str) -> bool:
        """Whether a topic is one of dead letters."""
        return topic in self._topics

    async def letters(
        self,
        *,
        keep: Callable[[Letter], bool],
        topics: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Letter]:
        """Give the letters that are to be kept, as they stand in each partition.

        Values are read and not kept: there may be more than fit into memory.

        Args:
            keep: Which to keep.
            topics: Which dead-letter topics to read; all, when not given.
            progress: Told how far it is.

        Raises:
            LettersUnavailable: They cannot be read.
        """
        read = [one for one in self._topics if topics is None or one in topics]
        found: list[Letter] = []
        async for record in self._scan(self._every(read), progress=progress):
            letter = Letter.of(record)
            if keep(letter):
                found.append(letter)
        return found

    async def audit(self, *, since: int) -> list[AuditRecord]:
        """Give what was done at or after a time.

        Args:
            since: Milliseconds UTC.

        Raises:
            AuditUnreadable: A record is not understood.
            LettersUnavailable: They cannot be read.
        """
        tps = self._every((self._audit,))
        starts: dict[TopicPartition, int] = {}
        try:
            times = dict.fromkeys(tps, max(0, since - _CLOCKS_APART_MS))
            for tp, found in (await self._consumer.offsets_for_times(times)).items():
                if found is not None:
                    starts[tp] = found.offset
        except KafkaError as error:
            raise _unreadable(error) from error
        return [
            read_audit(record.value, place=Place(record.topic, record.partition, record.offset))
            async for record in self._scan(tps, starts=starts)
        ]

    async def done_with(
        self, letters: Iterable[Letter], *, since: int = 0
    ) -> dict[tuple[str, int], AuditRecord]:
        """Of the letters' names, those that were replayed or discarded, and what was done.

        Args:
            letters: Which are asked about.
            since: What was done before is known, milliseconds UTC.

        Raises:
            AuditUnreadable: A record is not understood.
            LettersUnavailable: They cannot be read.
        """
        names = {name_of(letter) for letter in letters}
        if not names:
            return {}
        records = await self.audit(since=max(since, min(at for _, at in names)))
        return {one.name: one for one in records if one.action != "revealed" and one.name in names}

    async def records(self, places: Sequence[Place]) -> dict[Place, Record]:
        """Read the records at these places; those that are gone are left out.

        Raises:
            LettersUnavailable: They cannot be read.
        """
        wanted = {place for place in places if place.partition < self.partitions(place.topic)}
        by_partition: dict[TopicPartition, list[int]] = {}
        for place in wanted:
            tp = TopicPartition(place.topic, place.partition)
            by_partition.setdefault(tp, []).append(place.offset)
        starts = {tp: min(offsets) for tp, offsets in by_partition.items()}
        ends = {tp: max(offsets) + 1 for tp, offsets in by_partition.items()}
        found: dict[Place, Record] = {}
        async for record in self._scan([*by_partition], starts=starts, ends=ends):
            place = Place(record.topic, record.partition, record.offset)
            if place in wanted:
                found[place] = record
        return found

    async def absence(self, place: Place) -> str:
        """Why there is no letter at a place where none was found.

        Raises:
            LettersUnavailable: The topic cannot be asked.
        """
        if not self.holds(place.topic):
            known = ", ".join(sorted(filter(self.partitions, self._topics)))
            return f"{place.topic!r} is none of the dead-letter topics: {known}"
        count = self.partitions(place.topic)
        if not count:
            return f"topic {place.topic!r} does not exist: `turnstream topics apply` makes it"
        if place.partition >= count:
            return f"{place.topic!r} has the partitions 0 to {count - 1}"
        tp = TopicPartition(place.topic, place.partition)
        try:
            first = (await self._consumer.beginning_offsets([tp]))[tp]
            end = (await self._consumer.end_offsets([tp]))[tp]
        except KafkaError as error:
            raise _unreadable(error) from error
        if first == end:
            return "its partition holds none"
        if first <= place.offset < end:
            return "its offset is one between two letters: the end of a transaction takes one, too"
        return f"its partition holds the offsets {first} to {end - 1}"

    def _every(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(self.partitions(topic))
        ]

    async def _scan(
        self,
        tps: Sequence[TopicPartition],
        *,
        starts: Mapping[TopicPartition, int] | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
        progress: Progress | None = None,
    ) -> AsyncIterator[Record]:
        """Give the committed records of partitions, from start to end."""
        if not tps:
            return
        try:
            left, total = await self._assign(tps, starts=starts or {}, ends=ends or {})
            passed, stalled_at = 0, asyncio.get_running_loop().time()
            while left:
                batches = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
                for tp, records in batches.items():
                    for record in records:
                        if record.offset < left.get(tp, 0):
                            yield record
                behind = await self._behind(left)
                now = asyncio.get_running_loop().time()
                if total - behind > passed:
                    passed, stalled_at = total - behind, now
                    if progress is not None:
                        progress(passed, total)
                elif now - stalled_at > _STALLED_SECONDS:
                    where = ", ".join(f"{tp.topic}/{tp.partition}" for tp in left)
                    raise LettersUnavailable(f"nothing more was given of {where}")
        except LettersUnavailable:
            raise
        except KafkaError as error:
            raise _unreadable(error) from error
        except Exception as error:  # the client's: each kind of bad bytes has an error of its own
            where = ", ".join(f"{tp.topic}/{tp.partition}" for tp in tps)
            raise LettersUnavailable(
                f"a record of {where} cannot be read ({type(error).__name__}: {error}): somebody "
                f"else wrote it, and it is in the way until the topic's retention ends, or until "
                f"`kafka-delete-records` has deleted it and what is before it"
            ) from error

    async def _assign(
        self,
        tps: Sequence[TopicPartition],
        *,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[dict[TopicPartition, int], int]:
        """Begin to read; where to stop, for the partitions with something to read, and how much."""
        consumer = self._consumer
        consumer.assign(tps)
        first = await consumer.beginning_offsets(tps)
        last = await consumer.end_offsets(tps)
        left: dict[TopicPartition, int] = {}
        total = 0
        for tp in tps:
            begin, end = max(first[tp], starts.get(tp, 0)), min(last[tp], ends.get(tp, last[tp]))
            if begin < end:
                consumer.seek(tp, begin)
                left[tp] = end
                total += end - begin
            else:
                consumer.pause(tp)
        return left, total

    async def _behind(self, left: dict[TopicPartition, int]) -> int:
        """How many offsets are not passed yet; partitions that are passed are read no more.

        The ends of transactions take offsets too: only the position passes them.
        """
        behind = 0
        for tp, end in list(left.items()):
            position = await self._consumer.position(tp)
            if position < end:
                behind += end - position
            else:
                del left[tp]
                self._consumer.pause(tp)
        return behind


def _unreadable(error: KafkaError) -> LettersUnavailable:
    return LettersUnavailable(
        f"the broker does not give the letters ({error!r}): is the user allowed to read the "
        "dead-letter topics and the audit topic?"
    )
