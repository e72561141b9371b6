"""What schemas of tools accept, and how arguments differ from them."""

from typing import Any

import pytest

from turnstream.catalog.differences import Difference, differences
from turnstream.catalog.schemas import argument_check, unknown_formats

LOOKUP_ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "additionalProperties": False,
    "properties": {"order_id": {"type": "string"}, "expand": {"type": ["string", "null"]}},
}


@pytest.mark.parametrize("pattern", ["^A-[0-9]+$", r"^A-\d+$"])
@pytest.mark.parametrize(
    ("order_id", "accepted"),
    [("A-1\n", False), ("A-١٢", False), ("a-1", False), ("A-1 ", False), ("A-1", True)],
)
def test_patterns_mean_what_they_say(pattern: str, order_id: str, accepted: bool) -> None:
    r"""``$`` is the very end, not before a final newline; ``\d`` is ``[0-9]`` and none other."""
    schema = {**LOOKUP_ORDER, "properties": {"order_id": {"type": "string", "pattern": pattern}}}

    fault = argument_check(schema)({"order_id": order_id})

    assert accepted == (fault is None)
    assert fault is None or ("/order_id", "pattern") == (fault.path, fault.keyword)


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", "2026-02-28", "not a date"),
        ("date", "2024-02-29", "2026-02-30"),
        ("date-time", "2026-01-01T12:00:00Z", "2026-01-01"),
        ("email", "a@example.com", "a.example.com"),
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae"),
    ],
)
def test_formats_are_enforced(form: str, good: str, bad: str) -> None:
    """As the documentation says."""
    check = argument_check({"type": "object", "properties": {"x": {"format": form}}})
    fault = check({"x": bad})

    assert check({"x": good}) is None
    assert fault is not None
    assert ("/x", "format") == (fault.path, fault.keyword)


def test_formats_that_nobody_defines_are_found() -> None:
    """They are passed over when arguments are validated, so whoever wrote them must know."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "when": {"format": "date"},
            "iban": {"format": "iban"},
            "format": {"type": "string"},
        },
    }

    assert [(("properties", "iban", "format"), "iban")] == list(unknown_formats(schema))
    assert argument_check(schema)({"iban": "anything"}) is None


def test_paths_are_json_pointers() -> None:
    """A slash in a name does not look like two names."""
    fault = argument_check({"properties": {"a/b": {"type": "string"}}})({"a/b": 1})

    assert fault is not None
    assert "/a~1b" == fault.path


DIFFERENCES: list[tuple[dict[str, Any], dict[str, Any], list[Difference]]] = [
    (LOOKUP_ORDER, {"order_id": "A-1"}, []),
    (LOOKUP_ORDER, {"order_id": None}, [Difference("/order_id", "type", "string", None)]),
    (LOOKUP_ORDER, {"expand": "x"}, [Difference("", "required", "order_id", ["expand"])]),
    (
        LOOKUP_ORDER,
        {"order_id": "A-1", "orderId": "A-1"},
        [Difference("", "additionalProperties", ["order_id", "expand"], ["orderId"])],
    ),
    (
        {
            "dependentRequired": {"a": ["b"]},
            "unevaluatedProperties": False,
            "properties": {"a": True},
        },
        {"a": 1, "c": 2},
        [
            Difference("", "dependentRequired", "b", ["a", "c"]),
            Difference("", "unevaluatedProperties", ["a"], ["c"]),
        ],
    ),
    (
        {"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"enum": ["x", "y"]}}},
        {"a": "z"},
        [Difference("/a", "enum", ["x", "y"], "z")],
    ),
    ({"properties": {"a": False}}, {"a": 1}, [Difference("/a", "false", False, 1)]),
    (
        {"properties": {"a": {"prefixItems": [{"anyOf": [{"type": "string"}, {"minimum": 3}]}]}}},
        {"a": [1]},
        [Difference("/a/0", "anyOf", [{"type": "string"}, {"minimum": 3}], 1)],
    ),
]


@pytest.mark.parametrize(("schema", "arguments", "expected"), DIFFERENCES)
def test_differences_say_what_was_expected_and_what_was_there(
    schema: dict[str, Any], arguments: dict[str, Any], expected: list[Difference]
) -> None:
    """Every one of them, with path and keyword."""
    assert expected == differences(schema, arguments)
