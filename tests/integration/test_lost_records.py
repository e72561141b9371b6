"""Records deleted before they were handled: told, counted, and not more than they are."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import RecordsToDelete
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.test_lanes import PARTITIONS, Lanes, exit_status, lanes_on, port_in
from turnstream.stream.role import EXIT_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

FILLED = (1, 2, 3)
"""The partitions of the first source that `Lanes.produce` fills."""

LOST = re.compile(r"records are lost: offsets (\d+) to (\d+) of '([^']+)' partition (\d+)")


@contextmanager
def log_in(folder: Path, name: str) -> Iterator[tuple[BinaryIO, Path]]:
    """A file for a worker's errors, and its path."""
    path = folder / name
    with path.open("wb") as file:
        yield file, path


async def delete(lanes: Lanes, topic: str, partitions: Sequence[int], *, before: int) -> None:
    """Delete the records below an offset, as retention does; all of them where it is -1."""
    tps = [TopicPartition(topic, partition) for partition in partitions]
    await lanes.admin.delete_records({tp: RecordsToDelete(before_offset=before) for tp in tps})


async def page(port_file: Path) -> dict[tuple[str, str | None], float]:
    """A worker's samples by name and topic; none before it serves them."""
    if not (port := port_in(port_file)):
        return {}
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    return {
        (sample.name, sample.labels.get("topic")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def ends_of(lanes: Lanes) -> dict[TopicPartition, int]:
    """The end offsets of the sources."""
    tps = [
        TopicPartition(topic, partition)
        for topic in lanes.sources
        for partition in range(PARTITIONS)
    ]
    async with AIOKafkaConsumer(
        bootstrap_servers=lanes.bootstrap, isolation_level="read_committed"
    ) as consumer:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(tps)
    return ends


async def ran(
    lanes: Lanes, folder: Path, name: str
) -> tuple[list[tuple[str, ...]], dict[str, float]]:
    """Run a worker until all is committed; return what it said of losses and what it counted."""
    ends = await ends_of(lanes)
    with log_in(folder, f"{name}.log") as (file, path):
        worker = await lanes.start(stderr=file, port_file=str(folder / name), idle_ticks=5)
        deadline = time.monotonic() + 40
        shown: dict[tuple[str, str | None], float] = {}
        while (
            shown.get(("turnstream_partitions_owned", None)) != PARTITIONS
            or await lanes.committed() != ends
        ):
            assert time.monotonic() < deadline, path.read_text()
            await asyncio.sleep(0.1)
            shown = await page(folder / name)
        lost = {
            topic or "": count
            for (metric, topic), count in shown.items()
            if metric == "turnstream_records_lost_total"
        }
        worker.terminate()

        assert 0 == await exit_status(worker), path.read_text()
    return LOST.findall(path.read_text()), lost


async def test_what_is_deleted_before_a_running_worker_read_it_is_told_and_counted(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """The worker ends and names the place; the next one counts the range and handles the rest."""
    gone = 500
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        turns = lanes.sources[0]
        await lanes.produce(3_000, keys=200, value="slow" + "x" * 1_000)
        with log_in(tmp_path, "first.log") as (file, path):
            slow = await lanes.start(
                stderr=file,
                delays_ms=[50],
                slots=4,
                max_poll_records=10,
                max_queued_per_partition=5,
                max_record_bytes=4_096,
            )
            await lanes.until(lambda done: done > 20)
            await delete(lanes, turns, FILLED, before=gone)

            assert EXIT_FAILED == await exit_status(slow, seconds=60), path.read_text()

        said = path.read_text()
        expected = re.search(
            rf"'{re.escape(turns)}' partition \d: expected offset (\d+), the first one there is "
            rf"{gone};",
            said,
        )
        assert expected is not None, said
        assert int(expected[1]) < gone

        # What was in the last transactions may be committed after the answer about the first ones.
        committed = await lanes.committed()
        left = {partition: committed[TopicPartition(turns, partition)] for partition in FILLED}
        found, lost = await ran(lanes, tmp_path, "second")

        assert {
            (str(at), str(gone - 1), turns, str(partition)) for partition, at in left.items()
        } == set(found)
        assert {turns: sum(gone - at for at in left.values())} == lost

        published = [json.loads(each.value) for each in await lanes.read(f"{topic_prefix}out")]
        times = Counter((one["topic"], one["partition"], one["offset"]) for one in published)
        assert {1} == set(times.values())
        ends = await ends_of(lanes)
        kept = {
            (turns, partition, offset)
            for partition in FILLED
            for offset in range(gone, ends[TopicPartition(turns, partition)])
        }
        assert kept <= times.keys()
        assert 750 == sum(topic == lanes.sources[1] for topic, _, _ in times)


async def test_what_is_deleted_while_nobody_runs_is_counted_once(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """At the takeover, and though nothing ever comes after it; a second start is silent."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        turns = lanes.sources[0]
        await lanes.produce(80, keys=8, value="now")
        assert ([], {}) == await ran(lanes, tmp_path, "first")
        await lanes.produce(80, keys=8, value="now")
        await delete(lanes, turns, FILLED, before=-1)

        found, lost = await ran(lanes, tmp_path, "second")

        assert {(turns, str(partition)) for partition in FILLED} == {one[2:] for one in found}
        assert {turns: 60} == lost
        assert 100 == len(await lanes.read(f"{topic_prefix}out"))
        assert ([], {}) == await ran(lanes, tmp_path, "third")


async def test_a_marker_that_retention_removed_is_no_loss(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """An idle partition of a transactional writer ends in one, and is empty a week later."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        async with AIOKafkaProducer(
            bootstrap_servers=kafka_bootstrap, transactional_id=f"{topic_prefix}upstream"
        ) as upstream:
            for source in lanes.sources:
                for _ in range(3):
                    async with upstream.transaction():
                        await upstream.send_and_wait(source, b"now", key=b"key-0", partition=0)
        # The end is behind the marker: that is what is waited for.
        assert ([], {}) == await ran(lanes, tmp_path, "first")
        for source in lanes.sources:
            await delete(lanes, source, (0,), before=-1)

        assert ([], {}) == await ran(lanes, tmp_path, "second")
