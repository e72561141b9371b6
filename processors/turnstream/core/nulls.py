"""What null means in the arguments that a model gave: absent, where null is no value.

Strict surfaces (:mod:`turnstream.core.dialects`) require every property and make the optional ones
nullable, so a model says "none" with null; other models do so of their own accord. One rule holds
for every provider: null for a declared, optional property whose registered schema does not allow
null is left out, and where that was done is recorded. Everything else stays as it came and is
judged by the registered schema: null where it allows null, null for a required property, null
under a name that it does not declare, an empty string, the word ``null``.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pydantic import JsonValue

from turnstream.core.evolution import dataclass
from turnstream.core.schema_tree import (
    REFERENCES,
    Place,
    Schema,
    admits_null,
    pointer,
    referred,
    types,
)

_NESTING: Final = 64
"""Deepest nesting that is followed: a schema that refers to itself meets deep data otherwise."""

_READINGS: Final = 32
"""Ways to read one object that are weighed: unions inside unions multiply without it."""

_Reading: TypeAlias = list[Schema]
"""Schemas that hold together."""


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments as they are meant."""

    arguments: dict[str, JsonValue]
    dropped: tuple[str, ...]
    """JSON pointers of the nulls that were left out, in the order of the arguments."""


def without_added_nulls(arguments: Mapping[str, JsonValue], *, schema: Schema) -> Given:
    """Leave out the nulls that mean absent.

    Args:
        arguments: the model's, parsed; not changed.
        schema: the registered input schema, never a provider's copy of it.
    """
    reader = _Reader(schema)
    cleaned = reader.cleaned(dict(arguments), dict(schema), ())
    return Given(cleaned if isinstance(cleaned, dict) else {}, tuple(reader.dropped))


class _Reader:
    """One pass over arguments."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self.dropped: list[str] = []

    def cleaned(self, value: JsonValue, schema: JsonValue, place: Place) -> JsonValue:
        if not isinstance(value, dict | list) or len(place) == _NESTING:
            return value
        readings = self._readings(schema, value, frozenset())
        if isinstance(value, list):
            return [
                self.cleaned(item, _together(readings, index), (*place, index))
                for index, item in enumerate(value)
            ]
        kept: dict[str, JsonValue] = {}
        for name, item in value.items():
            if item is None and self._means_absent(name, readings):
                self.dropped.append(pointer((*place, name)))
            else:
                kept[name] = self.cleaned(item, _together(readings, name), (*place, name))
        return kept

    def _means_absent(self, name: str, readings: list[_Reading]) -> bool:
        """A reading that allows null keeps it; else one that allows it to be absent drops it."""
        may_be_absent = False
        for reading in readings:
            declared = [inner for part in reading for inner in _named(part, "properties", name)]
            if not declared:
                continue
            if all(admits_null(one, root=self._root) for one in declared):
                return False
            required = any(name in _list(part, "required") for part in reading)
            may_be_absent = may_be_absent or not required
        return may_be_absent

    def _readings(
        self, schema: JsonValue, value: JsonValue, seen: frozenset[str]
    ) -> list[_Reading]:
        """The ways to read a schema for a value: one choice of branches each."""
        if not isinstance(schema, dict):
            return [[]]
        readings: list[_Reading] = [[schema]]
        for key in REFERENCES:
            reference = schema.get(key)
            if isinstance(reference, str) and reference not in seen:
                target = referred(self._root, reference)
                readings = _joined(readings, self._readings(target, value, seen | {reference}))
        for member in _list(schema, "allOf"):
            readings = _joined(readings, self._readings(member, value, seen))
        for key in ("anyOf", "oneOf"):
            branches = _list(schema, key)
            fitting = [one for one in branches if self._fits(one, value, frozenset())]
            options: list[_Reading] = []
            for branch in fitting or branches:
                if len(options) < _READINGS:
                    options += self._readings(branch, value, seen)
            readings = _joined(readings, options or [[]])
        return readings

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
        if any(name not in value for name in _list(schema, "required")):
            return False
        declared = schema.get("properties")
        declared = declared if isinstance(declared, dict) else {}
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            undeclared = value.keys() - declared.keys()
            if undeclared:
                return False
        return all(
            value.get(name) is None or _allows(inner, value[name])
            for name, inner in declared.items()
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


def _joined(readings: list[_Reading], others: list[_Reading]) -> list[_Reading]:
    return [one + other for one in readings for other in others][:_READINGS]


def _together(readings: list[_Reading], key: str | int) -> JsonValue:
    """The schema of an item or a property, put together from all readings of what holds it."""
    options: list[JsonValue] = []
    for reading in readings:
        parts: list[JsonValue] = [inner for part in reading for inner in _inside(part, key)]
        if parts and {"allOf": parts} not in options:
            options.append({"allOf": parts})
    return {"anyOf": options}


def _inside(schema: Schema, key: str | int) -> list[JsonValue]:
    if isinstance(key, int):
        prefix = _list(schema, "prefixItems")
        if key < len(prefix):
            return [prefix[key]]
        return [schema["items"]] if "items" in schema else []
    declared = _named(schema, "properties", key)
    if declared:
        return declared
    patterns = schema.get("patternProperties")
    others = list(patterns.values()) if isinstance(patterns, dict) else []
    others += [schema["additionalProperties"]] if "additionalProperties" in schema else []
    # Which of several patterns a name matches is the validator's to say: all are looked at.
    return others if len(others) < 2 else [{"anyOf": others}]  # noqa: PLR2004


def _named(schema: Schema, keyword: str, name: str) -> list[JsonValue]:
    held = schema.get(keyword)
    return [held[name]] if isinstance(held, dict) and name in held else []


def _list(schema: Schema, keyword: str) -> list[JsonValue]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
