"""Framing, faults and lookups of the codec."""

import io
from contextlib import suppress
from typing import Any

import fastavro
import orjson
import pytest

from turnstream.config import Settings
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import (
    ConversationTurn,
    Event,
    SessionClaims,
    Source,
    Timer,
    ToolResult,
    Versions,
)
from turnstream.stream.codec import Codec, MalformedValue, NotAvro, Unencodable
from turnstream.stream.contracts import (
    EVENTS,
    UnusableSchema,
    newest,
    packaged,
    read_schema,
    topic_of,
    without_logical_types,
)
from turnstream.stream.handler import UnknownSchema

TURN = ConversationTurn(
    turn_id="t-1",
    conversation_id="c-1",
    channel_id="web",
    role="customer",
    text="Où est ma commande A-1001 ?",
    locale="fr",
    session_claims=SessionClaims(permissions=("orders:read",), values={"customer_id": "C-7"}),
    occurred_at=1_764_492_000_000,
)
TIMER = Timer(timer_id="tm-1", conversation_id="c-1", kind="question_expiry", due_at=5)
RESULT = ToolResult(
    action_id="a-1",
    conversation_id="c-1",
    tool_call_id="a-1",
    name="get_order_status",
    ok=True,
    outcome="done",
    attempts=1,
    versions=Versions(decision_version="d", presentation_version="p", model="m"),
    arguments_hash="h",
    occurred_at=5,
)
TURNS = "conversation.turns"


class Shelf:
    """A source of schemas that answers from a dict and counts what it was asked."""

    def __init__(self, schemas: dict[str, str | Exception]) -> None:
        self.schemas = schemas
        self.asked: list[str] = []

    async def fetch(self, reference: str) -> str | None:
        """Answer, or raise."""
        self.asked.append(reference)
        answer = self.schemas.get(reference)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("name", "decimal"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
        ("string", -8142146995180207161),
    ],
)
def test_fingerprints_are_those_of_the_avro_specification(name: str, decimal: int) -> None:
    """The fingerprint's bytes, read little-endian, are the numbers that Avro's own tests list."""
    from fastavro.schema import fingerprint

    wire = bytes.fromhex(fingerprint(f'"{name}"', "CRC-64-AVRO"))

    assert decimal == int.from_bytes(wire, "little", signed=True)


def test_fingerprints_do_not_see_docs_defaults_and_logical_types() -> None:
    """Only what changes the bytes changes the fingerprint."""
    bare = {
        "type": "record",
        "name": "turnstream.T",
        "fields": [{"name": "at", "type": "long"}],
    }
    full = {
        "type": "record",
        "name": "T",
        "namespace": "turnstream",
        "doc": "A time.",
        "fields": [
            {
                "name": "at",
                "doc": "When.",
                "type": {"type": "long", "logicalType": "timestamp-millis"},
                "default": 0,
            }
        ],
    }

    assert (
        read_schema(orjson.dumps(bare)).fingerprint == read_schema(orjson.dumps(full)).fingerprint
    )


def test_fingerprints_of_all_versions_differ() -> None:
    """No two packaged schemas share a fingerprint, so a header names one."""
    schemas = [schema for topic in EVENTS for schema in packaged(topic).values()]

    assert len(schemas) == len({schema.fingerprint for schema in schemas})


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("", "the value is empty"),
        ("00", "Confluent framing: the header has 5 bytes, the value only 1"),
        ("0000", "Confluent framing: the header has 5 bytes, the value only 2"),
        ("c3", "neither framing: the value starts with c3"),
        ("c301", "Avro single-object encoding: the header has 10 bytes, the value only 2"),
        ("7b226964223a317d", "JSON text: the value starts with 7b 22"),
        ("5b5d", "JSON text: the value starts with 5b 5d"),
        ("6e6f74206a736f6e", "neither framing: the value starts with 6e 6f"),
        ("fffe00", "neither framing: the value starts with ff fe"),
        (
            "000000002a7b226964223a317d",
            "Confluent framing, schema id 42: no schema registry is configured",
        ),
    ],
)
def test_a_wrong_framing_is_named(value: str, named: str) -> None:
    """What the first bytes look like is said, and nothing is looked up from them."""
    with pytest.raises(MalformedValue) as caught:
        Codec().decode(TURNS, bytes.fromhex(value))
    assert caught.value.reason == "malformed"
    assert caught.value.detail.startswith(named)


@pytest.mark.parametrize("length", range(10, len(Codec().encode(TURN))))
def test_a_truncated_value(length: int) -> None:
    """A value that ends anywhere within the body is malformed, never an index error."""
    with pytest.raises(MalformedValue) as caught:
        Codec().decode(TURNS, Codec().encode(TURN)[:length])
    assert caught.value.reason == "malformed"


def test_trailing_bytes() -> None:
    """A value goes on after its record: malformed, with the number of bytes."""
    with pytest.raises(MalformedValue, match="3 bytes follow the record"):
        Codec().decode(TURNS, Codec().encode(TURN) + b"abc")


@pytest.mark.parametrize("position", range(10, len(Codec().encode(TURN))))
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_a_damaged_value(position: int, byte: int) -> None:
    """Whatever a byte turns into, the value decodes or is malformed or invalid."""
    value = bytearray(Codec().encode(TURN))
    value[position] = byte
    with suppress(MalformedValue):
        Codec().decode(TURNS, bytes(value))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"\x80" * 11, "an integer has more than ten bytes"),
        (b"\x01", "a length is negative"),
        (b"\x04\xff\xfe" + b"\x00" * 20, "a string is not UTF-8"),
        (b"\xfe\xff\xff\xff\x0f", "the body is truncated"),
    ],
)
def test_bytes_that_no_writer_wrote(body: bytes, fault: str) -> None:
    """Lengths and strings are checked before anything is read by them."""
    header = Codec().encode(TIMER)[:10]
    with pytest.raises(MalformedValue, match=fault):
        Codec().decode("conversation.timers", header + body)


def test_an_enum_index_that_is_none() -> None:
    """An index outside the enum's symbols is malformed, negative ones included."""
    value = Codec().encode(TIMER)
    at = 10 + 5 + 4
    for index in (0x7E, 0x01):
        damaged = value[:at] + bytes([index]) + value[at + 1 :]
        with pytest.raises(MalformedValue, match="an enum or boolean holds a value"):
            Codec().decode("conversation.timers", damaged)


def test_a_value_of_another_topic() -> None:
    """A known schema of another event is malformed and says which two."""
    with pytest.raises(
        MalformedValue, match=r"is a turnstream\.Timer, expected turnstream\.ConversationTurn"
    ):
        Codec().decode(TURNS, Codec().encode(TIMER))


def test_a_value_that_breaks_the_model() -> None:
    """What decodes and breaks a rule is invalid; the field is named, its content is not."""
    value = Codec().encode(TURN.model_copy(update={"turn_id": "", "text": "a secret"}))

    with pytest.raises(MalformedValue, match="turn_id") as caught:
        Codec().decode(TURNS, value)
    assert caught.value.reason == "invalid"
    assert "secret" not in caught.value.detail


def test_blocks_with_sizes_are_read() -> None:
    """Array blocks with a negative count and a size, which other writers use, are read."""
    turn = TURN.model_copy(update={"session_claims": SessionClaims(permissions=("a", "b"))})
    plain = Codec().encode(turn)
    one_block = b"\x04\x02a\x02b\x00"
    sized = b"\x03\x08\x02a\x02b\x00"
    assert plain.count(one_block) == 1

    assert turn == Codec().decode(TURNS, plain.replace(one_block, sized))


def test_unrecognized_is_never_written() -> None:
    """The symbol that stands for a newer writer's is only ever read."""
    with pytest.raises(Unencodable, match="'unrecognized'"):
        Codec().encode(TIMER.model_copy(update={"kind": "unrecognized"}))


@pytest.mark.parametrize("due_at", [2**63, -(2**63) - 1])
def test_integers_beyond_64_bits_are_not_written(due_at: int) -> None:
    """A number that Avro cannot hold is refused instead of cut."""
    with pytest.raises(Unencodable, match="64 bits"):
        Codec().encode(TIMER.model_copy(update={"due_at": due_at}))


@pytest.mark.parametrize("due_at", [2**63 - 1, -(2**63), -1, 0, 63, 64, -64, -65])
def test_the_bounds_of_integers_are_written(due_at: int) -> None:
    """Zigzag holds at the edges; the model, not the encoding, refuses negative times."""
    value = Codec().encode(TIMER.model_copy(update={"due_at": due_at}))
    codec = Codec()
    if 0 <= due_at <= 2**53:
        assert due_at == codec.decode_as(Timer, value).due_at
    else:
        with pytest.raises(MalformedValue, match="due_at"):
            codec.decode_as(Timer, value)


@pytest.mark.parametrize("size", [63, 64, 1023, 1024, 8191, 8192, 70_000])
def test_sizes_on_both_sides_of_every_bound(size: int) -> None:
    """Texts and lists of any length are what an independent reader reads."""
    turn = TURN.model_copy(
        update={
            "text": "é" * size,
            "locale": "x" * size,
            "session_claims": SessionClaims(
                permissions=("p",) * size, values={f"{number}": "v" for number in range(size)}
            ),
        }
    )
    value = Codec().encode(turn)

    assert turn == Codec().decode(TURNS, value)
    schema = fastavro.parse_schema(without_logical_types(newest(TURNS).definition))
    read: Any = fastavro.schemaless_reader(io.BytesIO(value[10:]), schema, None)
    assert turn.model_dump(mode="json") == read


@pytest.mark.parametrize("bits", range(1, 64))
def test_integers_of_every_length(bits: int) -> None:
    """Both ends of each number of bits are what an independent writer writes, with either sign."""
    schema = fastavro.parse_schema(without_logical_types(newest("conversation.timers").definition))
    for number in (1 << bits - 1, (1 << bits) - 1, -(1 << bits - 1), -(1 << bits)):
        timer = TIMER.model_copy(update={"due_at": number})
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, timer.model_dump())

        assert body.getvalue() == Codec().encode(timer)[10:]


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (TIMER, "due_at", None),
        (TIMER, "due_at", 1.0),
        (TIMER, "due_at", "5"),
        (TIMER, "kind", None),
        (TIMER, "kind", []),
        (TIMER, "timer_id", None),
        (TIMER, "timer_id", b"bytes"),
        (TIMER, "timer_id", "\ud800"),
        (RESULT, "ok", None),
        (RESULT, "ok", "yes"),
        (RESULT, "ok", []),
        (RESULT, "error", "text"),
        (RESULT, "versions", None),
        (TURN, "passages", 5),
        (TURN, "passages", ("text",)),
        (TURN, "session_claims", {}),
    ],
)
def test_values_of_another_type_are_not_written(event: Event, field: str, value: object) -> None:
    """What a model would not have let in is refused, never written as something else."""
    with pytest.raises(Unencodable, match=type(event).__name__):
        Codec().encode(event.model_copy(update={field: value}))


def test_a_part_of_an_event_has_no_topic() -> None:
    """Only what travels by itself can be encoded."""
    with pytest.raises(KeyError, match="Source"):
        topic_of(Source)


def test_registered_ids_are_written_and_read() -> None:
    """After registration both framings are read, and ids are written."""
    codec = Codec(registry=True)
    before = codec.encode(TURN)
    codec.use_registered_ids({ConversationTurn: 300})
    after = codec.encode(TURN)

    assert b"\x00\x00\x00\x01\x2c" + before[10:] == after
    assert TURN == codec.decode(TURNS, before) == codec.decode(TURNS, after)


async def test_an_unknown_fingerprint_is_resolved() -> None:
    """An unknown schema is looked up in the sources, in order, and the value decodes then."""
    definition = orjson.loads(newest(TURNS).text)
    definition["fields"][-1]["name"] = "occurred_at"
    definition["fields"].append({"name": "extra", "type": "boolean", "default": False})
    schema = read_schema(orjson.dumps(definition))
    value = b"\xc3\x01" + bytes.fromhex(schema.fingerprint) + Codec().encode(TURN)[10:] + b"\x01"
    first, second = Shelf({}), Shelf({schema.fingerprint: schema.text})
    codec = Codec((first, second))

    with pytest.raises(UnknownSchema) as caught:
        codec.decode(TURNS, value)
    assert await codec.resolve(caught.value.fingerprint)
    assert TURN == codec.decode(TURNS, value)
    assert [schema.fingerprint] == first.asked == second.asked


async def test_an_unknown_id_is_resolved() -> None:
    """An id that is met for the first time is looked up, never taken from elsewhere."""
    codec = Codec((Shelf({"id:9": newest(TURNS).text}),), registry=True)
    value = b"\x00\x00\x00\x00\x09" + Codec().encode(TURN)[10:]

    with pytest.raises(UnknownSchema) as caught:
        codec.decode(TURNS, value)
    assert caught.value.fingerprint == "id:9"
    assert await codec.resolve("id:9")
    assert TURN == codec.decode(TURNS, value)


async def test_an_id_of_another_kind_of_schema() -> None:
    """A registered JSON schema makes its values malformed: they will never be Avro."""
    codec = Codec((Shelf({"id:42": NotAvro("this is a JSON schema")}),), registry=True)
    value = bytes.fromhex("000000002a7b226964223a317d")

    with pytest.raises(UnknownSchema):
        codec.decode(TURNS, value)
    assert await codec.resolve("id:42")
    with pytest.raises(MalformedValue, match="schema id 42: this is a JSON schema"):
        codec.decode(TURNS, value)


def test_a_schema_that_nobody_will_publish() -> None:
    """What names it is malformed at once, in either framing; the others are still waited for."""
    codec = Codec(registry=True, refused=("00" * 8, "id:42"))

    for value in ("c301" + "00" * 8, "000000002a", "000000002a7b226964223a317d"):
        with pytest.raises(MalformedValue, match="configuration refuses the schema"):
            codec.decode(TURNS, bytes.fromhex(value))
    with pytest.raises(UnknownSchema):
        codec.decode(TURNS, bytes.fromhex("000000002b"))


@pytest.mark.parametrize("text", [b'{"id":1}', b"hello", b"\x7f\xff\xff\xff", b"\0\0\0\0"])
def test_text_that_looks_framed_can_be_refused_by_the_name_that_the_log_gives_it(
    text: bytes,
) -> None:
    """Any four bytes are an id: its partition would else wait, and the remedy not be taken."""
    value = b"\x00" + text

    with pytest.raises(UnknownSchema) as unknown:
        Codec(registry=True).decode(TURNS, value)

    listed = Settings(refused_schemas=(unknown.value.fingerprint,)).refused_schemas
    with pytest.raises(MalformedValue, match="configuration refuses the schema"):
        Codec(registry=True, refused=listed).decode(TURNS, value)


@pytest.mark.parametrize("schema_id", [0x8000_0000, 0xFFFF_FFFF])
def test_an_id_that_no_registry_gives_is_not_waited_for(schema_id: int) -> None:
    """Ids have 31 bits: a lookup would find nothing, now and later. To refuse it is no mistake."""
    value = b"\x00" + schema_id.to_bytes(4, "big")
    listed = Settings(refused_schemas=(f"id:{schema_id}",)).refused_schemas

    with pytest.raises(MalformedValue, match="no registry gives ids above 2147483647"):
        Codec(registry=True).decode(TURNS, value)
    with pytest.raises(MalformedValue, match="configuration refuses the schema"):
        Codec(registry=True, refused=listed).decode(TURNS, value)


def test_a_schema_that_is_known_is_not_refused() -> None:
    """The list is for schemas that are missing; a mistake in it loses no event."""
    codec = Codec(refused=(newest(TURNS).fingerprint,))

    assert TURN == codec.decode(TURNS, Codec().encode(TURN))


@pytest.mark.parametrize(
    "answer",
    [None, "not JSON", '"string"', newest("conversation.timers").text, TurnstreamError("down")],
)
async def test_a_lookup_that_finds_nothing_usable(answer: str | Exception | None) -> None:
    """Nothing there, nonsense, another schema than asked for, an outage: not resolved yet."""
    schemas: dict[str, str | Exception] = {} if answer is None else {"00" * 8: answer}

    assert not await Codec((Shelf(schemas),)).resolve("00" * 8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"string"',
        '{"type": "record"}',
        '{"type": "nonsense"}',
        '{"type": "enum", "name": "E", "symbols": ["a"]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}',
        '{"type": "record", "name": "R", "fields": 5}',
    ],
)
def test_unusable_schemas(text: str) -> None:
    """What is not an Avro record schema is refused as such."""
    with pytest.raises(UnusableSchema):
        Codec().add_writer_schema(text)
