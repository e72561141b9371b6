"""Workers as processes on a real broker: joined, stopped, killed, paused - and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupCoordinatorNotAvailableError
from prometheus_client.parser import text_string_to_metric_families

from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.role import EXIT_FAILED, EXIT_REFUSED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from aiokafka.structs import ConsumerRecord

PARTITIONS = 4
DLQ_PARTITIONS = 2
WORKER = Path(__file__).with_name("lane_worker.py")
SOURCE_ROOT = Path(__file__).parents[2] / "processors"


@dataclass
class Lanes:
    """Topics, workers and what they left behind, of one test."""

    bootstrap: str
    prefix: str
    admin: AIOKafkaAdminClient
    producer: AIOKafkaProducer
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The two source topics."""
        return [f"{self.prefix}turns", f"{self.prefix}results"]

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.prefix}group"

    async def create_topics(self) -> None:
        """Create the sources, the output, the changelog and the dead-letter topics."""
        names = [*self.sources, f"{self.prefix}out", f"{self.prefix}changelog"]
        topics = [NewTopic(name, PARTITIONS, 1) for name in names]
        topics += [NewTopic(f"{name}.dlq", DLQ_PARTITIONS, 1) for name in self.sources]
        await self.admin.create_topics(topics)

    async def start(self, **options: Any) -> asyncio.subprocess.Process:
        """Start a worker; `stderr` may be a pipe."""
        stderr = options.pop("stderr", None)
        settings = {
            "bootstrap_servers": self.bootstrap,
            "group": self.group,
            "sources": self.sources,
            "priority": self.sources[1:],
            "changelog": f"{self.prefix}changelog",
            "out": f"{self.prefix}out",
            "start_from": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "rebalance_timeout_ms": 20_000,
            "grace_seconds": 5,
            "retry_backoff_ms": 10,
            "log": "WARNING",
            **options,
        }
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            str(WORKER),
            json.dumps(settings),
            env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
            stderr=stderr,
        )
        self.workers.append(worker)
        return worker

    async def produce(self, count: int, *, keys: int, value: str) -> None:
        """Send records to both sources, `count` in all, each key always to one partition."""
        sent = []
        for number in range(count):
            key = number % keys
            sent.append(
                await self.producer.send(
                    self.sources[number % 4 == 0],
                    f"{value} {number}".encode(),
                    key=f"key-{key}".encode(),
                    partition=key % PARTITIONS,
                )
            )
        await asyncio.gather(*sent)

    async def committed(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets."""
        try:
            found = await self.admin.list_consumer_group_offsets(self.group)
        except GroupCoordinatorNotAvailableError:
            # A broker that has just started and never had a group.
            return {}
        return {tp: meta.offset for tp, meta in found.items() if meta.offset >= 0}

    async def until(self, condition: Callable[[int], bool], *, seconds: float = 40) -> None:
        """Wait until the number of committed inputs meets a condition."""
        deadline = time.monotonic() + seconds
        while not condition(done := sum((await self.committed()).values())):
            assert time.monotonic() < deadline, f"only {done} inputs committed in {seconds} s"
            await asyncio.sleep(0.1)

    async def read(self, topic: str) -> list[ConsumerRecord[bytes, bytes]]:
        """Return all committed records of a topic."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            count = len(consumer.partitions_for_topic(topic) or ()) or (
                DLQ_PARTITIONS if topic.endswith(".dlq") else PARTITIONS
            )
            tps = [TopicPartition(topic, partition) for partition in range(count)]
            consumer.assign(tps)
            ends = await consumer.end_offsets(tps)
            records: list[ConsumerRecord[bytes, bytes]] = []
            while any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    records.extend(batch)
            return records
        finally:
            await consumer.stop()

    async def assert_exactly_once(self, count: int) -> None:
        """Check that each input was published once, in order, and that the state says so."""
        published = [json.loads(record.value) for record in await self.read(f"{self.prefix}out")]
        inputs = Counter((each["topic"], each["partition"], each["offset"]) for each in published)

        assert count == len(inputs)
        assert count == len(published)

        by_key: dict[str, list[int]] = defaultdict(list)
        by_source: dict[tuple[str, str], list[int]] = defaultdict(list)
        for each in published:
            by_key[each["key"]].append(each["count"])
            by_source[each["key"], each["topic"]].append(each["offset"])

        assert all(counts == list(range(1, len(counts) + 1)) for counts in by_key.values())
        assert all(offsets == sorted(offsets) for offsets in by_source.values())

        state: dict[str, int] = {}
        for record in await self.read(f"{self.prefix}changelog"):
            if record.key == IMPRINT_KEY:
                continue
            state[(record.key or b"").decode()] = json.loads(record.value)["count"]

        assert {key: len(counts) for key, counts in by_key.items()} == state


@asynccontextmanager
async def lanes_on(bootstrap: str, prefix: str) -> AsyncIterator[Lanes]:
    """Give a test its topics, and end the workers it started."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    await admin.start()
    await producer.start()
    lanes = Lanes(bootstrap, prefix, admin, producer)
    try:
        await lanes.create_topics()
        yield lanes
    finally:
        for worker in lanes.workers:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
        await producer.stop()
        await admin.close()


async def exit_status(worker: asyncio.subprocess.Process, *, seconds: float = 30) -> int:
    """Wait for a worker to end."""
    async with asyncio.timeout(seconds):
        return await worker.wait()


async def test_join_kill_and_stop_lose_and_repeat_nothing(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Each input is published once, in order, through a join, a kill -9 and a SIGTERM."""
    count = 6_000
    delays = [2, 5, 10, 20, 300]
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(count, keys=200, value="slow")
        first = await lanes.start(delays_ms=delays)
        await lanes.until(lambda done: done > 300)
        second = await lanes.start(delays_ms=delays)
        await lanes.until(lambda done: done > 1_500)
        first.kill()
        await lanes.start(delays_ms=delays)
        await lanes.until(lambda done: done > 3_500)
        second.terminate()

        assert 0 == await exit_status(second)

        # Each committed offset counts the records below it: no control markers in the sources.
        await lanes.until(lambda done: done == count)
        await lanes.assert_exactly_once(count)


async def test_woken_zombie_publishes_nothing(kafka_bootstrap: str, topic_prefix: str) -> None:
    """A worker paused beyond its session is fenced when it wakes, and ends."""
    count = 3_000
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(count, keys=100, value="slow")
        zombie = await lanes.start(delays_ms=[20, 50, 100])
        await lanes.until(lambda done: done > 200)
        zombie.send_signal(signal.SIGSTOP)
        await lanes.start(delays_ms=[2, 5])
        await lanes.until(lambda done: done == count)
        zombie.send_signal(signal.SIGCONT)

        assert EXIT_FAILED == await exit_status(zombie)

        await lanes.assert_exactly_once(count)


def port_in(port_file: Path) -> str:
    """The port that a worker has written; empty before it has one."""
    return port_file.read_text() if port_file.exists() else ""


async def partitions_shown(port_file: Path) -> list[str]:
    """The partitions that a worker's page has a gauge of; none before it serves one."""
    if not (port := port_in(port_file)):
        return []
    async with httpx.AsyncClient() as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    return [
        sample.labels["partition"]
        for family in text_string_to_metric_families(page)
        if family.name == "turnstream_state_records"
        for sample in family.samples
    ]


async def test_each_partition_is_on_one_page(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """When a second process joins and when it leaves, their series add up to each one once."""
    ports = [tmp_path / "first", tmp_path / "second"]
    every = [str(partition) for partition in range(PARTITIONS)]

    async def pages(condition: Callable[[list[str], list[str]], bool]) -> None:
        async with asyncio.timeout(40):
            while True:
                first, second = [await partitions_shown(port) for port in ports]
                if condition(first, second):
                    return
                await asyncio.sleep(0.1)

    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(80, keys=8, value="now")
        await lanes.start(port_file=str(ports[0]))
        await lanes.until(lambda done: done == 80)
        await pages(lambda first, second: every == sorted(first) and not second)
        second_worker = await lanes.start(port_file=str(ports[1]))
        await pages(
            lambda first, second: bool(first and second) and every == sorted([*first, *second])
        )
        second_worker.terminate()

        assert 0 == await exit_status(second_worker)

        ports[1].unlink()
        await pages(lambda first, _: every == sorted(first))


async def test_bad_records_go_to_the_dead_letter_topic_untouched(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Rejected records and handler faults are dead-lettered and the partition goes on."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        turns = lanes.sources[0]
        send = lanes.producer.send_and_wait
        await send(turns, b"slow no key", partition=3, headers=[("trace", b"t1")])
        await send(turns, None, key=b"key-3", partition=3)
        await send(turns, b"bug now", key=b"key-3", partition=3)
        await send(turns, b"bug slow", key=b"key-7", partition=3)
        await lanes.produce(400, keys=20, value="slow")
        worker = await lanes.start(delays_ms=[1, 2])
        await lanes.until(lambda done: done == 404)
        worker.terminate()

        assert 0 == await exit_status(worker)

        letters = {}
        for record in await lanes.read(f"{turns}.dlq"):
            headers = dict(record.headers)
            reason = headers["turnstream.error.reason"].decode()
            attempts = headers["turnstream.error.attempts"].decode()
            letters[int(headers["turnstream.error.offset"])] = (
                record.key,
                record.value,
                record.partition,
                headers.get("trace"),
                headers["turnstream.error.topic"].decode(),
                reason,
                attempts,
            )

        assert {
            0: (None, b"slow no key", 1, b"t1", turns, "missing_key", "1"),
            1: (b"key-3", None, 1, None, turns, "missing_value", "1"),
            2: (b"key-3", b"bug now", 1, None, turns, "handler_failed", "3"),
            3: (b"key-7", b"bug slow", 1, None, turns, "handler_failed", "3"),
        } == letters

        assert 400 == len(await lanes.read(f"{topic_prefix}out"))


async def test_timer_fires_although_a_control_marker_ends_a_topic(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """A topic that ends in a marker, which is never a record, counts as handled to its end."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        async with AIOKafkaProducer(
            bootstrap_servers=kafka_bootstrap, transactional_id=f"{topic_prefix}upstream"
        ) as upstream:
            for source in lanes.sources:
                async with upstream.transaction():
                    await upstream.send_and_wait(source, b"remind 1", key=b"key-0", partition=0)
        worker = await lanes.start()
        async with asyncio.timeout(30):
            published: list[bytes | None] = []
            while b"reminder" not in published:
                published = [each.value for each in await lanes.read(f"{topic_prefix}out")]
        worker.terminate()

        assert 0 == await exit_status(worker)
        # Each of the two inputs moved the reminder to its own time.
        assert published.count(b"reminder") in {1, 2}


async def test_embedded_broker_carries_the_lanes(
    embedded_bootstrap: str, topic_prefix: str
) -> None:
    """The demo's broker, which creates topics on first use, runs the same lanes."""
    async with AIOKafkaProducer(bootstrap_servers=embedded_bootstrap) as producer:
        names = ["turns", "results", "out", "changelog", "turns.dlq", "results.dlq"]
        for name in names:
            await producer.partitions_for(f"{topic_prefix}{name}")
        admin = AIOKafkaAdminClient(bootstrap_servers=embedded_bootstrap)
        lanes = Lanes(embedded_bootstrap, topic_prefix, admin, producer)
        await lanes.produce(40, keys=8, value="slow")
        worker = await lanes.start(delays_ms=[1, 2], check_crcs=False)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=embedded_bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            check_crcs=False,
        )
        try:
            await consumer.start()
            topic = f"{topic_prefix}out"
            consumer.assign([TopicPartition(topic, each) for each in range(PARTITIONS)])
            seen: set[tuple[str, int, int]] = set()
            async with asyncio.timeout(60):
                while len(seen) < 40:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        values = [json.loads(record.value) for record in batch]
                        seen |= {(v["topic"], v["partition"], v["offset"]) for v in values}
            worker.terminate()

            assert 0 == await exit_status(worker)
        finally:
            await consumer.stop()
            if worker.returncode is None:
                worker.kill()
                await worker.wait()


async def test_new_group_refuses_to_start_without_start_from(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Nobody wants a week of old turns answered by accident."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        worker = await lanes.start(start_from=None)

        assert EXIT_REFUSED == await exit_status(worker)


async def test_latest_starts_behind_what_was_there(kafka_bootstrap: str, topic_prefix: str) -> None:
    """A group that starts from the latest offsets keeps them for partitions without traffic."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(40, keys=8, value="old")
        workers: Sequence[asyncio.subprocess.Process] = [
            await lanes.start(start_from="latest") for _ in range(2)
        ]
        await lanes.until(lambda done: done == 40)
        await lanes.produce(40, keys=8, value="new")
        await lanes.until(lambda done: done == 80)
        for worker in workers:
            worker.terminate()

        assert [0, 0] == [await exit_status(worker) for worker in workers]
        assert 40 == len(await lanes.read(f"{topic_prefix}out"))


@pytest.mark.parametrize(("recreated", "filled"), [(1, 0), (1, 400), (2, 400)])
async def test_recreated_topic_refuses_the_start(
    kafka_bootstrap: str, topic_prefix: str, recreated: int, filled: int
) -> None:
    """State of a former topic is never built upon.

    Not if the new one has offsets that look as if they had been handled, nor if no offset of the
    group is left, so that it starts like a new one.
    """
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(200, keys=8, value="now")
        worker = await lanes.start()
        await lanes.until(lambda done: done == 200)
        worker.terminate()
        await exit_status(worker)
        before = len(await lanes.read(f"{topic_prefix}out"))
        for topic in lanes.sources[:recreated]:
            await lanes.admin.delete_topics([topic])
            async with asyncio.timeout(20):
                while True:
                    created = await lanes.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
                    if not any(error[1] for error in created.topic_errors):
                        break
                    await asyncio.sleep(0.1)
        await lanes.produce(filled, keys=8, value="now")
        again = await lanes.start(stderr=asyncio.subprocess.PIPE)
        async with asyncio.timeout(40):
            _, errors = await again.communicate()

        assert EXIT_REFUSED == again.returncode, errors.decode()
        assert "start refused: the topic was recreated" in errors.decode()
        assert before == len(await lanes.read(f"{topic_prefix}out"))
