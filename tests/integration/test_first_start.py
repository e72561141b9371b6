"""Where a new group starts is decided once, however many of its processes start together."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.integration.test_lanes import PARTITIONS, lanes_on
from turnstream.stream import start
from turnstream.stream.offset_fetch import any_committed, committed_offsets
from turnstream.stream.settings import StreamSettings


async def test_a_start_that_comes_second_moves_no_offset(
    kafka_bootstrap: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found none committed, but what came after the other's commit must be read."""
    resolve = start._resolve
    second: list[asyncio.Task[object]] = []
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        settings = StreamSettings(
            bootstrap_servers=kafka_bootstrap,
            group=lanes.group,
            role="decide",
            sources=tuple(lanes.sources),
            changelog=f"{topic_prefix}changelog",
            start_from="latest",
        )

        async def overtaken(*arguments: object, **options: object) -> object:
            if not second:
                second.append(asyncio.create_task(start.check_start(settings)))
                await second[0]
                await lanes.produce(40, keys=8, value="new")
            return await resolve(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(start, "_resolve", overtaken)
        await lanes.produce(80, keys=8, value="old")
        found = await start.check_start(settings)

        assert PARTITIONS == found.partitions
        assert 80 == sum((await lanes.committed()).values())
        assert 2 * PARTITIONS == len(await lanes.committed())


async def test_an_offset_whose_transaction_is_open_is_not_taken_for_none(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """The broker acknowledges its end before the offset can be read: who asks then must wait."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        tp = TopicPartition(lanes.sources[0], 0)
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka_bootstrap, transactional_id=f"{lanes.group}-start"
        )
        consumer = AIOKafkaConsumer(
            bootstrap_servers=kafka_bootstrap, group_id=lanes.group, enable_auto_commit=False
        )
        await producer.start()
        await consumer.start()
        try:
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({tp: 7}, lanes.group)
            told = asyncio.create_task(committed_offsets(consumer, [tp]))
            some = asyncio.create_task(any_committed(consumer, [tp], settled=True))
            # One connection, one order: when the second of these is answered, those were, too.
            for _ in range(2):
                assert {tp: None} == await committed_offsets(consumer, [tp], settled=False)
                assert not await any_committed(consumer, [tp], settled=False)
            await producer.commit_transaction()

            assert {tp: 7} == await told
            assert await some
        finally:
            await consumer.stop()
            await producer.stop()
