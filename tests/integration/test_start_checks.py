"""What the start of a stream asks a broker: topics that fit and take what is written to them."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import DeleteGroupsRequest

from tests.integration.deployed import deployed, until, written
from tests.integration.test_lanes import PARTITIONS, exit_status, lanes_on
from tests.unit.roles.bench import action
from turnstream.core.publications import OutboundMessage
from turnstream.stream.imprint import IMPRINT_KEY, imprint_of
from turnstream.stream.role import EXIT_FAILED, EXIT_REFUSED, StartRefused
from turnstream.stream.settings import StreamSettings
from turnstream.stream.start import _message_limits, _partition_counts, check_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.test_lanes import Lanes


def settings(lanes: Lanes, **changes: Any) -> StreamSettings:
    """Settings of a role on a test's topics."""
    options: dict[str, Any] = {
        "bootstrap_servers": lanes.bootstrap,
        "group": lanes.group,
        "role": "decide",
        "sources": tuple(lanes.sources),
        "changelog": f"{lanes.prefix}changelog",
        "start_from": "earliest",
    }
    return StreamSettings(**(options | changes))


async def limit(lanes: Lanes, topic: str, size: int) -> None:
    """Let a topic take no larger batches, and wait until the broker says so."""
    config = {"max.message.bytes": str(size)}
    await lanes.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
    deadline = time.monotonic() + 20
    while await _message_limits(lanes.admin, topics=[topic]) != {topic: size}:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["out", "changelog", "turns.dlq"])
async def test_a_topic_that_takes_less_than_is_written_refuses_the_start(
    kafka_bootstrap: str, topic_prefix: str, name: str
) -> None:
    """Before anything is committed; the message has the topic, both figures and the setting."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        topic = f"{topic_prefix}{name}"
        of = settings(
            lanes, writes=frozenset({f"{topic_prefix}out"}), max_publication_bytes=300_000
        )
        await limit(lanes, topic, 200_000)
        needed = {"out": "301,024", "changelog": "1,048,576", "turns.dlq": "262,144"}[name]
        with pytest.raises(StartRefused) as refused:
            await check_start(of)

        assert (
            f"topic {topic} takes 200,000 bytes, this role writes up to {needed}: raise "
            "max.message.bytes of each"
        ) == str(refused.value)
        assert {} == await lanes.committed()

        await limit(lanes, topic, 1_048_576)

        assert PARTITIONS == (await check_start(of)).partitions


async def test_a_topic_that_takes_less_since_the_start_is_named(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """The worker ends with its name, and the next one is refused: no endless retry."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        out, log = f"{topic_prefix}out", tmp_path / "log"
        await lanes.produce(40, keys=8, value="now")
        with log.open("wb") as file:
            worker = await lanes.start(stderr=file, writes=[out])
            await lanes.until(lambda done: done == 40)
            await limit(lanes, out, 100)
            deadline = time.monotonic() + 40
            # The limit reaches the broker's log a moment after it has been accepted.
            while worker.returncode is None:
                assert time.monotonic() < deadline
                await lanes.produce(40, keys=8, value="now")
                await asyncio.sleep(0.2)

        assert EXIT_FAILED == worker.returncode
        assert f"topic {out!r} did not take what it was sent" in log.read_text()

        assert EXIT_REFUSED == await exit_status(await lanes.start(writes=[out]))


async def test_topics_with_other_counts_refuse_the_start(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Sources among themselves, and the changelog against them."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        odd = f"{topic_prefix}odd"
        made = {odd: 3, f"{odd}.dlq": 1}
        await lanes.admin.create_topics([NewTopic(name, count, 1) for name, count in made.items()])
        deadline = time.monotonic() + 20
        while await _partition_counts(lanes.admin, topics=[*made]) != made:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        with pytest.raises(StartRefused, match=r"same number of partitions: .*odd has 3"):
            await check_start(settings(lanes, sources=(lanes.sources[0], odd)))
        with pytest.raises(StartRefused, match=r"odd' was made for 3 partitions"):
            await check_start(settings(lanes, changelog=odd))

        assert {} == await lanes.committed()


async def test_a_group_that_lost_its_offsets_does_not_start_at_the_ends(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Brokers forget a group that was away for long; its changelog tells that it is not new."""
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(40, keys=8, value="meanwhile")
        await lanes.producer.send_and_wait(
            f"{topic_prefix}changelog", imprint_of(PARTITIONS), key=IMPRINT_KEY, partition=2
        )
        with pytest.raises(StartRefused, match=r"offsets expired .* would pass over what came"):
            await check_start(settings(lanes, start_from="latest"))

        assert {} == await lanes.committed()

        await check_start(settings(lanes, start_from="earliest"))

        assert {0} == set((await lanes.committed()).values())


async def test_a_role_without_states_that_lost_its_offsets_is_not_new_either(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """`answer` keeps no state where it handles all in order; what came meanwhile must not be lost.

    From the first offset, it sends once more what the topic still has; that is for who starts it.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        text = action("answer", {"text": "It is on its way.", "locale": "en"})
        role = await on.start("answer")
        await on.send(text, topic="conversation.actions")
        await until(partial(on.events, OutboundMessage), role.text)

        assert 0 == await role.stopped()

        group = f"{topic_prefix}turnstream-answer"
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
        await admin.start()
        deleted = await admin._send_request_to_node(
            await admin.find_coordinator(group), DeleteGroupsRequest([group])
        )
        await admin.close()

        assert [(group, 0)] == deleted.results

        latest = written(
            tmp_path, kafka_bootstrap, topic_prefix, name="latest.yaml", start_from="latest"
        )
        again = await on.start("answer", config=latest, ready=False)

        assert EXIT_REFUSED == await again.exit_status(), again.text()
        assert "would pass over what came since" in again.text()


async def test_a_group_starts_at_a_time(kafka_bootstrap: str, topic_prefix: str) -> None:
    """At the first record of that time or later; a partition without one starts at its end."""
    base = 1_700_000_000_000
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        turns = lanes.sources[0]
        for partition in (0, 1):
            for number in range(4):
                await lanes.producer.send_and_wait(
                    turns,
                    b"now",
                    key=b"key",
                    partition=partition,
                    timestamp_ms=base + 1_000 * number - 10_000 * partition,
                )
        at = datetime.fromtimestamp((base + 1_500) / 1_000, tz=UTC).isoformat()
        await check_start(settings(lanes, start_from=at))

        assert [2, 4, 0, 0] == [
            offset for tp, offset in sorted((await lanes.committed()).items()) if tp.topic == turns
        ]
        assert 2 * PARTITIONS == len(await lanes.committed())
