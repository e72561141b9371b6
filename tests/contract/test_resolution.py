"""Values of older and newer writers are read through Avro's schema resolution."""

import copy
import io
from typing import Any

import fastavro
import orjson
import pytest

from turnstream.core.events import ConversationTurn, ToolResult
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.stream.codec import Codec, MalformedValue
from turnstream.stream.contracts import (
    newest,
    packaged,
    read_schema,
    topic_of,
    without_logical_types,
)
from turnstream.stream.handler import UnknownSchema

TURN: dict[str, Any] = {
    "turn_id": "t-1",
    "conversation_id": "c-1",
    "channel_id": "web",
    "role": "customer",
    "text": "Où est ma commande ?",
    "occurred_at": 1_764_492_000_000,
}
OUTCOME: dict[str, Any] = {
    "of": "turn",
    "outcome": "buffered",
    "conversation_id": "c-1",
    "source": {"topic": "conversation.turns", "partition": 1, "offset": 7},
    "input_no": 2,
    "occurred_at": 1_764_492_000_000,
}


def _written(definition: dict[str, Any], fields: dict[str, Any]) -> tuple[str, bytes]:
    """The schema's text, and a value that its writer would write."""
    text = orjson.dumps(definition).decode()
    body = io.BytesIO()
    parsed = fastavro.parse_schema(without_logical_types(definition))
    fastavro.schemaless_writer(body, parsed, fields)
    header = b"\xc3\x01" + bytes.fromhex(read_schema(text).fingerprint)
    return text, header + body.getvalue()


def _newer(topic: str) -> dict[str, Any]:
    return copy.deepcopy(newest(topic).definition)


def test_a_newer_symbol_reads_as_unrecognized() -> None:
    """A symbol that this version does not know is `unrecognized`, and the event is read."""
    definition = _newer("conversation.outcomes")
    definition["fields"][1]["type"]["symbols"].insert(3, "postponed")
    text, value = _written(definition, OUTCOME | {"outcome": "postponed"})
    codec = Codec()
    codec.add_writer_schema(text)

    assert Outcome.model_validate(OUTCOME | {"outcome": "unrecognized"}) == (
        codec.decode("conversation.outcomes", value)
    )


def test_symbols_keep_their_meaning_when_their_order_changes() -> None:
    """Symbols are resolved by name, not by index."""
    definition = _newer("conversation.outcomes")
    definition["fields"][1]["type"]["symbols"].reverse()
    text, value = _written(definition, OUTCOME)
    codec = Codec()
    codec.add_writer_schema(text)

    assert Outcome.model_validate(OUTCOME) == codec.decode("conversation.outcomes", value)


def test_a_newer_symbol_of_a_nullable_enum() -> None:
    """Resolution reaches an enum inside a union inside a payload."""
    definition = _newer("conversation.actions")
    names: dict[str, Any] = {field["name"]: field for field in definition["fields"]}
    handoff = names["handoff"]["type"][1]
    cause = next(field for field in handoff["fields"] if field["name"] == "cause")
    cause["type"][1]["symbols"].append("holiday")
    fields: dict[str, Any] = {
        "action_id": "a",
        "decision_id": "d",
        "conversation_id": "c",
        "channel_id": "web",
        "source": {"topic": "conversation.turns", "partition": 0, "offset": 1},
        "input_no": 1,
        "seen": {"conversation.turns": 1},
        "step": 1,
        "sequence": 1,
        "decision": {
            "action": "handoff",
            "tool": None,
            "missing_field": None,
            "reason_code": "unsupported",
        },
        "handoff": {
            "queue": "general",
            "cause": "holiday",
            "summary": "s",
            "text": "t",
            "locale": "en",
        },
        "agent": "main",
        "versions": {"decision_version": "1", "presentation_version": "2", "model": "m"},
        "diagnostics_json": "{}",
        "decided_at": 5,
    }
    text, value = _written(definition, fields)
    codec = Codec()
    codec.add_writer_schema(text)

    read = codec.decode_as(ActionEvent, value)

    assert read.handoff is not None
    assert read.handoff.cause == "unrecognized"


def test_a_newer_decision_is_refused() -> None:
    """A step that this version does not know is never acted on: the decision is closed."""
    definition = _newer("shadow.proposals")
    names: dict[str, Any] = {field["name"]: field for field in definition["fields"]}
    names["decision"]["type"]["fields"][0]["type"]["symbols"].append("escalate")
    fields: dict[str, Any] = {
        "proposal_id": "p",
        "candidate": "c",
        "conversation_id": "c",
        "source": {"topic": "conversation.turns", "partition": 0, "offset": 1},
        "decision": {"action": "escalate", "reason_code": "unsupported"},
        "versions": {"decision_version": "1", "presentation_version": "2", "model": "m"},
        "diagnostics_json": "{}",
        "decided_at": 5,
    }
    text, value = _written(definition, fields)
    codec = Codec()
    codec.add_writer_schema(text)

    with pytest.raises(MalformedValue, match=r"decision\.action") as caught:
        codec.decode("shadow.proposals", value)
    assert caught.value.reason == "invalid"


def test_a_newer_field_is_left_out() -> None:
    """A field that this version does not know is skipped."""
    definition = _newer("conversation.turns")
    definition["fields"].insert(0, {"name": "mood", "type": ["null", "string"], "default": None})
    text, value = _written(definition, TURN | {"mood": "calm"})
    codec = Codec()
    codec.add_writer_schema(text)

    assert ConversationTurn.model_validate(TURN) == codec.decode("conversation.turns", value)


def test_an_older_writer_without_optional_fields() -> None:
    """What an older writer did not know takes its default."""
    definition = _newer("tool.results")
    definition["fields"] = [f for f in definition["fields"] if f["name"] not in ("final", "error")]
    fields: dict[str, Any] = {
        "action_id": "a",
        "conversation_id": "c",
        "tool_call_id": "t",
        "name": "get_order_status",
        "ok": True,
        "result_json": "{}",
        "outcome": "done",
        "attempts": 1,
        "versions": {"decision_version": "1", "presentation_version": "2", "model": "m"},
        "arguments_hash": "h",
        "occurred_at": 5,
    }
    text, value = _written(definition, fields)
    codec = Codec()
    codec.add_writer_schema(text)

    assert ToolResult.model_validate(fields) == codec.decode("tool.results", value)


def test_the_same_schema_behind_a_registered_id() -> None:
    """A registered id and a fingerprint of the same schema read the same."""
    turn = ConversationTurn.model_validate(TURN)
    codec = Codec(registry=True)
    body = codec.encode(turn)[10:]
    codec.add_registered_schema(7, newest("conversation.turns").text)

    assert turn == codec.decode("conversation.turns", b"\x00\x00\x00\x00\x07" + body)


def test_an_incompatible_writer_is_malformed() -> None:
    """A writer whose types do not resolve gives a malformed value that names its schema."""
    definition = _newer("conversation.turns")
    definition["fields"][0]["type"] = "long"
    text, value = _written(definition, TURN | {"turn_id": 5})
    codec = Codec()
    fingerprint = codec.add_writer_schema(text)

    with pytest.raises(MalformedValue, match=f"does not resolve .* {fingerprint}") as caught:
        codec.decode("conversation.turns", value)
    assert caught.value.reason == "malformed"


def test_a_newer_writer_that_is_not_known_yet() -> None:
    """Until its schema is added, a newer writer's value is unknown, not malformed."""
    definition = _newer("conversation.turns")
    definition["fields"].append({"name": "mood", "type": "string", "default": ""})
    text, value = _written(definition, TURN | {"mood": ""})
    codec = Codec()

    with pytest.raises(UnknownSchema) as caught:
        codec.decode("conversation.turns", value)
    assert read_schema(text).fingerprint == caught.value.fingerprint


@pytest.mark.parametrize("cut", range(1, 40))
def test_resolution_of_a_truncated_value(cut: int) -> None:
    """A truncated value of another version is malformed, wherever it ends."""
    definition = _newer("conversation.turns")
    definition["fields"].append({"name": "mood", "type": "string", "default": ""})
    text, value = _written(definition, TURN | {"mood": "calm"})
    codec = Codec()
    codec.add_writer_schema(text)

    with pytest.raises(MalformedValue):
        codec.decode("conversation.turns", value[:-cut])


def test_trailing_bytes_after_resolution() -> None:
    """Bytes after a record of another version are refused as well."""
    definition = _newer("conversation.turns")
    definition["fields"].append({"name": "mood", "type": "string", "default": ""})
    text, value = _written(definition, TURN | {"mood": "calm"})
    codec = Codec()
    codec.add_writer_schema(text)

    with pytest.raises(MalformedValue, match="1 bytes follow the record"):
        codec.decode("conversation.turns", value + b"\x00")


@pytest.mark.parametrize("model", [ConversationTurn, ActionEvent, Outcome, ToolResult])
def test_versions_count_from_one(model: type[Any]) -> None:
    """Every packaged version of a subject is known to the codec without being added."""
    versions = packaged(topic_of(model))

    assert list(range(1, len(versions) + 1)) == list(versions)
