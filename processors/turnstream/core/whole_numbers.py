"""Whole numbers that a model wrote with a fraction of zero: 3.0 where the schema says integer.

JSON Schema calls 3.0 an integer, JSON itself makes no difference, and services do. So it is written
as 3 before anybody else sees it: the same number, by the tool's own schema, and only where no part
of the schema speaks of `number`.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.schema_tree import REFERENCES, Schema, referred, types

_EXACT: Final = 2**53
"""Beyond it a float is no certain integer any more."""

_NESTING: Final = 64
"""Deepest nesting that is followed: a schema may refer to itself."""


def with_whole_numbers(
    arguments: Mapping[str, JsonValue], *, schema: Schema
) -> dict[str, JsonValue]:
    """The same arguments, whole numbers as integers wherever the schema wants integers."""
    parts = _composed(dict(schema), schema, set())
    return {
        name: _whole(value, _under(parts, name, schema), schema, _NESTING)
        for name, value in arguments.items()
    }


def _whole(value: JsonValue, parts: list[Schema], root: Schema, depth: int) -> JsonValue:
    """A value under all the schemas that speak of it."""
    if depth == 0:
        return value
    match value:
        case float():
            kinds = {kind for part in parts for kind in types(part)}
            wanted = "integer" in kinds and "number" not in kinds
            return int(value) if wanted and value.is_integer() and abs(value) <= _EXACT else value
        case dict():
            return {
                name: _whole(one, _under(parts, name, root), root, depth - 1)
                for name, one in value.items()
            }
        case list():
            return [
                _whole(one, _under(parts, index, root), root, depth - 1)
                for index, one in enumerate(value)
            ]
    return value


def _under(parts: list[Schema], key: str | int, root: Schema) -> list[Schema]:
    """The schemas of a property or an item, each once."""
    found: dict[int, Schema] = {}
    for part in parts:
        if isinstance(key, int):
            prefix = part.get("prefixItems")
            listed = prefix if isinstance(prefix, list) else []
            inner = listed[key] if key < len(listed) else part.get("items")
        else:
            declared = part.get("properties")
            named = declared if isinstance(declared, dict) else {}
            inner = named.get(key, part.get("additionalProperties"))
        found |= {id(one): one for one in _composed(inner, root, set())}
    return list(found.values())


def _composed(schema: JsonValue | Schema, root: Schema, seen: set[str]) -> list[Schema]:
    """A schema and those that hold beside it."""
    if not isinstance(schema, Mapping):
        return []
    found: list[Schema] = [schema]
    for key in REFERENCES:
        reference = schema.get(key)
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            found += _composed(referred(root, reference), root, seen)
    for key in ("allOf", "anyOf", "oneOf"):
        members = schema.get(key)
        for member in members if isinstance(members, list) else []:
            found += _composed(member, root, seen)
    return found
