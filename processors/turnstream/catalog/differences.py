"""How arguments differ from a tool's schema: for whoever wrote them, so values are shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import jsonschema_rs
from pydantic import JsonValue

from turnstream.catalog.schemas import properties, validator
from turnstream.core.schema_tree import Schema, pointer


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that a schema does not allow."""

    path: str
    """JSON pointer into the arguments."""
    keyword: str
    """The schema keyword that failed."""
    expected: JsonValue
    """What that keyword says; for `required` the missing name, for unexpected names the known."""
    found: JsonValue
    """What was there instead."""


def differences(schema: Schema, arguments: Mapping[str, JsonValue]) -> list[Difference]:
    """Everything about arguments that a schema does not allow.

    Raises:
        UnusableSchema: the schema is not one.
    """
    return [_difference(schema, error) for error in validator(schema).iter_errors(arguments)]


def _difference(schema: Schema, error: jsonschema_rs.ValidationError) -> Difference:
    place = tuple(error.schema_path)
    holder, keyword = _at(schema, place[:-1]), str(place[-1])
    expected: JsonValue = _at(schema, place)
    found = cast("JsonValue", error.instance)  # numbers too large for a float apart
    facts = error.kind.as_dict()
    if "property" in facts:  # required, dependentRequired
        expected, found = facts["property"], list(found) if isinstance(found, dict) else found
    elif "unexpected" in facts:  # additionalProperties, unevaluatedProperties
        expected = list[JsonValue](properties(holder if isinstance(holder, dict) else {}))
        found = facts["unexpected"]
    elif error.kind.name == "falseSchema":
        keyword = "false"
    return Difference(pointer(tuple(error.instance_path)), keyword, expected, found)


def _at(schema: Schema, place: tuple[str | int, ...]) -> JsonValue:
    at: JsonValue = dict(schema)
    for part in place:
        if isinstance(at, list) and isinstance(part, int):
            at = at[part]
        elif isinstance(at, dict):
            at = at[str(part)]
    return at
