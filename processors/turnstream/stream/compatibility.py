"""The rules of schemas: FULL_TRANSITIVE compatibility, house rules, equality with the models.

Everything here is offline, over the schemas' JSON. Compatibility is Avro's own schema resolution:
every version of a subject can read what every other version wrote. Equality holds the newest
version to the pydantic model, field by field.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from turnstream.core.events import Millis
from turnstream.stream.avro import UNRECOGNIZED, UnsupportedSchema, compile_decoder, full_name
from turnstream.stream.contracts import EVENTS, WriterSchema, packaged, subject_of

_NAMESPACE = "turnstream"
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_PRIMITIVES: Mapping[Any, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("long", "int"),
}
_PROMOTIONS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""Avro's promotions: written type to the types that it can be read as."""


class Finding(NamedTuple):
    """A rule that a schema breaks."""

    file: str
    """`<subject>/v<N>.avsc`."""
    field: str
    """Dotted path from the record."""
    fault: str


class _Schema(NamedTuple):
    """A part of a schema with the names that are defined in the whole."""

    part: Any
    names: Mapping[str, Any]

    def at(self, part: Any) -> "_Schema":
        return _Schema(part, self.names)

    @property
    def definition(self) -> Any:
        """The part, a name replaced by what it names."""
        return self.names.get(self.part, self.part) if isinstance(self.part, str) else self.part

    @property
    def kind(self) -> str:
        definition = self.definition
        if isinstance(definition, list):
            return "union"
        if isinstance(definition, str):
            return definition
        kind = definition["type"]
        return self.at(kind).kind if isinstance(kind, dict | list) else str(kind)


def _whole(definition: Mapping[str, Any]) -> _Schema:
    names: dict[str, Any] = {}

    def walk(part: Any) -> None:
        if isinstance(part, list):
            for item in part:
                walk(item)
        elif isinstance(part, Mapping):
            if part.get("type") in ("record", "enum") and "namespace" in part:
                names[full_name(part)] = part
            for key in ("type", "items", "values"):
                if not isinstance(part.get(key), str):
                    walk(part.get(key))
            for field in part.get("fields", ()):
                walk(field["type"])

    walk(definition)
    return _Schema(definition, names)


def check_packaged() -> tuple[Finding, ...]:
    """Check every packaged subject; empty when all is well.

    Raises:
        UnusableSchema: A file is not a schema at all.
    """
    return tuple(
        finding
        for topic, model in EVENTS.items()
        for finding in check_subject(subject_of(topic), packaged(topic), model)
    )


def check_subject(
    subject: str, versions: Mapping[int, WriterSchema], model: type[BaseModel]
) -> Iterator[Finding]:
    """Check one subject: house rules and compatibility of all versions, equality of the newest."""
    for number, schema in versions.items():
        file = f"{subject}/v{number}.avsc"
        for path, fault in house_faults(schema.definition):
            yield Finding(file, path, fault)
        for other_number, other in versions.items():
            if other_number != number:
                for path, fault in resolution_faults(other.definition, schema.definition):
                    yield Finding(file, path, f"cannot read v{other_number}: {fault}")
    newest = max(versions)
    for path, fault in model_faults(model, versions[newest].definition):
        yield Finding(f"{subject}/v{newest}.avsc", path, fault)


# --- compatibility ----------------------------------------------------------------------------


def resolution_faults(
    writer: Mapping[str, Any], reader: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Say why `reader` cannot read what `writer` wrote: (field path, fault)."""
    return _resolve(_whole(writer), _whole(reader), "")


def _resolve(writer: _Schema, reader: _Schema, path: str) -> Iterator[tuple[str, str]]:
    if writer.kind == "union":
        for branch in writer.definition:
            yield from _resolve(writer.at(branch), reader, path)
        return
    if reader.kind == "union":
        branches = [reader.at(branch) for branch in reader.definition]
        matching = [branch for branch in branches if _same_type(writer, branch)]
        if not matching:
            yield path, f"no branch reads {_describe(writer)}"
            return
        yield from _resolve(writer, matching[0], path)
        return
    if not _same_type(writer, reader):
        yield path, f"{_describe(reader)} does not read {_describe(writer)}"
        return
    match reader.kind:
        case "record":
            yield from _resolve_record(writer, reader, path)
        case "enum":
            read, written = reader.definition, writer.definition
            unknown = [s for s in written["symbols"] if s not in read["symbols"]]
            if unknown and read.get("default") is None:
                yield path, f"has neither the symbols {unknown} nor a default for them"
        case "array":
            items = writer.definition["items"], reader.definition["items"]
            yield from _resolve(writer.at(items[0]), reader.at(items[1]), path)
        case "map":
            values = writer.definition["values"], reader.definition["values"]
            yield from _resolve(writer.at(values[0]), reader.at(values[1]), path)


def _resolve_record(writer: _Schema, reader: _Schema, path: str) -> Iterator[tuple[str, str]]:
    written = {field["name"]: field for field in writer.definition["fields"]}
    for field in reader.definition["fields"]:
        here = _join(path, field["name"])
        name = next((n for n in (field["name"], *field.get("aliases", ())) if n in written), None)
        if name is not None:
            types_ = written[name]["type"], field["type"]
            yield from _resolve(writer.at(types_[0]), reader.at(types_[1]), here)
        elif "default" not in field:
            yield here, "is not written there and has no default"


def _same_type(writer: _Schema, reader: _Schema) -> bool:
    if writer.kind != reader.kind:
        return reader.kind in _PROMOTIONS.get(writer.kind, ())
    if reader.kind in ("record", "enum"):
        return full_name(writer.definition) == full_name(reader.definition)
    return True


def _describe(schema: _Schema) -> str:
    if schema.kind in ("record", "enum"):
        return f"{schema.kind} {full_name(schema.definition)}"
    return schema.kind


# --- house rules ------------------------------------------------------------------------------


def house_faults(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Say where a schema breaks the house rules: (field path, fault)."""
    try:
        compile_decoder(dict(definition))
    except UnsupportedSchema as error:
        yield "", str(error)
        return
    yield from _house(definition, "")


def _house(part: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, list):
        for branch in part:
            yield from _house(branch, path)
    elif isinstance(part, Mapping):
        if part["type"] in ("record", "enum") and part["namespace"] != _NAMESPACE:
            yield path, f"namespace is {part['namespace']!r}, expected {_NAMESPACE!r}"
        match part["type"]:
            case "record":
                yield from _house_record(part, path)
            case "enum":
                if UNRECOGNIZED not in part["symbols"] or part.get("default") != UNRECOGNIZED:
                    yield path, f"enum {part['name']} must have {UNRECOGNIZED!r} as its default"
            case "array":
                yield from _house(part["items"], path)
            case "map":
                yield from _house(part["values"], path)


def _house_record(part: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if not part.get("doc"):
        yield path, f"record {part['name']} has no doc"
    for field in part["fields"]:
        here = _join(path, field["name"])
        nullable = isinstance(field["type"], list)
        if nullable and ("default" not in field or field["default"] is not None):
            yield here, "a nullable field has the default null"
        if field["name"].endswith("_at") and not field.get("doc"):
            yield here, "a time has a doc that names its unit"
        yield from _house(field["type"], here)


# --- equality with the models -----------------------------------------------------------------


def model_faults(
    model: type[BaseModel], definition: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Say where a schema and a model differ: (field path, fault).

    Compared are names, order, types, nullability, defaults and symbols. A nullable field without a
    default in the model has null as its default in the schema.
    """
    return _equal(model, _whole(definition), "")


def _equal(hint: Any, schema: _Schema, path: str) -> Iterator[tuple[str, str]]:
    nullable, hint = _split(hint)
    if nullable != (schema.kind == "union"):
        yield path, "is nullable in the model or in the schema, not in both"
        return
    if nullable:
        schema = schema.at(schema.definition[1])
    origin = typing.get_origin(hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield from _equal_record(hint, schema, path)
    elif hint == Millis:
        if schema.definition != _TIME:
            yield path, f"is a time in the model, and {schema.part!r} in the schema"
    elif origin in (tuple, dict):
        kind, key = ("array", "items") if origin is tuple else ("map", "values")
        if schema.kind != kind:
            yield path, f"is a {kind} in the model, and {_describe(schema)} in the schema"
            return
        item = typing.get_args(hint)[0 if origin is tuple else 1]
        yield from _equal(item, schema.at(schema.definition[key]), path)
    elif symbols := _symbols(hint):
        if schema.kind != "enum":
            yield path, f"is an enum in the model, and {_describe(schema)} in the schema"
        elif schema.definition["symbols"] != symbols:
            yield path, f"has symbols {schema.definition['symbols']}, the model {symbols}"
    elif schema.part not in _PRIMITIVES.get(hint, ()):
        yield path, f"is {hint!r} in the model, and {schema.part!r} in the schema"


def _equal_record(model: type[BaseModel], schema: _Schema, path: str) -> Iterator[tuple[str, str]]:
    if schema.kind != "record" or schema.definition["name"] != model.__name__:
        yield path, f"is {model.__name__} in the model, and {_describe(schema)} in the schema"
        return
    fields = {field["name"]: field for field in schema.definition["fields"]}
    if list(fields) != list(model.model_fields):
        yield path, f"has fields {list(fields)}, the model {list(model.model_fields)}"
        return
    hints = typing.get_type_hints(model, include_extras=True)
    for name, field in fields.items():
        here = _join(path, name)
        default = model.model_fields[name].default
        expected = _MISSING if default is PydanticUndefined else _as_json(default)
        if expected is _MISSING and _split(hints[name])[0]:
            expected = None
        if field.get("default", _MISSING) != expected:
            yield here, f"has the default {field.get('default', _MISSING)!r}, not {expected!r}"
        yield from _equal(hints[name], schema.at(field["type"]), here)


class _Missing:
    def __repr__(self) -> str:
        return "none"


_MISSING = _Missing()


def _as_json(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union; a type that is none is its own only member."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _split(hint: Any) -> tuple[bool, Any]:
    """Split a type into whether it allows None and the rest."""
    members = _members(hint)
    if type(None) not in members:
        return False, hint
    return True, typing.Union[tuple(m for m in members if m is not type(None))]  # noqa: UP007


def _symbols(hint: Any) -> list[str]:
    """The symbols of a Literal or a union of them, `unrecognized` at the end; empty if neither."""
    members = _members(hint)
    if any(typing.get_origin(member) is not Literal for member in members):
        return []
    known = [symbol for member in members for symbol in typing.get_args(member)]
    return [symbol for symbol in known if symbol != UNRECOGNIZED] + [UNRECOGNIZED]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
