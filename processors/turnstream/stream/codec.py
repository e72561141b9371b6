"""Events to record values and back.

A value is a header that names the writer's schema, then the Avro binary body. Two headers exist,
told apart by the first bytes:

* single-object encoding: `C3 01`, then the schema's CRC-64-AVRO fingerprint, 8 bytes little-endian;
* Confluent framing: `00`, then the id that a schema registry gave, 4 bytes big-endian.

Both are read. Single-object encoding is written until `use_registered_ids` gives ids to write. The
schema of a value is one of the packaged versions, or was added later with `add_writer_schema`; of
any other, `UnknownSchema` is raised, and `resolve` asks the codec's sources for it.

Nothing here waits, except `resolve`.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import fastavro
import structlog
from pydantic import ValidationError

from turnstream.core.errors import TurnstreamError
from turnstream.core.events import Event
from turnstream.stream.avro import (
    Decoder,
    Encoder,
    Truncated,
    Undecodable,
    compile_decoder,
    compile_encoder,
)
from turnstream.stream.contracts import (
    EVENTS,
    UnusableSchema,
    WriterSchema,
    newest,
    packaged,
    read_schema,
    topic_of,
    without_logical_types,
)
from turnstream.stream.handler import UnknownSchema

M = TypeVar("M", bound=Event)

_log = structlog.get_logger(__name__)

SINGLE_OBJECT: Final = b"\xc3\x01"
CONFLUENT: Final = b"\x00"
_SINGLE_OBJECT_HEADER: Final = 10
_CONFLUENT_HEADER: Final = 5
# Ids are whole numbers of 31 bits wherever they are given. More is no schema that is not there yet:
# to wait for it would hold the partition for ever.
_LARGEST_ID: Final = 0x7FFF_FFFF
# Details go to a header of the dead letter; a model error lists one line per field and may be long.
_MAX_DETAIL: Final = 500


class MalformedValue(TurnstreamError):
    """A record's value is not the event it should be. It will never be: dead-letter it."""

    def __init__(self, reason: Literal["malformed", "invalid"], detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Literal["malformed", "invalid"] = reason
        """`malformed`: does not decode. `invalid`: decodes and breaks a rule of the model."""
        self.detail = detail
        """One line that names the framing found; holds no part of the value."""


class Unencodable(TurnstreamError):
    """An event of ours cannot be written: one of its fields is not what its schema says."""


class NotAvro(TurnstreamError):
    """A source knows the schema, and it is of another kind than Avro."""


class SchemaSource(Protocol):
    """Where the schemas of other writers can be looked up."""

    async def fetch(self, reference: str) -> str | None:
        """Return a schema's JSON; `reference` is a fingerprint in hex, or `id:<number>`.

        None: not known there, or not yet.

        Raises:
            NotAvro: Known, and of another kind.
            TurnstreamError: The source cannot be reached.
        """
        ...


class _Contract(NamedTuple, Generic[M]):
    """What the hot path needs of one model."""

    validate: Callable[[dict[str, Any]], M]
    encode: Encoder
    header: bytes
    """Of the values we write."""
    readers: dict[bytes, Decoder]
    """Header of a value to what decodes its body."""


class Codec:
    """Encodes and decodes the events of every topic."""

    def __init__(
        self,
        sources: Sequence[SchemaSource] = (),
        *,
        registry: bool = False,
        refused: Iterable[str] = (),
    ) -> None:
        """Know the packaged schemas.

        Args:
            sources: Asked in order by `resolve`.
            registry: True when ids can be looked up in one of the sources. Else a value with
                Confluent framing is malformed, since nothing can say what its id means.
            refused: References of schemas that nobody will publish: 16 hexadecimal digits of a
                fingerprint, or `id:` and a number. What names one of them, and none is known,
                is malformed and not waited for.
        """
        self._sources = tuple(sources)
        self._registry = registry
        self._contracts: dict[type[Event], _Contract[Any]] = {}
        self._ids: dict[type[Event], int] = {}
        self._writers: dict[bytes, WriterSchema] = {}
        self._refused = {
            _header_of(reference): f"the configuration refuses the schema {reference}"
            for reference in refused
        }
        for topic in EVENTS:
            for schema in packaged(topic).values():
                self._writers[_single_object_header(schema)] = schema

    def encode(self, event: Event) -> bytes:
        """Encode an event under the newest packaged schema.

        Raises:
            Unencodable: A value outside the schema; `unrecognized` is one: it is never written.
        """
        model = type(event)
        contract = self._contracts.get(model) or self._contract(model)
        try:
            return contract.encode(event, contract.header)
        except (AttributeError, KeyError, TypeError, OverflowError, UnicodeEncodeError) as error:
            raise Unencodable(
                f"{model.__name__} does not fit its schema ({type(error).__name__}: {error})"
            ) from error

    def decode(self, topic: str, value: bytes) -> Event:
        """Decode a value of a logical topic, `conversation.turns` say; see `decode_as`."""
        return self.decode_as(EVENTS[topic], value)

    def decode_as(self, model: type[M], value: bytes) -> M:
        """Decode a value to `model`.

        Raises:
            MalformedValue: Neither framing, truncated, undecodable, or not what the model allows.
            UnknownSchema: The writer's schema must be looked up; see `resolve`.
        """
        contract: _Contract[M] = self._contracts.get(model) or self._contract(model)
        start = _SINGLE_OBJECT_HEADER if value[:2] == SINGLE_OBJECT else _CONFLUENT_HEADER
        reader = contract.readers.get(value[:start]) or self._reader(model, value)
        try:
            fields, end = reader(value, start)
        except (IndexError, EOFError, Truncated):
            raise _malformed(value, "the body is truncated") from None
        except UnicodeDecodeError as error:
            raise _malformed(value, f"a string is not UTF-8 ({error.reason})") from None
        except KeyError:
            raise _malformed(value, "an enum or boolean holds a value that it has not") from None
        except Undecodable as error:
            raise _malformed(value, str(error)) from None
        if end != len(value):
            raise _malformed(value, f"{len(value) - end} bytes follow the record")
        try:
            return contract.validate(fields)
        except ValidationError as error:
            raise MalformedValue("invalid", _violations(value, error)) from None

    def add_writer_schema(self, text: str) -> str:
        """Know one more writer's schema; return its fingerprint.

        Raises:
            UnusableSchema: Not an Avro record schema.
        """
        schema = read_schema(text)
        self._writers.setdefault(_single_object_header(schema), schema)
        return schema.fingerprint

    def add_registered_schema(self, schema_id: int, text: str) -> None:
        """Know the schema behind a registry's id.

        Raises:
            UnusableSchema: Not an Avro record schema.
        """
        self._writers[_confluent_header(schema_id)] = read_schema(text)

    def use_registered_ids(self, ids: Mapping[type[Event], int]) -> None:
        """Write these models with Confluent framing from now on."""
        self._ids.update(ids)
        for model, schema_id in ids.items():
            self._writers[_confluent_header(schema_id)] = newest(topic_of(model))
            self._contracts.pop(model, None)

    async def resolve(self, reference: str) -> bool:
        """Look up the schema that `UnknownSchema` named; true: decode again.

        A source that cannot be reached is logged and counts as not knowing it yet: ask again later.
        """
        for source in self._sources:
            try:
                text = await source.fetch(reference)
            except NotAvro as error:
                self._refused[_header_of(reference)] = str(error)
                return True
            except TurnstreamError as error:
                _log.warning("schema_lookup_failed", schema=reference, error=str(error))
                continue
            if text is None:
                continue
            try:
                if reference.startswith("id:"):
                    self.add_registered_schema(int(reference[3:]), text)
                    return True
                if self.add_writer_schema(text) == reference:
                    return True
            except UnusableSchema as error:
                _log.warning("schema_unusable", schema=reference, error=str(error))
        return False

    def _contract(self, model: type[M]) -> _Contract[M]:
        schema = newest(topic_of(model))
        schema_id = self._ids.get(model)
        contract = _Contract(
            validate=model.__pydantic_validator__.validate_python,
            encode=_encoder(topic_of(model)),
            header=(
                _single_object_header(schema) if schema_id is None else _confluent_header(schema_id)
            ),
            readers={},
        )
        self._contracts[model] = contract
        return contract

    def _reader(self, model: type[Event], value: bytes) -> Decoder:
        """Find what decodes the body of a value whose header is met for the first time.

        Readers are kept per header; there are as many as the schemas that are known.
        """
        header = _header(value)
        if header[:1] == CONFLUENT and header not in self._writers and not self._registry:
            raise _malformed(value, "no schema registry is configured to look the id up in")
        writer = self._writers.get(header)
        if writer is None:
            if header in self._refused:
                raise _malformed(value, self._refused[header])
            if header[:1] == CONFLUENT and int.from_bytes(header[1:], "big") > _LARGEST_ID:
                raise _malformed(value, f"no registry gives ids above {_LARGEST_ID}")
            raise UnknownSchema(_reference(header))
        topic = topic_of(model)
        expected = newest(topic)
        if writer.name != expected.name:
            raise _malformed(value, f"the value is a {writer.name}, expected {expected.name}")
        reader = (
            _decoder(topic)
            if writer.fingerprint == expected.fingerprint
            else _resolving_decoder(writer, expected)
        )
        self._contracts[model].readers[header] = reader
        return reader


@cache
def _encoder(topic: str) -> Encoder:
    return compile_encoder(newest(topic).definition)


@cache
def _decoder(topic: str) -> Decoder:
    return compile_decoder(newest(topic).definition)


def _resolving_decoder(writer: WriterSchema, reader: WriterSchema) -> Decoder:
    """Make the decoder of another version: Avro's resolution from writer to reader."""
    written = fastavro.parse_schema(without_logical_types(writer.definition))
    wanted = fastavro.parse_schema(without_logical_types(reader.definition))

    def decode(value: bytes, start: int) -> tuple[dict[str, Any], int]:
        body = io.BytesIO(value)
        try:
            # Resolution skips fields that the reader has not, and does not notice when they end
            # early: the first pass, without it, does.
            body.seek(start)
            fastavro.schemaless_reader(body, written, None)
            body.seek(start)
            fields = fastavro.schemaless_reader(body, written, wanted)
        except (EOFError, UnicodeDecodeError):
            raise
        except Exception as error:  # noqa: BLE001 - fastavro raises many kinds for bad bytes
            raise Undecodable(
                f"it does not resolve from the writer's schema {writer.fingerprint} "
                f"({type(error).__name__})"
            ) from None
        if not isinstance(fields, dict):
            raise Undecodable("the body is not a record")
        return fields, body.tell()

    return decode


def _single_object_header(schema: WriterSchema) -> bytes:
    return SINGLE_OBJECT + bytes.fromhex(schema.fingerprint)


def _confluent_header(schema_id: int) -> bytes:
    return CONFLUENT + schema_id.to_bytes(4, "big")


def _header(value: bytes) -> bytes:
    """Cut the header off a value.

    Raises:
        MalformedValue: Neither framing, or the value ends within its header.
    """
    if value[:2] == SINGLE_OBJECT:
        size, name = _SINGLE_OBJECT_HEADER, "Avro single-object encoding"
    elif value[:1] == CONFLUENT:
        size, name = _CONFLUENT_HEADER, "Confluent framing"
    elif not value:
        raise MalformedValue("malformed", "the value is empty, expected an Avro header")
    else:
        looks = "JSON text" if value.lstrip()[:1] in (b"{", b"[", b'"') else "neither framing"
        raise MalformedValue(
            "malformed",
            f"{looks}: the value starts with {value[:2].hex(' ')}, expected c3 01 (Avro "
            "single-object encoding) or 00 (Confluent framing)",
        )
    if len(value) < size:
        raise MalformedValue(
            "malformed", f"{name}: the header has {size} bytes, the value only {len(value)}"
        )
    return value[:size]


def _reference(header: bytes) -> str:
    if header[:2] == SINGLE_OBJECT:
        return header[2:].hex()
    return f"id:{int.from_bytes(header[1:], 'big')}"


def _header_of(reference: str) -> bytes:
    if reference.startswith("id:"):
        return _confluent_header(int(reference[3:]))
    return SINGLE_OBJECT + bytes.fromhex(reference)


def _malformed(value: bytes, fault: str) -> MalformedValue:
    return MalformedValue("malformed", f"{_framing(value)}: {fault}")


def _framing(value: bytes) -> str:
    if value[:2] == SINGLE_OBJECT:
        return f"Avro single-object encoding, schema {value[2:10].hex()}"
    return f"Confluent framing, schema id {int.from_bytes(value[1:5], 'big')}"


def _violations(value: bytes, error: ValidationError) -> str:
    """Name the fields that break the model, without their content."""
    found = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'event'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return f"{_framing(value)}: {found}"[:_MAX_DETAIL]
