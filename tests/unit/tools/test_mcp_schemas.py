"""When two input schemas are the same, and where they first differ."""

from typing import Any

import pytest

from turnstream.tools.mcp_schemas import difference, form_of, listing

OURS: dict[str, Any] = {
    "type": "object",
    "required": ["a", "b"],
    "properties": {
        "a": {"type": ["string", "null"], "description": "An a."},
        "b": {"$ref": "#/$defs/b"},
        "title": {"enum": [1, "x"]},
    },
    "$defs": {"b": {"type": "integer", "minimum": 1}},
}


def test_words_and_order_do_not_count() -> None:
    """They change no call."""
    theirs: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "toolArguments",
        "$defs": {"b": {"minimum": 1, "type": "integer", "title": "B", "examples": [3]}},
        "properties": {
            "title": {"enum": ["x", 1], "title": "Title", "x-mcp-header": "Title"},
            "b": {"$ref": "#/$defs/b", "$comment": "see there"},
            "a": {"type": ["null", "string"]},
        },
        "required": ["b", "a"],
        "type": "object",
    }

    assert difference(OURS, theirs) is None
    assert form_of(OURS) == form_of(theirs)
    assert difference({"required": []}, {}) is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"required": ["a"]}, "/required"),
        ({"additionalProperties": False}, "/additionalProperties"),
        ({"properties": {**OURS["properties"], "c": {}}}, "/properties/c"),
        ({"properties": {"a": {}, "b": {}}}, "/properties/a/type"),
        ({"$defs": {"b": {"type": "integer", "minimum": 2}}}, "/$defs/b/minimum"),
        ({"$defs": {"b": True}}, "/$defs/b"),
        ({"default": {}}, "/default"),
    ],
)
def test_everything_else_does(change: dict[str, Any], place: str) -> None:
    """A new argument, another bound, another default."""
    assert place == difference(OURS, {**OURS, **change})


def test_a_property_may_be_named_like_a_keyword() -> None:
    """`title` among the properties is an argument."""
    without = {**OURS, "properties": {k: OURS["properties"][k] for k in ("a", "b")}}

    assert "/properties/title" == difference(OURS, without)


def test_a_list_has_a_version() -> None:
    """Of all that it says, words included."""
    one, other = (listing({"t": schema}, read_at=0) for schema in ({}, {"title": "T"}))

    assert one.version != other.version
    assert one.version == listing({"t": {}}, read_at=5).version
