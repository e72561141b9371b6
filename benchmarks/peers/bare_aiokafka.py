"""A loop over aiokafka's consumer and producer: state in memory only, nothing to restore it from.

Offsets are committed by the consumer's own timer; a crash repeats what was published since, and the
state is gone. It is here as the least that any delivery on the same client can cost.
"""

import asyncio
from inspect import isawaitable

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.peers.options import Options, read
from benchmarks.work import Received, Work
from turnstream.core.conversation import Conversation


async def loop(options: Options) -> None:
    work = Work(options.settings)
    servers = options.settings.kafka.bootstrap_servers
    consumer = AIOKafkaConsumer(
        work.turns,
        bootstrap_servers=servers,
        group_id=options.group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5, max_batch_size=262_144)
    await producer.start()
    await consumer.start()
    states: dict[bytes, Conversation] = {}
    while True:
        fetched = await consumer.getmany(timeout_ms=200, max_records=2_000)
        for records in fetched.values():
            for one in records:
                options.meter.first_record()
                record = Received(
                    one.topic, one.partition, one.offset, one.key, one.value, one.timestamp
                )
                handled = work.decide(record, states.get(record.key))
                if isawaitable(handled):
                    handled = await handled
                states[record.key] = work.state(handled)
                for publication in handled.publications:
                    await producer.send(
                        publication.topic,
                        key=publication.key,
                        value=publication.value,
                        headers=list(publication.headers),
                        partition=record.partition,
                    )


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(loop(read()))


if __name__ == "__main__":
    main()
