"""Nulls that mean absent, and nulls that are values."""

from typing import Any

import pytest

from turnstream.core.nulls import Given, without_added_nulls

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
LOOKUP_ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "additionalProperties": False,
    "properties": {
        "order_id": {"type": "string", "pattern": "^A-[0-9]+$"},
        "expand": {"type": ["string", "null"]},
    },
}


@pytest.mark.parametrize(
    ("schema", "arguments", "expected", "dropped"),
    [
        (LIST_ORDERS, {"status": "open", "after": None}, {"status": "open"}, ("/after",)),
        (LIST_ORDERS, {"status": "open"}, {"status": "open"}, ()),
        (LIST_ORDERS, {"status": "open", "after": ""}, {"status": "open", "after": ""}, ()),
        (LIST_ORDERS, {"after": "null"}, {"after": "null"}, ()),
        (LOOKUP_ORDER, {"order_id": "A-1", "expand": None}, None, ()),
        (LOOKUP_ORDER, {"order_id": None}, None, ()),
        (LIST_ORDERS, {"unknown": None}, None, ()),
        (LIST_ORDERS, {"tags": [None]}, None, ()),
        (
            LIST_ORDERS,
            {"status": "open", "limit": None, "after": None, "tags": None},
            {"status": "open"},
            ("/limit", "/after", "/tags"),
        ),
    ],
)
def test_null_is_absent_only_where_it_can_be_nothing_else(
    schema: dict[str, Any],
    arguments: dict[str, Any],
    expected: dict[str, Any] | None,
    dropped: tuple[str, ...],
) -> None:
    """An optional property that does not allow null; all else stays for the schema to judge."""
    before = repr(arguments)

    given = without_added_nulls(arguments, schema=schema)

    assert Given(arguments if expected is None else expected, dropped) == given
    assert before == repr(arguments)


def test_nested_objects_arrays_and_maps_are_followed() -> None:
    """Wherever the schema declares an object, and nowhere else."""
    inner: dict[str, Any] = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": True, "b/c": {"type": "string"}},
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "one": {"$ref": "#/$defs/inner"},
            "many": {"type": "array", "prefixItems": [inner], "items": {"allOf": [inner]}},
            "free": {"type": "object"},
            "loose": {"type": "array"},
            "map": {"type": "object", "additionalProperties": inner},
            "maps": {
                "type": "object",
                "patternProperties": {"^x": inner},
                "additionalProperties": {"type": "integer"},
            },
        },
        "$defs": {"inner": inner},
    }
    bad: dict[str, Any] = {"a": None, "b/c": None}
    good = {"a": None}

    given = without_added_nulls(
        {
            "one": bad,
            "many": [bad, bad, 7],
            "free": bad,
            "loose": [bad],
            "map": {"k": bad},
            "maps": {"x1": bad, "y": 2},
        },
        schema=schema,
    )

    assert {
        "one": good,
        "many": [good, good, 7],
        "free": bad,
        "loose": [bad],
        "map": {"k": good},
        "maps": {"x1": good, "y": 2},
    } == given.arguments
    assert (
        "/one/b~1c",
        "/many/0/b~1c",
        "/many/1/b~1c",
        "/map/k/b~1c",
        "/maps/x1/b~1c",
    ) == given.dropped


def branch(kind: Any, required: list[str], **properties: Any) -> dict[str, Any]:
    """A closed object with a constant kind."""
    return {
        "type": "object",
        "properties": {"kind": kind, **properties},
        "required": ["kind", *required],
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
NULLABLE = {"type": ["string", "null"]}
UNION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "by": {
            "anyOf": [
                branch({"const": "optional"}, [], p=TEXT),
                branch({"const": "nullable"}, ["p"], p=NULLABLE),
                branch({"enum": ["required", True]}, ["p"], p=TEXT),
                {"$ref": "#/$defs/other"},
                {"type": "array"},
                False,
            ]
        }
    },
    "$defs": {"other": branch({"const": "other"}, [], q=TEXT)},
}


@pytest.mark.parametrize(
    ("value", "dropped"),
    [
        ({"kind": "optional", "p": None}, ("/by/p",)),
        ({"kind": "nullable", "p": None}, ()),
        ({"kind": "required", "p": None}, ()),
        ({"kind": True, "p": None}, ()),
        ({"kind": "other", "q": None}, ("/by/q",)),
        # Nothing fits: a branch that allows null keeps it, else one that may do without drops it.
        ({"kind": 1, "p": None}, ()),
        ({"kind": 1, "q": None}, ("/by/q",)),
        ({"p": None}, ()),
        ([{"p": None}], ()),
    ],
)
def test_in_a_union_the_branch_that_is_meant_decides(value: Any, dropped: tuple[str, ...]) -> None:
    """Told by constants, by what is required, and by which names are allowed."""
    assert dropped == without_added_nulls({"by": value}, schema=UNION).dropped


def test_branches_that_cannot_be_told_apart_keep_a_null_that_one_of_them_allows() -> None:
    """When nothing tells the branches apart, no value is lost."""
    schema: dict[str, Any] = {
        "type": "object",
        "oneOf": [
            True,
            {"properties": {"a": NULLABLE, "b": TEXT, "c": {"enum": 3}, "d": False}},
            {"properties": {"a": TEXT, "b": True, "c": True}},
            {"type": "object", "properties": {"b": TEXT}, "patternProperties": {"^a$": TEXT}},
        ],
    }

    given = without_added_nulls({"a": None, "b": None, "c": 1}, schema=schema)

    assert Given({"a": None, "b": None, "c": 1}, ()) == given


def test_a_schema_that_contains_itself_ends_with_the_arguments() -> None:
    """Recursion follows the data; a reference to itself on the spot says nothing new."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"name": TEXT, "next": {"$ref": "#"}},
        "$ref": "#/$defs/loop",
        "anyOf": [{"$ref": "#/$defs/loop"}],
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }

    given = without_added_nulls({"next": {"next": {"name": None}, "name": "a"}}, schema=schema)

    assert Given({"next": {"next": {}, "name": "a"}}, ("/next/next/name",)) == given


def test_references_that_lead_nowhere_declare_nothing() -> None:
    """What cannot be read is left to the validator."""
    schema: dict[str, Any] = {
        "type": "object",
        "anyOf": [{"$ref": "#/nowhere"}],
        "properties": {"a": TEXT},
    }

    assert ("/a",) == without_added_nulls({"a": None}, schema=schema).dropped


def test_depth_and_unions_are_bounded() -> None:
    """Deep arguments are handed on as they are; unions inside unions multiply to a limit."""
    node: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "next": {"$ref": "#"}}}
    deep: dict[str, Any] = {"a": None}
    for _ in range(1000):
        deep = {"next": deep}
    union: dict[str, Any] = {"anyOf": [{"properties": {"a": TEXT}}] * 20}
    wide: dict[str, Any] = {"type": "object", "allOf": [union] * 20}

    others: list[Any] = [{"$ref": f"#/$defs/{number}"} for number in range(40)]
    tangle: dict[str, Any] = {
        "type": "object",
        "properties": {"a": TEXT},
        "anyOf": others,
        "$defs": {str(number): {"anyOf": others} for number in range(40)},
    }

    assert () == without_added_nulls(deep, schema=node).dropped
    assert ("/a",) == without_added_nulls({"a": None}, schema=tangle).dropped
    assert ("/a",) == without_added_nulls({"a": None}, schema=wide).dropped
