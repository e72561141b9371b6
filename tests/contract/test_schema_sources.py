"""What every source of other writers' schemas promises: our topic, and a registry."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from turnstream.core.errors import TurnstreamError
from turnstream.stream.codec import SchemaSource
from turnstream.stream.contracts import newest
from turnstream.stream.registry import RegistryClient, SchemasTopic

SCHEMA: Final = newest("conversation.timers")


@dataclass(frozen=True)
class Known:
    """A source that knows one schema, and how it is asked."""

    source: SchemaSource
    gone: SchemaSource
    """The same where nobody answers."""
    reference: str
    unknown: str
    foreign: str
    """A reference of the kind that other sources have."""


async def _topic(bootstrap: str, name: str) -> Known:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        await client.create_topics([NewTopic(name, 1, 1)])
    finally:
        await client.close()
    source = SchemasTopic(name, client_options=lambda: {"bootstrap_servers": bootstrap})
    await source.publish({SCHEMA.fingerprint: SCHEMA.text})
    nobody: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1"}
    gone = SchemasTopic(name, client_options=lambda: nobody)
    return Known(source, gone, SCHEMA.fingerprint, "0123456789abcdef", "id:7")


def _registry() -> Known:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/schemas/ids/7":
            return httpx.Response(200, json={"schema": SCHEMA.text})
        return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})

    def refuse(_request: httpx.Request) -> httpx.Response:
        message = "nobody there"
        raise httpx.ConnectError(message)

    source = RegistryClient("http://registry", transport=httpx.MockTransport(answer))
    gone = RegistryClient("http://registry", transport=httpx.MockTransport(refuse))
    return Known(source, gone, "id:7", "id:8", SCHEMA.fingerprint)


@pytest.fixture(params=[pytest.param("topic", marks=pytest.mark.kafka), "registry"])
async def known(request: pytest.FixtureRequest) -> AsyncIterator[Known]:
    """Each source."""
    if request.param == "registry":
        yield _registry()
        return
    prefix = request.getfixturevalue("topic_prefix")
    yield await _topic(request.getfixturevalue("kafka_bootstrap"), f"{prefix}schemas")


async def test_what_is_known_is_given(known: Known) -> None:
    """As JSON, as often as it is asked for."""
    found = [await known.source.fetch(known.reference) for _ in range(2)]

    assert [SCHEMA.definition] * 2 == [json.loads(text) for text in found if text is not None]


async def test_what_is_not_known_is_none(known: Known) -> None:
    """It may come later: its writer publishes before it writes."""
    assert await known.source.fetch(known.unknown) is None


async def test_references_of_other_sources_are_not_asked_for(known: Known) -> None:
    """Nor does it matter then that nobody would answer."""
    assert await known.source.fetch(known.foreign) is None
    assert await known.gone.fetch(known.foreign) is None


async def test_a_source_that_does_not_answer_says_so(known: Known) -> None:
    """None would mean that the schema is not there."""
    with pytest.raises(TurnstreamError, match="schema"):
        await known.gone.fetch(known.reference)
