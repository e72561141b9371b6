"""A changelog that is not for this program: the start is refused, and nothing is changed."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka.admin import NewPartitions
from aiokafka.structs import TopicPartition

from tests.integration.test_lanes import PARTITIONS, Lanes, exit_status, lanes_on
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.role import EXIT_REFUSED

NEWER = 2


async def worked(lanes: Lanes, *, through: int, **options: Any) -> None:
    """Run a worker until that many inputs are committed, and stop it."""
    worker = await lanes.start(**options)
    await lanes.until(lambda done: done == through)
    worker.terminate()

    assert 0 == await exit_status(worker)


async def refused(lanes: Lanes, **options: Any) -> str:
    """Start a worker that must not start; return what it says."""
    worker = await lanes.start(stderr=asyncio.subprocess.PIPE, **options)
    async with asyncio.timeout(40):
        _, errors = await worker.communicate()

    assert EXIT_REFUSED == worker.returncode, errors.decode()

    return errors.decode()


async def imprints(lanes: Lanes) -> list[tuple[int, int, dict[str, Any]]]:
    """Return partition, place among its records, and value of what the changelog says of itself."""
    seen = [0] * PARTITIONS
    found = []
    for record in await lanes.read(f"{lanes.prefix}changelog"):
        if record.key == IMPRINT_KEY:
            found.append((record.partition, seen[record.partition], json.loads(record.value)))
        seen[record.partition] += 1
    return sorted(found, key=lambda one: one[:2])


async def written(lanes: Lanes) -> tuple[list[int], dict[TopicPartition, int]]:
    """Return how many records each topic has, and the committed offsets."""
    topics = [f"{lanes.prefix}{name}" for name in ("changelog", "out", "turns.dlq", "results.dlq")]
    return [len(await lanes.read(topic)) for topic in topics], await lanes.committed()


async def test_a_newer_changelog_is_left_to_the_newer_version(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """The message says which and what to do, nothing is touched, and the newer one goes on."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(80, keys=8, value="now")
        await worked(lanes, through=80, changelog_format=NEWER)

        found = await imprints(lanes)
        assert [(number, 0) for number in range(PARTITIONS)] == [one[:2] for one in found]
        assert {(NEWER, PARTITIONS)} == {(one["format"], one["partitions"]) for *_, one in found}
        named = frozenset([*lanes.sources, f"{topic_prefix}changelog"])
        assert {named} == {frozenset(one["topics"]) for *_, one in found}
        assert all(one["cluster"] and all(one["topics"].values()) for *_, one in found)

        await lanes.produce(40, keys=8, value="now")
        before = await written(lanes)
        errors = await refused(lanes)

        assert f"start refused: changelog '{topic_prefix}changelog' partition" in errors
        assert "has format 2, this program knows formats up to 1" in errors
        assert "Run that version, or a newer one" in errors
        assert "Traceback" not in errors
        assert before == await written(lanes)

        await worked(lanes, through=120, changelog_format=NEWER)
        await lanes.assert_exactly_once(120)
        assert PARTITIONS == len(await imprints(lanes))


async def test_an_upgraded_changelog_is_refused_though_the_store_knows_its_records(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """It is no longer the first record of its partition, and a store on disk does not read it."""
    options = {"store": "rocksdict", "data_dir": str(tmp_path)}
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(80, keys=8, value="now")
        await worked(lanes, through=80, **options)
        await lanes.produce(40, keys=8, value="now")
        await worked(lanes, through=120, changelog_format=NEWER, **options)

        said = [
            (partition, place == 0, 1 if place == 0 else NEWER)
            for partition in range(PARTITIONS)
            for place in (0, 1)
        ]
        found = await imprints(lanes)
        assert said == [(partition, place == 0, one["format"]) for partition, place, one in found]

        before = await written(lanes)
        for store in (options, {}):
            assert "has format 2, this program knows formats up to 1" in await refused(
                lanes, **store
            )

        assert before == await written(lanes)

        await lanes.produce(40, keys=8, value="now")
        await worked(lanes, through=160, changelog_format=NEWER, **options)
        await lanes.assert_exactly_once(160)


async def test_topics_with_more_partitions_than_the_changelog_was_written_for(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """All topics alike, so that their counts agree: only the changelog knows that keys moved."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(80, keys=8, value="now")
        await worked(lanes, through=80)
        before = await written(lanes)
        names = [*lanes.sources, f"{topic_prefix}out", f"{topic_prefix}changelog"]
        await lanes.admin.create_partitions({name: NewPartitions(2 * PARTITIONS) for name in names})
        async with asyncio.timeout(20):
            while {2 * PARTITIONS} != {  # noqa: ASYNC110 - the broker tells nobody
                len(one["partitions"]) for one in await lanes.admin.describe_topics(names)
            }:
                await asyncio.sleep(0.1)
        errors = await refused(lanes)

        assert (
            f"was written for {PARTITIONS} partitions, the topics now have {2 * PARTITIONS}"
            in errors
        )
        assert "migrate the state" in errors
        assert before == await written(lanes)
