"""The ways to read a JSON Schema for one value: references followed, branches chosen.

A schema that is put together of others (`$ref`, `allOf`, `anyOf`, `oneOf`) is laid out as lists of
schemas that hold together. Of alternatives those are kept whose outline fits the value; all of them
where none does.
"""

from typing import Final, TypeAlias

from pydantic import JsonValue

from turnstream.core.schema_tree import REFERENCES, Schema, referred, types

_READINGS: Final = 32
"""Ways to read one object that are weighed: unions inside unions multiply without it."""

Reading: TypeAlias = list[Schema]
"""Schemas that hold together."""


def readings(schema: JsonValue, value: JsonValue, *, root: Schema) -> list[Reading]:
    """The ways to read a schema for a value: one choice of branches each.

    Args:
        schema: a part of a schema.
        value: an object or a list; between branches for other values nothing is chosen.
        root: the whole schema, where references lead.
    """
    return _Reader(root).readings(schema, value, frozenset())


def inside(ways: list[Reading], key: str | int) -> JsonValue:
    """The schema of an item or a property, put together from all readings of what holds it."""
    options: list[JsonValue] = []
    for reading in ways:
        parts: list[JsonValue] = [inner for part in reading for inner in _inside(part, key)]
        if parts and {"allOf": parts} not in options:
            options.append({"allOf": parts})
    return {"anyOf": options}


def declared(reading: Reading, name: str) -> list[JsonValue]:
    """The schemas under which a reading declares a property, whatever it says of any other name."""
    return [inner for part in reading for inner in _declared(part, name)]


def listed(schema: Schema, keyword: str) -> list[JsonValue]:
    """The list that a keyword holds, empty where it holds none."""
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


class _Reader:
    """Reads the parts of one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def readings(self, schema: JsonValue, value: JsonValue, seen: frozenset[str]) -> list[Reading]:
        if not isinstance(schema, dict):
            return [[]]
        ways: list[Reading] = [[schema]]
        for key in REFERENCES:
            reference = schema.get(key)
            if isinstance(reference, str) and reference not in seen:
                target = referred(self._root, reference)
                ways = _joined(ways, self.readings(target, value, seen | {reference}))
        for member in listed(schema, "allOf"):
            ways = _joined(ways, self.readings(member, value, seen))
        for key in ("anyOf", "oneOf"):
            branches = listed(schema, key)
            fitting = [one for one in branches if self._fits(one, value, frozenset())]
            options: list[Reading] = []
            for branch in fitting or branches:
                if len(options) < _READINGS:
                    options += self.readings(branch, value, seen)
            ways = _joined(ways, options or [[]])
        return ways

    def _fits(self, schema: JsonValue, value: JsonValue, seen: frozenset[str]) -> bool:
        """Whether a branch may be the one that is meant: no more than its outline is looked at."""
        if not isinstance(schema, dict):
            return schema is not False
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            target = referred(self._root, reference)
            if target is not None and not self._fits(target, value, seen | {reference}):
                return False
        kind = "object" if isinstance(value, dict) else "array"
        if "type" in schema and kind not in types(schema):
            return False
        if not isinstance(value, dict):
            return True
        if any(name not in value for name in listed(schema, "required")):
            return False
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            undeclared = value.keys() - properties.keys()
            if undeclared:
                return False
        return all(
            value.get(name) is None or _allows(inner, value[name])
            for name, inner in properties.items()
        )


def _allows(schema: JsonValue, value: JsonValue) -> bool:
    """Whether `enum` and `const`, which tell branches apart, let a value pass."""
    if not isinstance(schema, dict):
        return schema is not False
    if "const" in schema and not _same(schema["const"], value):
        return False
    enum = schema.get("enum")
    return not isinstance(enum, list) or any(_same(one, value) for one in enum)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equality of JSON: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _joined(ways: list[Reading], others: list[Reading]) -> list[Reading]:
    return [one + other for one in ways for other in others][:_READINGS]


def _inside(schema: Schema, key: str | int) -> list[JsonValue]:
    if isinstance(key, int):
        prefix = listed(schema, "prefixItems")
        if key < len(prefix):
            return [prefix[key]]
        return [schema["items"]] if "items" in schema else []
    named = _declared(schema, key)
    if named:
        return named
    patterns = schema.get("patternProperties")
    others = list(patterns.values()) if isinstance(patterns, dict) else []
    others += [schema["additionalProperties"]] if "additionalProperties" in schema else []
    # Which of several patterns a name matches is the validator's to say: all are looked at.
    return others if len(others) < 2 else [{"anyOf": others}]  # noqa: PLR2004


def _declared(schema: Schema, name: str) -> list[JsonValue]:
    held = schema.get("properties")
    return [held[name]] if isinstance(held, dict) and name in held else []
