"""Topics and the schemas topic on a real cluster."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from typer.testing import CliRunner

from turnstream.cli.topics import app
from turnstream.config import KafkaSettings, Settings, TopicSettings
from turnstream.core.events import Timer
from turnstream.stream.contracts import newest, read_schema
from turnstream.stream.handler import UnknownSchema
from turnstream.stream.registry import SchemasTopic, codec_for, publish_schemas
from turnstream.stream.topics import TopicsRefused, apply, plan, wanted_topics


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> Settings:
    """A deployment whose topics no other test has."""
    return Settings(
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
        topics=TopicSettings(prefix=topic_prefix),
        partitions=2,
    )


@pytest.fixture
async def admin(kafka_bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connection of the test's own."""
    client = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await client.start()
    yield client
    await client.close()


async def _config(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in response.resources[0][4]}


async def test_apply_creates_what_plan_shows(
    settings: Settings, admin: AIOKafkaAdminClient
) -> None:
    """An empty cluster gets every topic with its settings; then there is nothing left to do."""
    planned = await plan(settings)
    applied = await apply(settings)
    again = await plan(settings)

    names = [topic.name for topic in wanted_topics(settings)]
    assert names == [change.topic for change in planned.changes]
    assert {"create"} == {change.kind for change in planned.changes}
    assert planned == applied
    assert again.changes == ()
    changelog = await _config(admin, settings.changelog("decide"))
    assert changelog["cleanup.policy"] == "compact"
    assert changelog["min.cleanable.dirty.ratio"] == "0.1"
    assert changelog["max.compaction.lag.ms"] == "86400000"


async def test_apply_mends_settings_and_keeps_the_operators_own(
    settings: Settings, admin: AIOKafkaAdminClient
) -> None:
    """A differing setting is put right; one that is not ours stays as it was set."""
    turns = settings.topics.name("conversation.turns")
    await admin.create_topics(
        [
            NewTopic(
                turns,
                2,
                1,
                topic_configs={"retention.ms": "1000", "segment.bytes": "33554432"},
            )
        ]
    )
    await apply(settings)

    planned = await plan(settings)

    config = await _config(admin, turns)
    assert planned.changes == ()
    assert config["retention.ms"] == str(7 * 86_400_000)
    assert config["segment.bytes"] == "33554432"


async def test_another_partition_count_is_reported_and_left(
    settings: Settings, admin: AIOKafkaAdminClient
) -> None:
    """A topic with another count blocks the plan; applying changes neither it nor its records."""
    turns = settings.topics.name("conversation.turns")
    await admin.create_topics([NewTopic(turns, 3, 1)])

    applied = await apply(settings)
    planned = await plan(settings)

    assert applied.blocked
    assert planned.blocked
    (change,) = planned.changes
    assert (turns, "partitions") == (change.topic, change.kind)
    assert change.detail == "has 3, wanted 2; never changed: keys would move"
    (described,) = await admin.describe_topics([turns])
    assert len(described["partitions"]) == 3


async def test_two_applies_at_once(settings: Settings) -> None:
    """Two operators who apply at the same time do not disturb each other."""
    await asyncio.gather(apply(settings), apply(settings))

    assert (await plan(settings)).changes == ()


async def test_a_refused_creation_is_named(settings: Settings) -> None:
    """What the cluster refuses is an error with the topic and the cause."""
    with pytest.raises(TopicsRefused, match="was not created: InvalidReplicationFactorError"):
        await apply(settings, replication_factor=3)


async def test_no_cluster() -> None:
    """An address without a broker is an error that names it."""
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"))

    with pytest.raises(TopicsRefused, match=r"no Kafka at 127\.0\.0\.1:1"):
        await plan(settings)


async def test_a_newer_writers_schema_is_found_on_the_topic(settings: Settings) -> None:
    """A reader that meets an unknown fingerprint finds the schema that its writer published."""
    await apply(settings)
    definition = orjson.loads(newest("conversation.timers").text)
    definition["fields"].append({"name": "extra", "type": "boolean", "default": False})
    newer = read_schema(orjson.dumps(definition))
    reader = codec_for(settings)
    timer = Timer(timer_id="t", conversation_id="c", kind="call_deadline", due_at=1)
    value = b"\xc3\x01" + bytes.fromhex(newer.fingerprint) + reader.encode(timer)[10:] + b"\x01"

    with pytest.raises(UnknownSchema):
        reader.decode("conversation.timers", value)
    assert not await reader.resolve(newer.fingerprint)

    topic = SchemasTopic(
        settings.topics.name("turnstream.schemas"), client_options=settings.kafka.client_options
    )
    await topic.publish({newer.fingerprint: newer.text})

    assert await reader.resolve(newer.fingerprint)
    assert timer == reader.decode("conversation.timers", value)


async def test_the_schemas_topic_is_read_with_care(settings: Settings) -> None:
    """Records that are no schema, or are filed under another's fingerprint, are left out."""
    await apply(settings)
    codec = codec_for(settings)
    name = settings.topics.name("turnstream.schemas")
    await publish_schemas(codec, ["conversation.timers", "tool.results"], settings=settings)
    options = settings.kafka.client_options()
    async with AIOKafkaProducer(**options) as producer:
        await producer.send_and_wait(
            name, key=b"00" * 8, value=newest("tool.results").text.encode()
        )
        await producer.send_and_wait(name, key=b"11" * 8, value=b"\xff\xfe")
        await producer.send_and_wait(name, key=b"22" * 8, value=None)

    found = await SchemasTopic(name, client_options=settings.kafka.client_options).read()

    expected = [newest("conversation.timers").fingerprint, newest("tool.results").fingerprint]
    assert sorted(expected) == sorted(found)


def test_the_commands(kafka_bootstrap: str, topic_prefix: str, tmp_path: Path) -> None:
    """Plan changes nothing and ends with 2 while there is something to do, apply does it."""
    config = tmp_path / "turnstream.yaml"
    config.write_text(
        f"kafka: {{bootstrap_servers: '{kafka_bootstrap}'}}\ntopics: {{prefix: {topic_prefix}}}\n"
    )

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*arguments, "--config", str(config)])
        return result.exit_code, result.output

    status, output = run("plan", "--partitions", "2", "-o", "json")
    planned = orjson.loads(output)
    assert (2, {False}) == (status, {change["applied"] for change in planned["changes"]})
    assert planned == orjson.loads(run("plan", "--partitions", "2", "-o", "json")[1])

    status, output = run("apply", "--partitions", "2", "-o", "json")
    assert (0, {True}) == (status, {c["applied"] for c in orjson.loads(output)["changes"]})

    status, output = run("plan", "--partitions", "2")
    assert (0, True) == (status, "all as they should be" in output)

    status, output = run("plan", "--partitions", "3")
    assert (1, True) == (status, "never changed" in output)
    turns = f"{topic_prefix}conversation.turns"
    lines = [line for line in output.splitlines() if line.startswith(f"{turns}: ")]
    assert [
        f"{turns}: partitions: has 2, wanted 3; never changed: keys would move (apply leaves it)"
    ] == lines


def test_a_command_without_a_cluster(tmp_path: Path) -> None:
    """A command that reaches no cluster says where it looked; a plan that failed ends with 1."""
    config = tmp_path / "turnstream.yaml"
    config.write_text("kafka: {bootstrap_servers: '127.0.0.1:1'}\n")

    plan_ = CliRunner().invoke(app, ["plan", "--config", str(config)])
    apply_ = CliRunner().invoke(app, ["apply", "--config", str(config)])

    assert (1, True) == (plan_.exit_code, "no Kafka at 127.0.0.1:1" in plan_.output)
    assert (2, True) == (apply_.exit_code, "no Kafka at 127.0.0.1:1" in apply_.output)
