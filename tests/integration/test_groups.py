"""Where consumer groups stand, asked of a real cluster, and the doctor who asks."""

from pathlib import Path

import orjson
import pytest
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition
from typer.testing import CliRunner

from tests import small_shop
from turnstream.cli.root import app
from turnstream.config import KafkaSettings, Settings, TopicSettings
from turnstream.stream.groups import Position, brokers_of, groups_of
from turnstream.stream.standstill import Standstill, standstills_of
from turnstream.stream.topics import apply


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> Settings:
    """A deployment whose topics no other test has."""
    return Settings(
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
        topics=TopicSettings(prefix=topic_prefix),
        partitions=2,
    )


async def commit(settings: Settings, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit for a group, as nobody of it."""
    async with AIOKafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign(list(offsets))
        await consumer.commit(offsets)


async def test_a_cluster_tells_what_it_offers(settings: Settings) -> None:
    """A Kafka of today lacks nothing."""
    brokers = await brokers_of(settings)

    assert () == brokers.without
    assert 0 < brokers.count


async def test_groups_are_seen_from_outside(settings: Settings) -> None:
    """Committed offset, log and members of each partition; nobody joins and nothing is made."""
    turns = settings.topics.name("conversation.turns")
    reader, stranger = settings.group("decide"), settings.group("shadow")
    asked = {reader: [turns, "absent"], stranger: [turns]}
    before = await groups_of(settings, asked)
    await apply(settings)
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers) as producer:
        for _ in range(3):
            await producer.send_and_wait(turns, b"x", partition=0)
    await commit(settings, reader, {TopicPartition(turns, 0): 1})

    known, unknown = await groups_of(settings, asked)

    assert [(), ()] == [one.positions for one in before]
    assert (Position(turns, 0, 1, 0, 3, 2), Position(turns, 1, None, 0, 0)) == known.positions
    assert (True, 2, 0) == (known.known, known.lag, known.members)
    assert (False, 0) == (unknown.known, unknown.members)


async def test_markers_of_transactions_are_no_lag(settings: Settings) -> None:
    """A group that has handled all is at the end, although a marker follows its last record."""
    await apply(settings)
    turns, group = settings.topics.name("conversation.turns"), settings.group("decide")
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers, transactional_id=group
    ) as producer:
        for partition in (0, 1):
            async with producer.transaction():
                await producer.send_and_wait(turns, b"x", partition=partition)
    tps = {TopicPartition(turns, 0): 1, TopicPartition(turns, 1): 0}
    await commit(settings, group, tps)

    (view,) = await groups_of(settings, {group: [turns]})

    assert (Position(turns, 0, 1, 0, 2, 0), Position(turns, 1, 0, 0, 2, 1)) == view.positions
    assert (1, True) == (view.lag, view.counted)


async def test_a_group_before_an_unknown_schema_stands_still(settings: Settings) -> None:
    """The schema is named until it is refused; a value that is no event holds nobody up."""
    await apply(settings)
    turns, group = settings.topics.name("conversation.turns"), settings.group("decide")
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(turns, b"\xc3\x0101234567xx", partition=0)
        await producer.send_and_wait(turns, b"x", partition=1)
    await commit(settings, group, {TopicPartition(turns, 0): 0, TopicPartition(turns, 1): 0})
    views = await groups_of(settings, {group: [turns]})
    refusing = settings.model_copy(update={"refused_schemas": ("3031323334353637",)})

    found = await standstills_of(settings, views)

    assert {group: (Standstill(views[0].positions[0], "3031323334353637"),)} == found
    assert {} == await standstills_of(refusing, views)


async def test_a_member_is_counted(settings: Settings) -> None:
    """Whoever reads is seen."""
    await apply(settings)
    turns = settings.topics.name("conversation.turns")
    group = settings.group("decide")
    async with AIOKafkaConsumer(
        turns, bootstrap_servers=settings.kafka.bootstrap_servers, group_id=group
    ) as consumer:
        await consumer.getmany(timeout_ms=0)
        (view,) = await groups_of(settings, {group: [turns]})

    assert 1 == view.members


def test_the_doctor_of_a_real_deployment(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """First the topics are missing; then all is well, with a warning per group that is new."""
    (tmp_path / "catalog.yaml").write_text(yaml.safe_dump(small_shop.CATALOG))
    config = tmp_path / "turnstream.yaml"
    settings = {
        "kafka": {"bootstrap_servers": kafka_bootstrap},
        "topics": {"prefix": topic_prefix},
        "catalog": "catalog.yaml",
        "deciders": {"by_word": {"kind": "python", "target": "tests.small_shop:by_word"}},
    }
    config.write_text(yaml.safe_dump(settings))

    def run(*arguments: str) -> tuple[int, list[dict[str, str]]]:
        result = CliRunner().invoke(app, [*arguments, "-c", str(config), "-o", "json"])
        return result.exit_code, orjson.loads(result.stdout)

    status, findings = run("doctor")
    assert (1, ["topics"]) == (
        status,
        [one["check"] for one in findings if one["status"] == "fail"],
    )
    assert 0 == run("topics", "apply")[0]

    status, findings = run("doctor")
    assert (0, {"ok", "warn"}) == (status, {one["status"] for one in findings})
    assert [f"group {role}" for role in ("decide", "execute", "answer", "classify", "shadow")] == [
        one["check"] for one in findings if one["status"] == "warn"
    ]
