"""Schemas and events through a real schema registry."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from tests.integration.registry_server import running_registry
from turnstream.cli.schemas import app
from turnstream.config import KafkaSettings, RegistrySettings, Settings, TopicSettings
from turnstream.core.events import ConversationTurn, Timer
from turnstream.demo.traffic import Traffic
from turnstream.roles.writing import EventWriter
from turnstream.stream.codec import CONFLUENT, MalformedValue
from turnstream.stream.contracts import EVENTS, newest
from turnstream.stream.handler import UnknownSchema
from turnstream.stream.registry import (
    RegistryClient,
    SchemasUnavailable,
    codec_for,
    publish_schemas,
    subjects_of,
)
from turnstream.stream.topics import apply

# The first run fetches the registry, a hundred megabytes.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TIMER = Timer(timer_id="t", conversation_id="c", kind="call_deadline", due_at=1)
TIMERS = "conversation.timers"


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    """The root of the API of this module's one registry."""
    with running_registry() as url:
        yield url


@pytest.fixture
def settings(registry_url: str, topic_prefix: str) -> Settings:
    """A deployment whose subjects no other test has."""
    return Settings(
        topics=TopicSettings(prefix=topic_prefix),
        registry=RegistrySettings(url=registry_url),
        partitions=1,
    )


@pytest.fixture
def client(registry_url: str) -> RegistryClient:
    """The client under test."""
    return RegistryClient(registry_url)


def put_rule(url: str, subject: str, rule: str) -> None:
    """Set the compatibility that a subject keeps."""
    answer = httpx.put(f"{url}/config/{subject}", json={"compatibility": rule}, trust_env=False)
    assert answer.is_success, answer.text


def changed(topic: str, **field: object) -> str:
    """A topic's newest schema with one field more."""
    definition = orjson.loads(newest(topic).text)
    definition["fields"].append({"name": "extra", "type": "boolean", **field})
    return orjson.dumps(definition).decode()


async def test_a_schema_gets_one_id_and_is_found_by_it(
    client: RegistryClient, topic_prefix: str
) -> None:
    """Registering again gives the same id; a client that knows nothing finds the schema."""
    subject, text = f"{topic_prefix}{TIMERS}-value", newest(TIMERS).text
    before = await client.has(subject, text)

    schema_id = await client.register(subject, text)

    assert not before
    assert schema_id == await client.register(subject, text)
    assert await client.has(subject, text)
    found = await client.fetch(f"id:{schema_id}")
    assert found is not None
    assert orjson.loads(text) == orjson.loads(found)


async def test_an_id_that_nobody_has_given(client: RegistryClient) -> None:
    """It is not known yet, which is no error."""
    assert None is await client.fetch("id:2000000000")


async def test_incompatible_versions_are_told_and_refused(
    client: RegistryClient, registry_url: str, topic_prefix: str
) -> None:
    """A field without a default breaks FULL_TRANSITIVE, one with a default does not."""
    subject = f"{topic_prefix}{TIMERS}-value"
    bad, good = changed(TIMERS), changed(TIMERS, default=False)
    new = await client.compatible(subject, bad)
    await client.register(subject, newest(TIMERS).text)
    put_rule(registry_url, subject, "FULL_TRANSITIVE")

    assert new
    assert not await client.compatible(subject, bad)
    assert await client.compatible(subject, good)
    with pytest.raises(SchemasUnavailable, match="409"):
        await client.register(subject, bad)
    await client.register(subject, good)


async def test_values_carry_the_registrys_ids(settings: Settings) -> None:
    """What one process writes, another that has never seen the id reads after looking it up."""
    writer, reader = codec_for(settings), codec_for(settings)
    await publish_schemas(writer, [TIMERS], settings=settings)

    value = writer.encode(TIMER)

    assert CONFLUENT == value[:1]
    with pytest.raises(UnknownSchema) as unknown:
        reader.decode(TIMERS, value)
    assert f"id:{int.from_bytes(value[1:5], 'big')}" == unknown.value.fingerprint
    assert await reader.resolve(unknown.value.fingerprint)
    assert TIMER == reader.decode(TIMERS, value)


async def test_a_newer_writer_is_read(settings: Settings, client: RegistryClient) -> None:
    """Its schema comes from the registry, and what this version does not know is left out."""
    subject = f"{settings.topics.name(TIMERS)}-value"
    schema_id = await client.register(subject, changed(TIMERS, default=False))
    reader = codec_for(settings)
    body = reader.encode(TIMER)[10:] + b"\x01"
    value = CONFLUENT + schema_id.to_bytes(4, "big") + body

    with pytest.raises(UnknownSchema):
        reader.decode(TIMERS, value)
    assert await reader.resolve(f"id:{schema_id}")
    assert TIMER == reader.decode(TIMERS, value)


def put_other_kind(url: str, subject: str) -> int:
    """Register a JSON Schema; return its id."""
    body = {
        "schemaType": "JSON",
        "schema": '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}',
    }
    answer = httpx.post(f"{url}/subjects/{subject}/versions", json=body, trust_env=False)
    return int(answer.json()["id"])


async def test_a_schema_of_another_kind_is_a_dead_letter(
    settings: Settings, registry_url: str, topic_prefix: str
) -> None:
    """An id that names JSON Schema will never be Avro: the value is malformed, not waited for."""
    schema_id = put_other_kind(registry_url, f"{topic_prefix}other-value")
    reader = codec_for(settings)

    assert await reader.resolve(f"id:{schema_id}")
    with pytest.raises(MalformedValue, match="JSON"):
        reader.decode(TIMERS, CONFLUENT + schema_id.to_bytes(4, "big") + b"{}")


async def test_events_travel_over_kafka(settings: Settings, kafka_bootstrap: str) -> None:
    """Written with the registry's ids and read with them, by the clients that the roles use."""
    settings = settings.model_copy(
        update={"kafka": KafkaSettings(bootstrap_servers=kafka_bootstrap)}
    )
    await apply(settings)
    turn = ConversationTurn(
        turn_id="t-1",
        conversation_id="c-1",
        channel_id="web",
        role="customer",
        text="Où est mon colis ?",
        occurred_at=1,
    )
    traffic = Traffic(settings, topics=("conversation.turns",), begin="beginning")

    async with traffic, EventWriter(settings) as writer:
        await writer.send(turn)
        seen = await traffic.until(lambda: traffic.of("c-1") or None, seconds=30, what="the turn")

    assert [turn] == [one.event for one in seen]


def test_the_command_registers_all_or_nothing(
    settings: Settings, registry_url: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A dry run changes nothing; what the registry would not take keeps all others out."""
    config = tmp_path / "turnstream.yaml"
    config.write_text(f"topics: {{prefix: {topic_prefix}}}\nregistry: {{url: '{registry_url}'}}\n")

    def run(*options: str) -> tuple[int, set[str]]:
        result = CliRunner().invoke(app, ["register", "-c", str(config), "-o", "json", *options])
        return result.exit_code, {one["state"] for one in orjson.loads(result.stdout)}

    subject = f"{topic_prefix}{TIMERS}-value"
    other = '{"type": "record", "name": "Timer", "namespace": "turnstream", "fields": []}'
    body = {"schema": other}
    assert (0, {"compatible"}) == run("--dry-run")
    url = f"{registry_url}/subjects/{subject}"
    assert httpx.post(f"{url}/versions", json=body, trust_env=False).is_success
    put_rule(registry_url, subject, "FULL_TRANSITIVE")

    assert (1, {"compatible", "incompatible"}) == run()
    assert (1, {"compatible", "incompatible"}) == run("--dry-run")

    put_rule(registry_url, subject, "NONE")
    assert (0, {"registered"}) == run()
    assert (0, {"registered"}) == run("--dry-run")


async def test_a_deployment_is_compared_without_changing_it(
    settings: Settings, client: RegistryClient
) -> None:
    """Every topic's subject is looked at under its physical name."""
    await publish_schemas(codec_for(settings), [TIMERS], settings=settings)

    views = await subjects_of(settings, client)

    assert len(EVENTS) == len(views)
    assert [f"{settings.topics.name(TIMERS)}-value"] == [
        one.subject for one in views if one.state == "registered"
    ]
    assert views == await subjects_of(settings, client)
