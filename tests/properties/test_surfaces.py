"""Schemas on surfaces lose nothing: what is valid there is valid here, and comes back as it was."""

import copy
from typing import Any

import jsonschema_rs
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.core.nulls import without_added_nulls
from turnstream.core.wordings import for_gemini, for_openai, for_openai_strict

NAMES = st.sampled_from(["a", "b", "c/d", "kind"])
DEFINED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

SCALARS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.sampled_from(["", "null", "x"])),
    ({"type": "string", "pattern": "^x", "minLength": 2}, st.sampled_from(["xx", "xyz"])),
    ({"type": "integer", "minimum": 1, "maximum": 3}, st.integers(1, 3)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["string", "null"]}, st.sampled_from(["x", None])),
    ({"enum": ["one", "two"]}, st.sampled_from(["one", "two"])),
    ({"enum": ["one", None]}, st.sampled_from(["one", None])),
    ({"const": 7}, st.just(7)),
    ({"$ref": "#/$defs/defined", "description": "D."}, st.just({"a": "x"})),
]

Pair = tuple[dict[str, Any], Any]
"""A schema and a value that satisfies it."""


@st.composite
def scalars(draw: st.DrawFn) -> Pair:
    """A schema without parts."""
    schema, values = draw(st.sampled_from(SCALARS))
    return copy.deepcopy(schema), draw(values)


def allows_null(schema: dict[str, Any]) -> bool:
    """Whether null satisfies one of the schemas that are made here."""
    return "null" in schema.get("type", ()) or None in schema.get("enum", ())


@st.composite
def objects(draw: st.DrawFn, parts: st.SearchStrategy[Pair]) -> Pair:
    """An object with required and optional properties, the optional ones given or not.

    One that allows null is always given: in strict mode, absent and null are then the same.
    """
    pairs = draw(st.dictionaries(NAMES, parts, min_size=1))
    optional = draw(st.sets(st.sampled_from(sorted(pairs))))
    absent = {name for name in optional if not allows_null(pairs[name][0]) and draw(st.booleans())}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: part for name, (part, _) in pairs.items()},
        "required": sorted(pairs.keys() - optional),
        "additionalProperties": False,
    }
    return schema, {name: value for name, (_, value) in pairs.items() if name not in absent}


@st.composite
def unions(draw: st.DrawFn, parts: st.SearchStrategy[Pair]) -> Pair:
    """Objects that a constant tells apart."""
    pairs = draw(st.lists(objects(parts), min_size=2, max_size=3))
    for index, (schema, value) in enumerate(pairs):
        schema["properties"]["kind"] = {"const": f"k{index}"}
        schema["required"] = sorted({*schema["required"], "kind"})
        value["kind"] = f"k{index}"
    return {"anyOf": [schema for schema, _ in pairs]}, draw(st.sampled_from(pairs))[1]


@st.composite
def arrays(draw: st.DrawFn, parts: st.SearchStrategy[Pair]) -> Pair:
    """Equal items."""
    schema, value = draw(parts)
    return {"type": "array", "items": schema, "maxItems": 3}, [value] * draw(st.integers(0, 3))


PARTS = st.recursive(
    scalars(),
    lambda parts: objects(parts) | unions(parts) | arrays(parts),
    max_leaves=8,
)


@st.composite
def tools(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """An input schema and valid arguments."""
    schema, value = draw(objects(PARTS))
    return {**schema, "$defs": {"defined": copy.deepcopy(DEFINED)}}, value


def strictly(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> Any:
    """A value as a strict model says it: null for every declared property that is absent."""
    if "$ref" in schema:
        return strictly(root["$defs"]["defined"], value, root)
    if "anyOf" in schema:
        for branch in schema["anyOf"]:
            if branch["properties"]["kind"]["const"] == value["kind"]:
                return strictly(branch, value, root)
    if isinstance(value, list):
        return [strictly(schema["items"], item, root) for item in value]
    if isinstance(value, dict):
        return {
            name: strictly(part, value[name], root) if name in value else None
            for name, part in schema["properties"].items()
        }
    return value


def valid(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value satisfies a schema."""
    options = jsonschema_rs.RegexOptions()
    return jsonschema_rs.Draft202012Validator(schema, pattern_options=options).is_valid(value)


@given(tools())
@settings(max_examples=60, deadline=None)
def test_what_a_strict_model_says_comes_back_as_it_was_meant(
    tool: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Valid arguments, padded with nulls, satisfy the strict schema; without them they are again
    the arguments that satisfy the registered one, which nothing has changed.
    """
    schema, arguments = tool
    before = copy.deepcopy(schema)
    said = strictly(schema, arguments, schema)

    assert valid(schema, arguments)
    assert valid(for_openai_strict("t", schema), said)
    assert arguments == without_added_nulls(said, schema=schema).arguments
    assert before == schema


@given(tools(), st.data())
@settings(max_examples=60, deadline=None)
def test_other_surfaces_accept_exactly_what_the_registered_schema_accepts(
    tool: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject
) -> None:
    """Also for arguments that are broken in some place."""
    schema, arguments = tool
    name = data.draw(st.sampled_from(sorted(schema["properties"])))
    wrong: Any = data.draw(st.sampled_from([None, "", "one", 7, 2.5, True, [], {}, {"a": None}]))

    for value in (arguments, {**arguments, name: wrong}):
        expected = valid(schema, value)
        assert expected == valid(for_gemini("t", schema), value)
        assert expected == valid(for_openai("t", schema), value)


@given(tools(), st.data())
@settings(max_examples=60, deadline=None)
def test_dropping_nulls_twice_changes_no_more_and_breaks_nothing(
    tool: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject
) -> None:
    """What is valid stays as it is; what was dropped is counted once."""
    schema, arguments = tool
    name = data.draw(st.sampled_from(sorted(schema["properties"])))

    once = without_added_nulls({**arguments, name: None}, schema=schema)
    twice = without_added_nulls(once.arguments, schema=schema)

    assert arguments == without_added_nulls(arguments, schema=schema).arguments
    assert (once.arguments, ()) == (twice.arguments, twice.dropped)
