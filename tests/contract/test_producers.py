"""What lanes rely on in their producer: Kafka's own, and the one that their unit tests have."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import TopicPartition

from tests.unit.stream.lane_fakes import FakeProducer
from turnstream.stream.settings import StreamSettings
from turnstream.stream.transaction import TransactionalProducer, lane_producer

TOPICS: Final = ("actions", "changelog")
SOURCE: Final = "turns"

T = TypeVar("T")
Records = list[tuple[bytes | None, bytes | None]]


class Log(Protocol):
    """Where a producer writes to, as others see it."""

    group: str

    @property
    def producer(self) -> TransactionalProducer:
        """Writes there; started by the fixture."""
        ...

    def name(self, topic: str) -> str:
        """A topic as it is called there."""
        ...

    async def read(self, topic: str) -> Records:
        """Key and value of every committed record of partition 0."""
        ...

    async def offset(self) -> int | None:
        """What the group has committed of the source's partition 0."""
        ...


class FakeLog:
    """The double."""

    group = "group"

    def __init__(self) -> None:
        self._producer = FakeProducer()

    @property
    def producer(self) -> TransactionalProducer:
        """The double itself."""
        return self._producer

    def name(self, topic: str) -> str:
        """Itself."""
        return topic

    async def read(self, topic: str) -> Records:
        """What is kept."""
        return self._producer.sent(topic)

    async def offset(self) -> int | None:
        """What is kept."""
        return self._producer.offsets().get(SOURCE)


class KafkaLog:
    """A real one."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.prefix = prefix
        self.group = f"{prefix}group"
        self._bootstrap = bootstrap
        settings = StreamSettings(
            bootstrap_servers=bootstrap,
            group=self.group,
            role="decide",
            sources=(self.name(SOURCE),),
            changelog=self.name("changelog"),
        )
        self.producer = lane_producer(0, settings=settings)

    def name(self, topic: str) -> str:
        """With the test's own prefix."""
        return f"{self.prefix}{topic}"

    async def read(self, topic: str) -> Records:
        """Read to the end of what is committed."""
        place = TopicPartition(self.name(topic), 0)
        found: Records = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with asyncio.timeout(30), consumer:
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            while await consumer.position(place) < end:
                batches = await consumer.getmany(timeout_ms=100)
                found += [(one.key, one.value) for one in batches.get(place, ())]
        return found

    async def offset(self) -> int | None:
        """Ask the group's coordinator."""
        try:
            async with admin(self._bootstrap) as client:
                found = await client.list_consumer_group_offsets(self.group)
        except GroupCoordinatorNotAvailableError:
            # A broker that has just started and never had a group.
            return None
        committed = found.get(TopicPartition(self.name(SOURCE), 0))
        return committed.offset if committed is not None and committed.offset >= 0 else None


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connected client."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(params=["fake", pytest.param("kafka", marks=pytest.mark.kafka)])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    """An empty log, with its producer started."""
    opened: Log = FakeLog()
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("kafka_bootstrap")
        opened = KafkaLog(bootstrap, request.getfixturevalue("topic_prefix"))
        async with admin(bootstrap) as client:
            names = [opened.name(topic) for topic in (*TOPICS, SOURCE)]
            await client.create_topics([NewTopic(name, 1, 1) for name in names])
    await opened.producer.start()
    yield opened
    await opened.producer.stop()


async def until(expected: T, read: Callable[[], Awaitable[T]]) -> T:
    """Read until it is what is expected: a commit is certain at once, and seen soon after."""
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            while await read() != expected:  # noqa: ASYNC110 - nothing says when
                await asyncio.sleep(0.05)
    return await read()


async def send(log: Log, topic: str, *values: bytes | None) -> int:
    """Send one batch of records with the key `k`; return the offset that its first one got."""
    batch = log.producer.create_batch()
    for value in values:
        assert batch.append(timestamp=None, key=b"k", value=value, headers=[]) is not None
    sent = await log.producer.send_batch(batch, log.name(topic), partition=0)
    offset: int = (await sent).offset
    return offset


async def test_a_transaction_is_seen_when_it_is_committed(log: Log) -> None:
    """All of it at once, on each topic in the order it was sent; nothing before."""
    await log.producer.begin_transaction()
    await send(log, "actions", b"1", b"2")
    await send(log, "actions", b"3")
    await send(log, "changelog", b"state", None)
    before = [await log.read(topic) for topic in TOPICS]

    await log.producer.commit_transaction()

    assert [[], []] == before
    actions: Records = [(b"k", b"1"), (b"k", b"2"), (b"k", b"3")]
    states: Records = [(b"k", b"state"), (b"k", None)]
    assert actions == await until(actions, lambda: log.read("actions"))
    assert states == await until(states, lambda: log.read("changelog"))


async def test_offsets_belong_to_the_transaction(log: Log) -> None:
    """The group's are those of the last one that was committed."""
    place = TopicPartition(log.name(SOURCE), 0)
    last = await log.offset()
    assert last is None
    for offset in (5, 9):
        await log.producer.begin_transaction()
        await log.producer.send_offsets_to_transaction({place: offset}, log.group)
        await send(log, "actions", b"%d" % offset)
        before = await log.offset()

        await log.producer.commit_transaction()

        assert last == before
        last = await until(offset, log.offset)
        assert offset == last


async def test_a_batch_is_told_its_offset(log: Log) -> None:
    """Each transaction takes one more offset of a topic than it has records there."""
    offsets = []
    for values in ((b"1", b"2"), (b"3",), (b"4",)):
        await log.producer.begin_transaction()
        offsets.append(await send(log, "changelog", *values))
        await log.producer.commit_transaction()

    assert [0, 3, 5] == offsets


async def test_batches_of_one_transaction_follow_each_other(log: Log) -> None:
    """Sent without waiting for each other, as lanes do."""
    await log.producer.begin_transaction()
    sent = []
    for number in range(10):
        batch = log.producer.create_batch()
        batch.append(timestamp=None, key=b"k", value=b"%d" % number, headers=[])
        name = log.name("actions")
        sent.append(await log.producer.send_batch(batch, name, partition=0))
    offsets = [told.offset for told in await asyncio.gather(*sent)]
    await log.producer.commit_transaction()

    assert list(range(10)) == offsets
    expected: Records = [(b"k", b"%d" % number) for number in range(10)]
    assert expected == await until(expected, lambda: log.read("actions"))


async def test_a_full_batch_takes_no_more(log: Log) -> None:
    """It says so, and what it has goes out whole."""
    batch = log.producer.create_batch()
    taken = 0
    while batch.append(timestamp=None, key=b"k", value=b"x" * 10_000, headers=[]) is not None:
        taken += 1
        assert taken < 1_000, "the batch has no bound"
    counted = batch.record_count()
    await log.producer.begin_transaction()
    await (await log.producer.send_batch(batch, log.name("actions"), partition=0))
    await log.producer.commit_transaction()

    assert taken == counted
    expected: Records = [(b"k", b"x" * 10_000)] * taken
    assert expected == await until(expected, lambda: log.read("actions"))
