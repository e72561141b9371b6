"""Schemas in the words of each provider, and the errors that name what cannot be said."""

import copy
from typing import Any

import pytest

from turnstream.core.dialects import (
    ANTHROPIC,
    GEMINI,
    MCP,
    OPENAI,
    OPENAI_STRICT,
    PROMPT,
    Dialect,
    SurfaceError,
)
from turnstream.core.errors import DefinitionError
from turnstream.core.schema_tree import Schema
from turnstream.core.wordings import for_gemini, for_openai, for_openai_strict

NULL: dict[str, Any] = {"type": "null"}
TEXT: dict[str, Any] = {"type": "string"}


def arguments(**properties: Any) -> dict[str, Any]:
    """A closed schema whose arguments are all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    """A closed object with optional properties."""
    return {**arguments(**properties), "required": list(required)}


# --- OpenAI, strict -----------------------------------------------------------------------------

LIST_ORDERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "status": {"enum": ["open", "closed"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50},
        "after": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def test_strict_requires_every_property_and_makes_the_optional_ones_nullable() -> None:
    """The copy for the provider; the registered schema is not touched."""
    before = copy.deepcopy(LIST_ORDERS)

    strict = for_openai_strict("list_orders", LIST_ORDERS)

    assert {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "status": {"type": ["string", "null"], "enum": ["open", "closed", None]},
            "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 50},
            "after": {"type": ["string", "null"]},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["status", "limit", "after", "tags"],
    } == strict
    assert before == LIST_ORDERS


@pytest.mark.parametrize(
    ("optional", "expected"),
    [
        (TEXT, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["null"]}, {"type": ["null"]}),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"type": "string", "enum": ["a", None]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"enum": [1, 1.5]}, {"type": ["number", "null"], "enum": [1, 1.5, None]}),
        ({"enum": [True]}, {"type": ["boolean", "null"], "enum": [True, None]}),
        ({"enum": [None]}, {"type": "null", "enum": [None]}),
        (
            {"const": "a", "description": "A."},
            {"anyOf": [{"type": "string", "const": "a"}, NULL], "description": "A."},
        ),
        ({"const": None}, {"type": "null", "const": None}),
        ({"anyOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}, NULL]}),
        ({"anyOf": [TEXT, NULL]}, {"anyOf": [TEXT, NULL]}),
        ({"$ref": "#/$defs/d"}, {"anyOf": [{"$ref": "#/$defs/d"}, NULL]}),
        (
            {"$ref": "#/$defs/d", "description": "D."},
            {"anyOf": [{"$ref": "#/$defs/d"}, NULL], "description": "D."},
        ),
        ({"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}),
        ({"type": "string", "default": None}, {"type": ["string", "null"]}),
        (
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["b"]},
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"a": {"type": ["string", "null"]}, "b": TEXT},
                        "required": ["a", "b"],
                        "additionalProperties": False,
                    },
                    NULL,
                ]
            },
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"anyOf": [arguments(), NULL]},
        ),
    ],
)
def test_an_optional_property_allows_null_beside_what_it_allows(
    optional: Any, expected: Any
) -> None:
    """In the form that fits: a list of types, another branch, another value; null once only."""
    definitions = {"d": TEXT, "n": {"anyOf": [TEXT, NULL]}}
    schema: dict[str, Any] = {**closed(x=optional), "$defs": definitions}

    strict = for_openai_strict("t", schema)

    assert {"x": expected} == strict["properties"]
    assert definitions == strict["$defs"]


def test_objects_are_closed_wherever_they_stand() -> None:
    """In items, in branches and in definitions; asides are left out, annotations stay."""
    inner: dict[str, Any] = {
        "type": "object",
        "properties": {"a": TEXT},
        "$comment": "why",
        "x-team": "billing",
    }
    shut = {**closed(a={"type": ["string", "null"]}), "required": ["a"]}
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Arguments",
        "required": ["many", "either", "same"],
        "properties": {
            "many": {"type": "array", "items": inner, "minItems": 1, "description": "Many."},
            "either": {"anyOf": [inner, TEXT], "title": "Either"},
            "same": {"$ref": "#"},
        },
        "$defs": {"inner": inner},
        "definitions": {"old": inner},
    }

    assert {
        "type": "object",
        "title": "Arguments",
        "required": ["many", "either", "same"],
        "properties": {
            "many": {"type": "array", "items": shut, "minItems": 1, "description": "Many."},
            "either": {"anyOf": [shut, TEXT], "title": "Either"},
            "same": {"$ref": "#"},
        },
        "$defs": {"inner": shut},
        "definitions": {"old": shut},
        "additionalProperties": False,
    } == for_openai_strict("t", schema)


def test_a_tool_without_arguments_has_an_empty_object() -> None:
    """Whether or not the schema says that it has no properties."""
    assert arguments() == for_openai_strict("t", {"type": "object"})
    assert arguments() == for_openai_strict("t", arguments())


def deep(levels: int) -> dict[str, Any]:
    """Objects inside objects."""
    schema: dict[str, Any] = TEXT
    for _ in range(levels):
        schema = arguments(x=schema)
    return schema


NOT_STRICT: list[tuple[Any, str, str]] = [
    (arguments(x={"oneOf": [TEXT]}), "/properties/x", "oneOf"),
    (arguments(x={"allOf": [TEXT]}), "/properties/x", "allOf"),
    (
        arguments(x={"type": "array", "items": TEXT, "uniqueItems": True}),
        "/properties/x",
        "uniqueItems",
    ),
    (arguments(x={"type": "array", "prefixItems": [TEXT]}), "/properties/x", "prefixItems"),
    (arguments(x={**TEXT, "format": "uri"}), "/properties/x", "format"),
    (arguments(x={**TEXT, "default": "a"}), "/properties/x", "default"),
    (arguments(x=True), "/properties/x", "type"),
    (arguments(x={"description": "Anything."}), "/properties/x", "type"),
    (arguments(x={"type": ["string", "integer"]}), "/properties/x", "type"),
    (arguments(x={"type": "array"}), "/properties/x", "items"),
    (arguments(x={"type": "array", "items": True}), "/properties/x", "items"),
    (arguments(x={"type": "array", "items": {}}), "/properties/x/items", "type"),
    (arguments(x={"type": "object"}), "/properties/x", "properties"),
    (
        arguments(x={"type": "object", "additionalProperties": TEXT}),
        "/properties/x",
        "additionalProperties",
    ),
    ({"type": "object", "additionalProperties": True}, "", "additionalProperties"),
    (
        arguments(x={"type": "object", "properties": {"a": TEXT}, "required": ["b"]}),
        "/properties/x",
        "required",
    ),
    (arguments(x={"anyOf": [TEXT], "minLength": 2}), "/properties/x", "anyOf"),
    ({**arguments(x=TEXT), "anyOf": [{"required": ["x"]}]}, "", "anyOf"),
    (arguments(x={"$ref": "#/properties/y"}, y=TEXT), "/properties/x", "$ref"),
    (
        {**arguments(x={"$ref": "#/$defs/d", "minLength": 1}), "$defs": {"d": TEXT}},
        "/properties/x",
        "$ref",
    ),
    (arguments(x={"enum": ["a", 1]}), "/properties/x", "enum"),
    (arguments(x={"enum": [["a"]]}), "/properties/x", "enum"),
    (arguments(x={"const": {"a": 1}}), "/properties/x", "const"),
    (arguments(**{"a/b": {"type": "array"}}), "/properties/a~1b", "items"),
    (deep(11), "/properties/x" * 10, "properties"),
    (arguments(**{f"p{n}": TEXT for n in range(5001)}), "", "properties"),
    (arguments(**{"p" * 120_001: TEXT}), "", "properties"),
    (arguments(x={"type": "integer", "enum": list(range(1001))}), "/properties/x", "enum"),
    (arguments(x={"enum": [f"{n}" * 30 for n in range(300)]}), "/properties/x", "enum"),
]


@pytest.mark.parametrize(("schema", "place", "keyword"), NOT_STRICT)
def test_what_strict_cannot_say_is_named(schema: Any, place: str, keyword: str) -> None:
    """Tool, JSON pointer and keyword, as an error of the catalog."""
    with pytest.raises(DefinitionError) as raised:
        for_openai_strict("list_orders", schema)

    error = raised.value
    assert isinstance(error, SurfaceError)
    assert ("list_orders", "openai (strict)", place, keyword) == (
        error.tool,
        error.surface,
        error.pointer,
        error.keyword,
    )
    at = f" at {place}" if place else ""
    assert str(error).startswith(
        f"tools.list_orders.input_schema{at}: {keyword}: openai (strict): "
    )


def test_the_largest_strict_schema_is_accepted() -> None:
    """Limits are those of the provider, not one less."""
    for schema in (
        deep(10),
        arguments(**{f"p{n}": TEXT for n in range(5000)}),
        arguments(x={"type": "integer", "enum": list(range(1000))}),
        arguments(x={"enum": ["a" * 60 * n for n in range(1, 23)]}),
    ):
        assert "object" == for_openai_strict("t", schema)["type"]


# --- OpenAI -------------------------------------------------------------------------------------


def test_without_strict_a_schema_goes_as_it_is() -> None:
    """Only what OpenAI misses is added: items of arrays, properties at the top."""
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": True,
        "properties": {
            "a": {"type": "array"},
            "b": {"type": "object", "oneOf": [True, {"items": TEXT, "type": ["array", "null"]}]},
        },
    }

    assert {
        **schema,
        "properties": {**schema["properties"], "a": {"type": "array", "items": {}}},
    } == for_openai("t", schema)
    assert {"type": "object", "properties": {}} == for_openai("t", {"type": "object"})


# --- Gemini -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, True),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"const": None, "title": "N"}, {"anyOf": [NULL], "title": "N"}),
        (
            {"type": ["string", "null"], "enum": ["a", None], "default": None, "description": "A."},
            {
                "anyOf": [{"type": "string", "enum": ["a"]}, NULL],
                "default": None,
                "description": "A.",
            },
        ),
        (
            {"type": ["string", "integer"], "enum": ["a", 1, None]},
            {"anyOf": [{"type": ["string", "integer"], "enum": ["a", 1]}]},
        ),
        (
            {"type": ["string", "null"], "pattern": "a"},
            {"type": ["string", "null"], "pattern": "a"},
        ),
        (
            {"$ref": "#/$defs/d", "description": "D.", "$comment": "why"},
            {"anyOf": [{"$ref": "#/$defs/d"}], "description": "D."},
        ),
        ({"$ref": "#/$defs/d", "$anchor": "d"}, {"$ref": "#/$defs/d", "$anchor": "d"}),
        (
            {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2.5}},
            {
                "type": "array",
                "prefixItems": [{"type": "integer", "enum": [1]}],
                "items": {"type": "number", "enum": [2.5]},
            },
        ),
    ],
)
def test_gemini_is_told_the_same_in_its_words(schema: Any, expected: Any) -> None:
    """Constants and null become values and branches."""
    definitions: dict[str, Any] = {"d": TEXT, "e": {"$ref": "#/$defs/d"}}
    whole: dict[str, Any] = {
        **arguments(x=schema, y={"$ref": "#/$defs/e"}, z={"$ref": "#/$defs/e"})
    }

    said: Any = for_gemini("t", {**whole, "$defs": definitions})

    assert {"x": expected} == {"x": said["properties"]["x"]}
    assert definitions == said["$defs"]


@pytest.mark.parametrize(
    ("schema", "place", "keyword"),
    [
        (arguments(x={"oneOf": [TEXT]}), "/properties/x", "oneOf"),
        (
            arguments(x={"type": "number", "exclusiveMinimum": 0}),
            "/properties/x",
            "exclusiveMinimum",
        ),
        (arguments(x={"type": "string", "format": "email"}), "/properties/x", "format"),
        (arguments(x={"type": "boolean", "enum": [True]}), "/properties/x", "enum"),
        (arguments(x={"type": "string", "enum": [None]}), "/properties/x", "enum"),
        (arguments(x={"enum": ["a", 1]}), "/properties/x", "enum"),
        (arguments(x={"const": "a", "enum": ["a"]}), "/properties/x", "const"),
        (
            {**arguments(x={"$ref": "#/$defs/d", "minLength": 1}), "$defs": {"d": TEXT}},
            "/properties/x",
            "$ref",
        ),
        (arguments(x={"anyOf": [{"$ref": "#"}, NULL]}), "/properties/x/anyOf/0", "$ref"),
        (
            {**arguments(x={"$ref": "#/$defs/d"}), "$defs": {"d": closed(y={"$ref": "#/$defs/d"})}},
            "/$defs/d/properties/y",
            "$ref",
        ),
    ],
)
def test_what_gemini_cannot_be_told_is_named(schema: Any, place: str, keyword: str) -> None:
    """A schema that refers to itself among it: Gemini follows it to a limited depth only."""
    with pytest.raises(SurfaceError) as raised:
        for_gemini("t", schema)

    assert (place, keyword) == (raised.value.pointer, raised.value.keyword)


# --- names and the top --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "good", "bad"),
    [
        (OPENAI, ["a", "A-1_b", "x" * 64], ["", "x" * 65, "a.b", "a b", "é", "a\n"]),
        (OPENAI_STRICT, ["a", "x" * 64], ["x" * 65, "a:b"]),
        (ANTHROPIC, ["a", "x" * 128], ["x" * 129, "a.b"]),
        (GEMINI, ["_a", "a.b:c-d", "x" * 64], ["x" * 65, "1a", "-a", "a/b"]),
        (MCP, ["1", "a.b-c", "x" * 128], ["x" * 129, "a/b", "a b"]),
        (PROMPT, ["a/b:c.d", "x" * 128], ["x" * 129, "a b", "a\nb"]),
    ],
)
def test_names_of_tools_are_those_that_the_provider_accepts(
    dialect: Dialect, good: list[str], bad: list[str]
) -> None:
    """Characters and length; another is an error before anything starts."""
    for name in good:
        dialect.check(name, {"type": "object"})
    for name in bad:
        with pytest.raises(SurfaceError, match="rename the tool") as raised:
            dialect.check(name, {"type": "object"})
        assert ("name", "") == (raised.value.keyword, raised.value.pointer)


@pytest.mark.parametrize(
    ("dialect", "refused"),
    [
        (OPENAI, {"allOf", "anyOf", "const", "enum", "not", "oneOf"}),
        (ANTHROPIC, {"allOf", "anyOf", "oneOf"}),
        (MCP, set()),
        (PROMPT, set()),
    ],
)
def test_what_is_refused_at_the_top_only(dialect: Dialect, refused: set[str]) -> None:
    """The same keyword inside a property is accepted."""
    for keyword in ("allOf", "anyOf", "const", "enum", "if", "not", "oneOf"):
        schema: Schema = {"type": "object", keyword: [TEXT]}
        dialect.check("t", arguments(x=dict(schema)))
        if keyword in refused:
            with pytest.raises(SurfaceError, match=keyword):
                dialect.check("t", schema)
        else:
            dialect.check("t", schema)


def test_names_of_arguments_are_those_that_the_provider_accepts() -> None:
    """Anthropic refuses the whole request for one; a prompt would be misread."""
    for dialect, name in ((ANTHROPIC, "filter[id]"), (ANTHROPIC, "x" * 65), (PROMPT, "a: b")):
        with pytest.raises(SurfaceError) as raised:
            dialect.check("t", arguments(**{name: TEXT}))
        assert ("properties", name) == raised.value.place
        assert "name" == raised.value.keyword
    ANTHROPIC.check("t", {"type": "object"})
    MCP.check("t", arguments(**{"filter[id]": TEXT}))
