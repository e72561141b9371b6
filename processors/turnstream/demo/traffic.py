"""Everything that passes over a deployment's topics, as an onlooker sees it.

It reads committed records without joining any group, keeps them per conversation, and lets others
wait for what must appear.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord, TopicPartition

from turnstream.config import Settings
from turnstream.core.events import Event
from turnstream.stream.contracts import EVENTS
from turnstream.stream.handler import UnknownSchema
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.registry import codec_for
from turnstream.stream.topics import DEAD_LETTERS

T = TypeVar("T")

_REQUEST_MS: Final = 20_000
"""A broker that accepts and does not answer must not hang a person for aiokafka's 40 s."""

_POLL_MS: Final = 100
_FETCH_WAIT_MS: Final = 50
"""The broker's wait when there is nothing new: bounds how stale the view is."""

_DRAIN_POLL_SECONDS: Final = 0.05


class TrafficError(Exception):
    """The topics cannot be read; the message says what to do."""


class Overdue(Exception):
    """Something that must appear on the topics has not, in time."""


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A record that a role has put aside."""

    conversation_id: str
    source: str
    """Physical topic it came from."""
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """An event, and where it stands."""

    topic: str
    """Logical name; of a dead letter, that of its source."""
    physical: str
    partition: int
    offset: int
    timestamp: int
    """When it was written, milliseconds UTC."""
    event: Event | DeadLettered

    @property
    def conversation_id(self) -> str:
        """The key."""
        key: str = self.event.conversation_id  # type: ignore[union-attr]
        return key

    @property
    def dead(self) -> bool:
        """Whether it is a dead letter."""
        return isinstance(self.event, DeadLettered)


class Traffic:
    """The onlooker. Use `async with`."""

    def __init__(
        self,
        settings: Settings,
        *,
        topics: Sequence[str],
        begin: Literal["beginning", "end"],
        partitions: Collection[int] | None = None,
        dead_letters: Iterable[str] = (),
    ) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
            topics: Logical topics to watch.
            begin: Where to begin.
            partitions: Partition numbers to watch; all by default.
            dead_letters: Logical topics whose dead letters are watched.
        """
        self._settings = settings
        self._codec = codec_for(settings)
        self._logical = {settings.topics.name(topic): topic for topic in topics}
        self._dead = {settings.topics.name(topic) + DEAD_LETTERS: topic for topic in dead_letters}
        self._begin = begin
        self._partitions = partitions
        self._options: dict[str, Any] = {
            **settings.kafka.client_options(),
            "request_timeout_ms": _REQUEST_MS,
        }
        self._consumer = AIOKafkaConsumer(
            **self._options,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=settings.kafka.check_crcs,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        self._admin = AIOKafkaAdminClient(**self._options)
        self._reading: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._listeners: list[Callable[[Passed], None]] = []
        self.all: list[Passed] = []
        """Everything seen, in the order of arrival."""
        self._by_conversation: dict[str, list[Passed]] = {}

    async def __aenter__(self) -> Self:
        """Connect and begin to read.

        Raises:
            TrafficError: The broker or a topic is not there.
        """
        try:
            await self._consumer.start()
            await self._admin.start()
            tps = await self._assignment()
            self._consumer.assign(tps)
            read = (
                self._consumer.end_offsets
                if self._begin == "end"
                else self._consumer.beginning_offsets
            )
            for tp, offset in (await read(tps)).items():
                self._consumer.seek(tp, offset)
        except (KafkaError, OSError) as error:
            await self._close()
            raise TrafficError(str(await why_unreachable(self._options, error))) from error
        except BaseException:
            await self._close()
            raise
        self._reading = asyncio.create_task(self._read(), name="traffic")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._close()

    def of(self, conversation_id: str) -> Sequence[Passed]:
        """What a conversation has led to so far."""
        return self._by_conversation.get(conversation_id, ())

    def listen(self, listener: Callable[[Passed], None]) -> None:
        """Call a function with everything that passes from now on."""
        self._listeners.append(listener)

    async def until(self, check: Callable[[], T | None], *, seconds: float, what: str) -> T:
        """Wait until a check of what has been seen gives something.

        Args:
            check: Called now and after each arrival; None means not yet.
            seconds: The deadline.
            what: What is waited for, for the error.

        Raises:
            Overdue: The deadline has passed.
            TrafficError: The topics cannot be read any more.
        """
        try:
            async with asyncio.timeout(seconds), self._news:
                while (found := check()) is None:
                    self._raise_if_stopped()
                    await self._news.wait()
                return found
        except TimeoutError:
            raise Overdue(f"{what}: not within {seconds:g} s") from None

    async def drained(self, *, seconds: float) -> None:
        """Wait until everything committed up to now has been seen.

        Raises:
            Overdue: The deadline has passed.
        """
        ends = await self._consumer.end_offsets(self._consumer.assignment())
        try:
            async with asyncio.timeout(seconds):
                for tp, end in ends.items():
                    while await self._consumer.position(tp) < end:
                        self._raise_if_stopped()
                        await asyncio.sleep(_DRAIN_POLL_SECONDS)
        except TimeoutError:
            raise Overdue(f"the topics were not read to their ends within {seconds:g} s") from None

    async def _assignment(self) -> list[TopicPartition]:
        topics = [*self._logical, *self._dead]
        described = await self._admin.describe_topics(topics)
        counts = {topic["topic"]: len(topic["partitions"]) for topic in described}
        missing = sorted(topic for topic in topics if not counts.get(topic))
        if missing:
            raise TrafficError(
                f"topics do not exist: {', '.join(missing)}; create them with "
                "`turnstream topics apply`"
            )
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(counts[topic])
            if topic in self._dead or self._partitions is None or partition in self._partitions
        ]

    async def _read(self) -> None:
        try:
            while True:
                fetched = await self._consumer.getmany(timeout_ms=_POLL_MS)
                if not fetched:
                    continue
                records = [record for batch in fetched.values() for record in batch]
                # Of several topics, what was written first comes first.
                records.sort(key=lambda record: record.timestamp)
                for record in records:
                    self._take(await self._passed(record))
                async with self._news:
                    self._news.notify_all()
        finally:
            async with self._news:
                self._news.notify_all()

    def _take(self, passed: Passed) -> None:
        self.all.append(passed)
        self._by_conversation.setdefault(passed.conversation_id, []).append(passed)
        for listener in self._listeners:
            listener(passed)

    async def _passed(self, record: ConsumerRecord) -> Passed:
        topic = self._logical.get(record.topic) or self._dead[record.topic]
        event: Event | DeadLettered
        if record.topic in self._dead:
            headers = dict(record.headers)
            event = DeadLettered(
                conversation_id=(record.key or b"").decode(errors="replace"),
                source=headers.get("turnstream.error.topic", b"").decode(errors="replace"),
                reason=headers.get("turnstream.error.reason", b"").decode(errors="replace"),
            )
        else:
            try:
                event = self._codec.decode_as(EVENTS[topic], record.value)
            except UnknownSchema as unknown:
                # A registry's id, or a newer writer: looked up once, else nobody can read on.
                await self._codec.resolve(unknown.fingerprint)
                event = self._codec.decode_as(EVENTS[topic], record.value)
        return Passed(topic, record.topic, record.partition, record.offset, record.timestamp, event)

    def _raise_if_stopped(self) -> None:
        reading = self._reading
        if reading is not None and reading.done():
            error = None if reading.cancelled() else reading.exception()
            raise TrafficError(f"the topics are not read any more: {error!r}") from error

    async def _close(self) -> None:
        await self._admin.close()
        await self._consumer.stop()
