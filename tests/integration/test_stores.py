"""Stores on disk with a real changelog: what a restart reads, and what it no longer trusts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.structs import TopicPartition

from tests.integration.test_lanes import PARTITIONS, Lanes, exit_status, lanes_on
from turnstream.stream.changelog import identify
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.restore import RestoredState, restore
from turnstream.stream.settings import StreamSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


def settings(bootstrap: str, prefix: str, data_dir: Path) -> StreamSettings:
    """The stream of a worker whose state is on disk."""
    return StreamSettings(
        bootstrap_servers=bootstrap,
        group=f"{prefix}group",
        role="decide",
        sources=(f"{prefix}turns",),
        changelog=f"{prefix}changelog",
        store="rocksdict",
        data_dir=str(data_dir),
    )


async def commit(
    stream: StreamSettings, records: Mapping[bytes, bytes | None], *, abort: bool = False
) -> None:
    """Write to partition 0 of the changelog as a lane does, in one transaction."""
    producer = AIOKafkaProducer(
        bootstrap_servers=stream.bootstrap_servers, transactional_id=f"{stream.group}-0"
    )
    await producer.start()
    try:
        await producer.begin_transaction()
        for key, value in records.items():
            await producer.send(stream.changelog, value, key=key, partition=0)
        await producer.flush()
        await (producer.abort_transaction() if abort else producer.commit_transaction())
    finally:
        await producer.stop()


async def restored(stream: StreamSettings) -> tuple[int, dict[bytes, bytes]]:
    """Restore partition 0; return how many records were read and what there is."""
    states = await restore([0], settings=stream)
    state: RestoredState = states[0]
    try:
        return state.read, dict(state.records.items())
    finally:
        state.records.close()


@asynccontextmanager
async def changelog_of(stream: StreamSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Create the changelog."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stream.bootstrap_servers)
    await admin.start()
    try:
        await create(admin, stream)
        yield admin
    finally:
        await admin.close()


async def create(admin: AIOKafkaAdminClient, stream: StreamSettings) -> None:
    """Create the changelog, once the one of its name is gone."""
    async with asyncio.timeout(30):
        while True:
            # Records of a topic that is only compacted cannot be deleted.
            topics = [
                NewTopic(stream.changelog, 1, 1, topic_configs={"cleanup.policy": "compact,delete"})
            ]
            response = await admin.create_topics(topics)
            if not response.topic_errors[0][1]:
                break
            await asyncio.sleep(0.1)
        while not (await admin.describe_topics([stream.changelog]))[0]["partitions"]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def rebuilt(caplog: pytest.LogCaptureFixture) -> str:
    """Why stores were rebuilt, according to the log since the last look."""
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    caplog.clear()
    return "\n".join(line for line in lines if "emptied and filled again" in line)


async def settled(lanes: Lanes, *, members: int) -> None:
    """Wait until the group has that many members and each has its partitions."""
    async with asyncio.timeout(60):
        while True:
            (response,) = await lanes.admin.describe_consumer_groups([lanes.group])
            _, _, state, _, _, found, *_ = response.groups[0]
            if state == "Stable" and len(found) == members:
                return
            await asyncio.sleep(0.1)


async def test_a_restart_reads_only_what_is_new(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Records, removals and control markers: the store goes on from its position to the end."""
    stream = settings(kafka_bootstrap, topic_prefix, tmp_path)
    async with changelog_of(stream):
        assert (0, {}) == await restored(stream)

        await commit(stream, {b"a": b"1", b"b": b"2", b"c": b"3"})

        assert (3, {b"a": b"1", b"b": b"2", b"c": b"3"}) == await restored(stream)
        assert (0, {b"a": b"1", b"b": b"2", b"c": b"3"}) == await restored(stream)

        await commit(stream, {b"a": b"aborted", b"d": b"aborted"}, abort=True)
        await commit(stream, {b"a": b"4", b"b": None})

        assert (2, {b"a": b"4", b"c": b"3"}) == await restored(stream)
        assert (0, {b"a": b"4", b"c": b"3"}) == await restored(stream)


async def test_a_recreated_changelog_is_recognised_although_it_is_longer(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Same name, same partition, more records: only the topic's id tells."""
    stream = settings(kafka_bootstrap, topic_prefix, tmp_path)
    async with changelog_of(stream) as admin:
        await commit(stream, {b"a": b"1"})
        await restored(stream)
        first = await identify(stream)
        await admin.delete_topics([stream.changelog])
        await create(admin, stream)
        await commit(stream, {b"%d" % n: b"new" for n in range(50)})
        second = await identify(stream)

        assert first.cluster_id == second.cluster_id != ""
        assert "" != first.topic_id != second.topic_id != ""
        assert 86_400_000 == second.tombstones_kept_ms
        assert "" == rebuilt(caplog)
        assert (50, {b"%d" % n: b"new" for n in range(50)}) == await restored(stream)
        assert "it belongs to" in rebuilt(caplog)
        assert (0, {b"%d" % n: b"new" for n in range(50)}) == await restored(stream)
        assert "" == rebuilt(caplog)


async def test_records_deleted_before_they_were_read_make_the_store_begin_again(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A removal may have been among them."""
    stream = settings(kafka_bootstrap, topic_prefix, tmp_path)
    async with changelog_of(stream) as admin:
        await commit(stream, {b"a": b"1"})
        await restored(stream)
        await commit(stream, {b"a": None})
        await commit(stream, {b"b": b"2"})
        place = TopicPartition(stream.changelog, 0)
        await admin.delete_records({place: RecordsToDelete(before_offset=4)})

        assert (1, {b"b": b"2"}) == await restored(stream)
        assert "deleted unread" in rebuilt(caplog)


async def test_files_of_a_partition_that_stayed_away_are_removed(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """What was erased meanwhile is not on this host's disk for longer than removals are kept."""
    stream = settings(kafka_bootstrap, topic_prefix, tmp_path)
    async with changelog_of(stream):
        await commit(stream, {b"a": b"1"})
        await restored(stream)
        mine = tmp_path / stream.group / "0"
        away = tmp_path / stream.group / "7"
        away.mkdir()
        for folder in (mine, away):
            (folder / "left").touch()
            for path in (*folder.iterdir(), folder, mine.with_suffix(".lock")):
                os.utime(path, (0, 0))

        assert (0, {b"a": b"1"}) == await restored(stream)

    assert mine.exists()
    assert not away.exists()


@pytest.mark.slow
async def test_killed_workers_that_share_a_directory_lose_and_repeat_nothing(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Join, kill -9, restart and stop on one host: published once, and the stores are exact."""
    stream = settings(kafka_bootstrap, topic_prefix, tmp_path)
    options = {"delays_ms": [2, 5, 10], "store": "rocksdict", "data_dir": str(tmp_path)}
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        first = await lanes.start(**options)
        await lanes.produce(1_000, keys=200, value="slow")
        await lanes.until(lambda done: done == 1_000)
        second = await lanes.start(**options)
        await settled(lanes, members=2)
        await lanes.produce(2_000, keys=200, value="slow")
        await lanes.until(lambda done: done > 1_500)
        first.kill()
        await lanes.until(lambda done: done == 3_000)
        third = await lanes.start(**options)
        await settled(lanes, members=2)
        await lanes.produce(1_000, keys=200, value="slow")
        await lanes.until(lambda done: done == 4_000)
        second.terminate()
        third.terminate()

        assert [0, 0] == [await exit_status(second), await exit_status(third)]

        await lanes.assert_exactly_once(4_000)
        last: dict[bytes, bytes] = {}
        for record in await lanes.read(stream.changelog):
            last[record.key or b""] = record.value or b""
        del last[IMPRINT_KEY]
        states = await restore(range(PARTITIONS), settings=stream)
        try:
            found = {
                key: value for state in states.values() for key, value in state.records.items()
            }

            assert last == found
            assert 200 == sum(json.loads(value)["count"] > 0 for value in found.values())
            # What was committed last is in the stores already: nothing, or what a lane that moved
            # away left behind, is read again.
            assert 0 == sum(state.read for state in states.values())
        finally:
            for state in states.values():
                state.records.close()
