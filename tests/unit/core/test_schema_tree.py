"""Reading JSON Schemas as trees."""

from typing import Any

import pytest

from turnstream.core.schema_tree import (
    admits_null,
    children,
    pointer,
    rebuilt,
    referred,
    types,
    walk,
)

TREE: dict[str, Any] = {
    "$defs": {"a": {"$anchor": "here", "type": "string"}, "b": True},
    "properties": {"x": {"items": {"type": "integer"}}},
    "anyOf": [{"const": 1}, False],
    "enum": [{"not": "a schema"}],
    "items": False,
}


def test_pointers_escape_their_parts() -> None:
    """A slash and a tilde inside a name are no separators."""
    assert "/a~1b/0/~0c" == pointer(("a/b", 0, "~c"))
    assert "" == pointer(())


def test_every_schema_is_walked_with_its_place() -> None:
    """Schemas are found wherever a keyword holds one; values of `enum` are data."""
    assert {
        ("$defs", "a"),
        ("$defs", "b"),
        ("properties", "x"),
        ("anyOf", 0),
        ("anyOf", 1),
        ("items",),
    } == {place for place, _ in children(TREE)}
    assert {
        (),
        ("$defs", "a"),
        ("properties", "x"),
        ("properties", "x", "items"),
        ("anyOf", 0),
    } == {place for place, _ in walk(TREE)}


def test_a_rebuilt_schema_has_its_schemas_converted_and_all_else_kept() -> None:
    """Places are those in the whole document."""
    places: list[object] = []

    def convert(_: Any, place: tuple[str | int, ...]) -> Any:
        places.append(place)
        return "converted"

    result = rebuilt(TREE, ("top",), convert)

    assert {
        "$defs": {"a": "converted", "b": "converted"},
        "properties": {"x": "converted"},
        "anyOf": ["converted", "converted"],
        "enum": [{"not": "a schema"}],
        "items": "converted",
    } == result
    assert ("top", "anyOf", 1) in places


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#", TREE),
        ("#/$defs/a", TREE["$defs"]["a"]),
        ("#/anyOf/0", {"const": 1}),
        ("#/anyOf/1", False),
        ("#here", TREE["$defs"]["a"]),
        ("#nowhere", None),
        ("#/$defs/none", None),
        ("#/anyOf/7", None),
        ("#/anyOf/x", None),
        ("#/items/x", None),
        ("other.json#/a", None),
    ],
)
def test_references_lead_inside_the_document(reference: str, expected: object) -> None:
    """By pointer or by anchor; what leads nowhere gives None."""
    assert expected == referred(TREE, reference)


def test_escaped_names_are_found() -> None:
    """A pointer may name a definition with a slash."""
    assert referred({"$defs": {"a/b~": True}}, "#/$defs/a~1b~0") is True


def test_types_are_a_list_in_any_case() -> None:
    """One type, several, or none."""
    assert ("string",) == types({"type": "string"})
    assert ("string", "null") == types({"type": ["string", "null"]})
    assert () == types({"enum": [1]})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, True),
        (False, False),
        ({}, True),
        ({"minLength": 3, "properties": {"a": False}}, True),
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        ({"enum": ["a"]}, False),
        ({"enum": ["a", None]}, True),
        ({"const": "a"}, False),
        ({"const": None}, True),
        ({"$ref": "#/$defs/text"}, False),
        ({"$ref": "#/$defs/nothing"}, True),
        ({"$ref": "#/$defs/absent"}, True),
        ({"$ref": "#/$defs/loop"}, True),
        ({"$dynamicRef": "#/$defs/text"}, False),
        ({"allOf": [{}, {"type": "string"}]}, False),
        ({"allOf": [{}, {"type": "null"}]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, False),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"oneOf": [{}, {"type": "null"}]}, False),
        ({"not": {"type": "null"}}, False),
        ({"not": {"type": "string"}}, True),
        ({"if": {"type": "null"}, "then": {"type": "string"}}, False),
        ({"if": {"type": "null"}, "else": {"type": "string"}}, True),
        ({"if": {"type": "string"}, "else": {"type": "string"}}, False),
    ],
)
def test_null_is_judged_by_every_keyword_that_can_judge_it(schema: Any, expected: bool) -> None:
    """Exactly as a validator would; a reference that leads nowhere is left to the validator."""
    root: dict[str, Any] = {
        "$defs": {
            "text": {"type": "string"},
            "nothing": {"type": "null"},
            "loop": {"$ref": "#/$defs/loop"},
        }
    }

    assert expected == admits_null(schema, root=root)
