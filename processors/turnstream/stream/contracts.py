"""The events' Avro schemas as they are packaged: which model, which subject, which versions."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

import fastavro
import orjson
from fastavro.schema import fingerprint, to_parsing_canonical_form

from turnstream import resources
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Event,
    Label,
    LiveAction,
    Timer,
    ToolResult,
)
from turnstream.core.publications import (
    ActionEvent,
    OutboundMessage,
    Outcome,
    ShadowComparison,
    ShadowProposal,
)

EVENTS: Final[Mapping[str, type[Event]]] = {
    "conversation.turns": ConversationTurn,
    "conversation.control": ConversationControl,
    "conversation.actions": ActionEvent,
    "conversation.outcomes": Outcome,
    "conversation.outbound": OutboundMessage,
    "conversation.answers": Answer,
    "conversation.labels": Label,
    "conversation.timers": Timer,
    "conversation.live-actions": LiveAction,
    "tool.results": ToolResult,
    "shadow.proposals": ShadowProposal,
    "shadow.comparisons": ShadowComparison,
}
"""Logical topic name to the model of its records."""

_VERSION = re.compile(r"v([1-9][0-9]*)\.avsc")


class UnusableSchema(TurnstreamError):
    """A schema is not readable as an Avro record; the message names what is wrong with it."""


class WriterSchema(NamedTuple):
    """An Avro schema that some writer uses."""

    name: str
    """Full name of its record."""
    fingerprint: str
    """CRC-64-AVRO of its Parsing Canonical Form: 16 hex digits, in the order of the wire."""
    definition: dict[str, Any]
    """The schema as JSON gives it."""

    @property
    def text(self) -> str:
        """The schema as one line of JSON."""
        return orjson.dumps(self.definition).decode()


def subject_of(topic: str) -> str:
    """The registry subject of a topic's values (and the folder of the logical topic's schemas)."""
    return f"{topic}-value"


def topic_of(model: type[Event]) -> str:
    """The logical topic of a model.

    Raises:
        KeyError: The model is a part of an event, not one that travels by itself.
    """
    for topic, known in EVENTS.items():
        if known is model:
            return topic
    raise KeyError(f"{model.__name__} has no topic of its own")


def read_schema(text: str | bytes) -> WriterSchema:
    """Read a record schema.

    Raises:
        UnusableSchema: Not JSON, not Avro, or not a record.
    """
    try:
        definition = orjson.loads(text)
        if not isinstance(definition, dict):
            raise UnusableSchema(f"expected a record schema, got {type(definition).__name__}")
        parsed = fastavro.parse_schema(definition)
        canonical = to_parsing_canonical_form(definition)
    except (orjson.JSONDecodeError, fastavro.schema.SchemaParseException) as error:
        raise UnusableSchema(f"not an Avro schema: {error}") from error
    except fastavro.schema.UnknownType as error:
        raise UnusableSchema(f"not an Avro schema: unknown type {error.name!r}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableSchema(f"not an Avro schema: {error!r}") from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise UnusableSchema("expected a record schema")
    return WriterSchema(parsed["name"], fingerprint(canonical, "CRC-64-AVRO"), definition)


def without_logical_types(schema: Any) -> Any:
    """Copy a schema without logical types, so that times are read as the integers they are.

    The Parsing Canonical Form has no logical types either: the fingerprint stays.
    """
    if isinstance(schema, dict):
        return {k: without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    if isinstance(schema, list):
        return [without_logical_types(item) for item in schema]
    return schema


def read_versions(folder: Traversable) -> dict[int, WriterSchema]:
    """Read all versions of a subject, oldest first.

    Raises:
        UnusableSchema: A file is no schema, or is not named `v<N>.avsc`, or a number is left out.
    """
    found: dict[int, WriterSchema] = {}
    for file in folder.iterdir():
        match = _VERSION.fullmatch(file.name)
        if match is None:
            raise UnusableSchema(f"{folder.name}/{file.name}: a schema file is named v<N>.avsc")
        try:
            found[int(match[1])] = read_schema(file.read_bytes())
        except UnusableSchema as error:
            raise UnusableSchema(f"{folder.name}/{file.name}: {error}") from error
    if sorted(found) != list(range(1, len(found) + 1)) or not found:
        raise UnusableSchema(f"{folder.name}: versions count from v1 without gaps, got {[*found]}")
    return dict(sorted(found.items()))


@cache
def packaged(topic: str) -> Mapping[int, WriterSchema]:
    """All packaged versions of a logical topic's schema, oldest first.

    Raises:
        UnusableSchema: See `read_versions`.
    """
    return read_versions(resources.schemas() / subject_of(topic))


def newest(topic: str) -> WriterSchema:
    """The packaged schema that equals the topic's model."""
    return [*packaged(topic).values()][-1]
