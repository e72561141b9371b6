"""What a tool returned, held to its result schema: checked, then cut to what the schema declares.

Whatever a service adds to its reply - internal ids, notes of other people, a text that speaks to a
model - goes no further than here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import jsonschema_rs
import orjson
from pydantic import JsonValue

from turnstream.core.json_texts import too_deep

RESULT_BYTES: Final = 1024 * 1024
"""Largest reply that is read: a service that streams without end would fill the memory."""

_NESTING: Final = 64
"""Deepest nesting that is followed: a schema that refers to itself meets deep data otherwise."""

_LONG: Final = re.compile(rb"[0-9]{19}")
"""What an integer of more than 64 bits has: it is read as a floating-point number that is near."""

Schema = Mapping[str, JsonValue]


class InvalidResult(Exception):
    """A reply is not what the tool's result schema promises; the message never repeats it."""


def shown(document: bytes, *, path: str | None) -> Mapping[str, JsonValue] | None:
    """The arguments that a tool says it used.

    Args:
        document: its reply, JSON text.
        path: where the binding says that they are; None where it does not.

    Raises:
        InvalidResult: there is no object, or it is nested too deeply.
    """
    if path is None:
        return None
    value = _at(document, path, name="used_path")
    if not isinstance(value, dict) or too_deep(value):
        raise InvalidResult(f"the reply has no arguments at used_path {path!r}")
    return value


def _at(document: bytes, path: str | None, *, name: str, exactly: bool = False) -> JsonValue:
    """The part of a JSON document at a dotted path."""
    try:
        value: JsonValue = json.loads(document) if exactly else orjson.loads(document)
    except (ValueError, RecursionError):
        raise InvalidResult("the reply is not JSON") from None
    for part in path.split(".") if path else ():
        if not isinstance(value, dict) or part not in value:
            raise InvalidResult(f"the reply has nothing at {name} {path!r}")
        value = value[part]
    return value


class ResultSchema:
    """The JSON Schema (2020-12) of a tool's result."""

    def __init__(self, schema: Schema) -> None:
        """Compile a schema; the catalog's loader has checked that it is one."""
        self._schema = schema
        self._validator = jsonschema_rs.Draft202012Validator(
            dict(schema),
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )

    def read(self, document: bytes, *, path: str | None = None) -> Mapping[str, JsonValue]:
        """The declared part of a JSON document.

        Args:
            document: JSON text, UTF-8.
            path: dotted path of the result inside it; the whole document when None.

        Raises:
            InvalidResult: not JSON, nothing at the path, not an object, against the schema, or with
                an integer that nobody down the line can hold.
        """
        result = self.declared(_at(document, path, name="result_path"))
        if _LONG.search(document):
            written = _at(document, path, name="result_path", exactly=True)
            if result != self.declared(written):
                raise InvalidResult("the result has an integer of more than 64 bits")
        return result

    def declared(self, value: JsonValue) -> Mapping[str, JsonValue]:
        """The declared part of a value.

        Raises:
            InvalidResult: not an object, or against the schema.
        """
        if not isinstance(value, dict):
            raise InvalidResult("the result is not a JSON object")
        fault = next(self._validator.iter_errors(value), None)
        if fault is not None:
            place = "/".join(str(part) for part in fault.schema_path)
            raise InvalidResult(f"the result breaks its schema at {place}")
        reduced = self._reduce(value, (dict(self._schema),), _NESTING)
        return reduced if isinstance(reduced, dict) else {}

    def _reduce(self, value: JsonValue, schemas: tuple[JsonValue, ...], nesting: int) -> JsonValue:
        """Keep what any of the schemas that apply to a value declares."""
        if not isinstance(value, dict | list):
            return value
        if nesting == 0:
            raise InvalidResult(f"the result is nested deeper than {_NESTING} levels")
        parts = [part for schema in schemas for part in self._parts(schema, nesting)]
        if isinstance(value, list):
            return [
                self._reduce(item, _of_item(parts, index), nesting - 1)
                for index, item in enumerate(value)
            ]
        return {
            name: self._reduce(item, declared, nesting - 1)
            for name, item in value.items()
            if (declared := _of_property(parts, name))
        }

    def _parts(self, schema: JsonValue, nesting: int) -> Iterator[Schema]:
        """A schema and the ones it is made of."""
        if not isinstance(schema, dict) or nesting == 0:
            return
        yield schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._parts(self._referred(reference), nesting - 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            members = schema.get(keyword)
            for member in members if isinstance(members, list) else ():
                yield from self._parts(member, nesting - 1)

    def _referred(self, reference: str) -> JsonValue:
        """What a reference inside the document points to; others declare nothing."""
        if not reference.startswith("#"):
            return None
        found: JsonValue = dict(self._schema)
        for part in reference.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found


def _of_property(parts: list[Schema], name: str) -> tuple[JsonValue, ...]:
    """The schemas that declare a property; a schema for all other properties declares it too."""
    found: list[JsonValue] = []
    for part in parts:
        properties = part.get("properties")
        others = part.get("additionalProperties")
        if isinstance(properties, dict) and name in properties:
            found.append(properties[name])
        elif isinstance(others, dict):
            found.append(others)
    return tuple(found)


def _of_item(parts: list[Schema], index: int) -> tuple[JsonValue, ...]:
    """The schemas of an item of a list."""
    found: list[JsonValue] = []
    for part in parts:
        first = part.get("prefixItems")
        if isinstance(first, list) and index < len(first):
            found.append(first[index])
        elif "items" in part:
            found.append(part["items"])
    return tuple(found)
