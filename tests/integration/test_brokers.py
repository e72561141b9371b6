"""The brokers that the demo, the tests and the benchmarks run on do what they are used for."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import UnknownTopicOrPartitionError

from turnstream.demo.embedded import EmbeddedBroker
from turnstream.demo.errors import BrokerError
from turnstream.demo.kafka import KafkaBroker
from turnstream.stream.offset_fetch import committed_offsets


async def create_topic(bootstrap: str, topic: str) -> None:
    """Creates a topic of one partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        await admin.close()


async def produce_in_transactions(bootstrap: str, topic: str) -> None:
    """Commits `kept`, aborts `dropped`, commits `last`."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{topic}-producer", retry_backoff_ms=20
    )
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"dropped", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"last", partition=0)
    finally:
        await producer.stop()


async def read_committed(bootstrap: str, topic: str, *, until: bytes) -> list[bytes]:
    """Reads committed values from the beginning, up to one that must come."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        check_crcs=False,
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        async for record in consumer:
            values.append(record.value)
            if record.value == until:
                break
        return values
    finally:
        await consumer.stop()


async def test_real_kafka_commits_transactions(kafka_bootstrap: str, topic_prefix: str) -> None:
    """A reader of committed records sees both committed transactions and not the aborted one."""
    topic = f"{topic_prefix}turns"
    await create_topic(kafka_bootstrap, topic)
    await produce_in_transactions(kafka_bootstrap, topic)

    assert [b"kept", b"last"] == await read_committed(kafka_bootstrap, topic, until=b"last")


@pytest.mark.kafka
@pytest.mark.slow
async def test_real_kafka_keeps_data_over_crash_and_restart(
    tmp_path: Path, topic_prefix: str
) -> None:
    """After SIGKILL, and after a clean stop, the broker is back on its address with its data."""
    topic = f"{topic_prefix}turns"
    with KafkaBroker(tmp_path / "kafka") as broker:
        address = broker.bootstrap
        await create_topic(address, topic)
        await produce_in_transactions(address, topic)
        # The broker answers a commit before its marker is written: seen first, it must be kept.
        before = await read_committed(address, topic, until=b"last")
        broker.kill()
        broker.start()
        after_crash = await read_committed(broker.bootstrap, topic, until=b"last")
        broker.stop()
        stopped = broker.pid
        broker.start()
        after_stop = await read_committed(broker.bootstrap, topic, until=b"last")

        assert None is stopped
        assert address == broker.bootstrap
        assert [b"kept", b"last"] == before
        assert [b"kept", b"last"] == after_crash
        assert [b"kept", b"last"] == after_stop


async def test_real_kafka_creates_no_topic_by_itself(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Naming a topic that nobody created is an error, as on a production cluster."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    try:
        described = await admin.describe_topics([f"{topic_prefix}absent"])
    finally:
        await admin.close()

    assert [UnknownTopicOrPartitionError.errno] == [topic["error_code"] for topic in described]


async def test_embedded_broker_commits_transactions(
    embedded_bootstrap: str, topic_prefix: str
) -> None:
    """The in-process broker creates topics on first use and takes transactions."""
    topic = f"{topic_prefix}turns"
    await produce_in_transactions(embedded_bootstrap, topic)

    values = await read_committed(embedded_bootstrap, topic, until=b"last")

    assert b"last" == values[-1]
    assert b"kept" in values


def test_brokers_have_no_address_before_they_start() -> None:
    """Asking for an address too early is an error that says what to do."""
    for broker in (KafkaBroker(), EmbeddedBroker()):
        with pytest.raises(BrokerError, match=r"call start\(\) first"):
            _ = broker.bootstrap
        broker.close()


@pytest.mark.kafka
@pytest.mark.slow
async def test_a_broker_that_comes_back_is_not_believed_to_have_forgotten_a_group(
    tmp_path: Path, topic_prefix: str
) -> None:
    """While it reads its log it answers without offsets: the same are read after the restart."""
    topic, group = f"{topic_prefix}turns", f"{topic_prefix}group"
    tp = TopicPartition(topic, 0)
    with KafkaBroker(data_dir=tmp_path / "kafka") as broker:
        await create_topic(broker.bootstrap, topic)
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=f"{group}-0"
        )
        await producer.start()
        for offset in range(1, 201):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({tp: offset}, group)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            assert {tp: 200} == await committed_offsets(consumer, [tp])

            broker.kill()
            starting = asyncio.create_task(asyncio.to_thread(broker.start))
            answers: list[Mapping[TopicPartition, int | None]] = []
            async with asyncio.timeout(120):
                while not starting.done() or len(answers) < 100:
                    answers.append(await committed_offsets(consumer, [tp]))
                    await asyncio.sleep(0.01)
                await starting

            assert [{tp: 200}] * len(answers) == answers
        finally:
            await consumer.stop()
