"""Tests of turnstream.core.whole_numbers."""

from typing import Any

import pytest
from pydantic import JsonValue

from turnstream.core.whole_numbers import with_whole_numbers

INTEGER: dict[str, JsonValue] = {"type": "integer"}


def properties(**inner: Any) -> dict[str, JsonValue]:
    """An object schema."""
    return {"type": "object", "properties": inner}


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (properties(a=INTEGER), 3.0, 3),
        (properties(a=INTEGER), -0.0, 0),
        (properties(a={"type": ["integer", "null"]}), 3.0, 3),
        (properties(a={"type": "number"}), 3.0, 3.0),
        (properties(a={"type": ["integer", "number"]}), 3.0, 3.0),
        (properties(a={}), 3.0, 3.0),
        (properties(a=True), 3.0, 3.0),
        (properties(), 3.0, 3.0),
        ({"type": "object"}, 3.0, 3.0),
        (properties(a=INTEGER), 3.5, 3.5),
        (properties(a=INTEGER), 1e300, 1e300),
        (properties(a=INTEGER), "3.0", "3.0"),
        (properties(a=INTEGER), True, True),
        (properties(a={"anyOf": [INTEGER, {"type": "null"}]}), 3.0, 3),
        (properties(a={"oneOf": [INTEGER, {"type": "number"}]}), 3.0, 3.0),
        (properties(a={"allOf": "odd"}), 3.0, 3.0),
        ({"$defs": {"n": INTEGER}, **properties(a={"$ref": "#/$defs/n"})}, 3.0, 3),
        (properties(a={"$ref": "#/nowhere"}), 3.0, 3.0),
        (properties(a={"items": INTEGER}), [1.0, 2.5], [1, 2.5]),
        (properties(a={"prefixItems": [{}, INTEGER], "items": {}}), [1.0, 2.0, 3.0], [1.0, 2, 3.0]),
        (properties(a=properties(b=INTEGER)), {"b": 2.0, "c": 2.0}, {"b": 2, "c": 2.0}),
        (properties(a={"additionalProperties": INTEGER}), {"b": 2.0}, {"b": 2}),
    ],
)
def test_whole_numbers(schema: dict[str, JsonValue], given: JsonValue, expected: JsonValue) -> None:
    """Only where the schema wants integers and nothing else, and only without loss."""
    found = with_whole_numbers({"a": given}, schema=schema)["a"]

    assert (expected, type(expected)) == (found, type(found))
    assert repr(expected) == repr(found)


def test_a_schema_that_refers_to_itself() -> None:
    """It is followed as deep as the arguments go, within a bound."""
    schema = properties(n=INTEGER, inner={"$ref": "#"}, both={"anyOf": [{"$ref": "#"}] * 2})
    deep: dict[str, JsonValue] = {"n": 1.0}
    for _ in range(100):
        deep = {"n": 2.0, "inner": deep, "both": {"n": 1.0}}

    found = with_whole_numbers(deep, schema=schema)

    assert isinstance(found["n"], int)
    assert isinstance(found["inner"]["n"], int)  # type: ignore[index,call-overload]
    assert isinstance(found["both"]["n"], int)  # type: ignore[index,call-overload]
    assert deep == found
