"""Arguments in one form, and which differences between two places are declared."""

import hashlib
import json
from typing import Any

import pytest

from tests.agents import RULES
from turnstream.core.carried import (
    canonical,
    declared_part,
    differences,
    hash_of,
    undeclared_changes,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "filter": {
            "type": "object",
            "properties": {"a/b": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
        },
        "any": True,
    },
    "$defs": {"line": {"properties": {"sku": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1e2, 100),
        (-0.0, 0),
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1}),
        (2**63 - 1, 2**63 - 1),
        (1e300, 1e300),
        (1e16, 10**16),
        (1e22, 10**22),
        (1e23, 10**23),
        (-1e300, -(10**300)),
        (2.0**53 + 2, 2**53 + 2),
        (0.1, 0.1),
        ("é", "é"),
        ({}, {}),
    ],
)
def test_equal_values_are_written_alike(one: Any, other: Any) -> None:
    """In whatever order, and however their numbers are written."""
    assert () == differences(one, other)
    assert hash_of(one) == hash_of(other)


@pytest.mark.parametrize(
    ("one", "other", "paths"),
    [
        ({"a": 1}, {"a": True}, ("/a",)),
        ({"a": 1}, {"a": "1"}, ("/a",)),
        ({"a": None}, {}, ("/a",)),
        ({}, {"a/b": 1}, ("/a~1b",)),
        ({"a": [1, 2]}, {"a": [1]}, ("/a",)),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ("/a/1/b",)),
        ({"a": {}}, {"a": []}, ("/a",)),
        ({"a": "é"}, {"a": "e\u0301"}, ("/a",)),
        ({"a": 2**53}, {"a": 2**53 + 1}, ("/a",)),
        ({"a": 2.0**53}, {"a": 2**53 + 1}, ("/a",)),
        ({"a": 1e16}, {"a": 10**16 + 1}, ("/a",)),
        ({"a": 1e16}, {"a": 1e16 + 2}, ("/a",)),
        ({"a": 0.1}, {"a": 0.1 + 2**-55}, ("/a",)),
        (1, 2, ("",)),
    ],
)
def test_differences_are_told_by_place(one: Any, other: Any, paths: tuple[str, ...]) -> None:
    """The smallest part, and no equality that JSON does not know."""
    assert paths == differences(one, other)
    assert hash_of(one) != hash_of(other)


def test_the_one_form_is_compact_sorted_json() -> None:
    """So that a tool in another language can make the same hash; what is no JSON equals nothing."""
    assert '{"a":[1,0.5],"b":"é"}'.encode() == canonical({"b": "é", "a": [1.0, 0.5]})
    assert b'{"a":1e-07,"b":100000000000000000000}' == canonical({"b": 1e20, "a": 1e-7})
    assert hashlib.sha256(b'{"a":1}').hexdigest() == hash_of({"a": 1})
    assert ("/a",) == differences({"a": "x"}, {"a": object()})  # type: ignore[dict-item]


def apart(
    given: Any, arguments: dict[str, Any], *, tool: str = "list_orders", **provenance: Any
) -> tuple[str, ...]:
    """What is not explained between a model's arguments and a call's."""
    text = given if isinstance(given, str) else json.dumps(given)
    sources = dict.fromkeys(arguments, "model") | provenance
    return undeclared_changes(text, arguments, tool=tool, provenance=sources, ruleset=RULES)


@pytest.mark.parametrize(
    ("tool", "given", "arguments", "provenance"),
    [
        ("list_orders", {"limit": 3.0, "after": None}, {"limit": 3}, {}),
        ("list_orders", "", {}, {}),
        ("refund", {"order_id": "A-1"}, {"order_id": "A-1", "customer": "c1"}, "session"),
        ("refund", {}, {"total": 12.5}, "tool_result"),
        ("refund", {"copies": "2"}, {"copies": 2}, "message"),
        ("lookup_order", {"order_id": "A-1", "expand": None}, None, {}),
    ],
)
def test_declared_changes_explain_a_difference(
    tool: str, given: Any, arguments: dict[str, Any] | None, provenance: Any
) -> None:
    """Null for absent, a whole number, what code fills in, the known value for its words."""
    wanted = given if arguments is None else arguments
    sources = dict.fromkeys(wanted, provenance) if provenance else {}

    assert () == apart(given, wanted, tool=tool, **sources)


@pytest.mark.parametrize(
    ("tool", "given", "arguments", "paths"),
    [
        ("list_orders", "{broken", {}, ("",)),
        ("list_orders", {"after": "x"}, {}, ("/after",)),
        ("list_orders", {}, {"after": "x"}, ("/after",)),
        ("list_orders", {"tags": ["a", "b"]}, {"tags": ["a", "c"]}, ("/tags/1",)),
        ("list_orders", {"status": "open"}, {"status": "closed"}, ("/status",)),
        ("lookup_order", {"order_id": "A-1", "expand": None}, {"order_id": "A-1"}, ("/expand",)),
        ("refund", {"copies": "2"}, {"copies": 3}, ("/copies",)),
        ("refund", {"copies": "two"}, {"copies": 2}, ("/copies",)),
        ("list_orders", {"odd": "1"}, {"odd": "2"}, ("/odd",)),
        ("list_orders", {"limit": 3}, {"limit": 4}, ("/limit",)),
    ],
)
def test_any_other_difference_is_a_fault(
    tool: str, given: Any, arguments: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """Wherever it stands."""
    assert paths == apart(given, arguments, tool=tool)


@pytest.mark.parametrize(
    ("path", "declared"),
    [
        ("", ""),
        ("/order_id", "/order_id"),
        ("/secret", ""),
        ("/order_id/x", "/order_id"),
        ("/filter/secret", "/filter"),
        ("/filter/a~1b/0/sku", "/filter/a~1b/0/sku"),
        ("/filter/a~1b/0/secret", "/filter/a~1b/0"),
        ("/filter/a~1b/x", "/filter/a~1b"),
        ("/any/secret", "/any"),
    ],
)
def test_only_declared_names_are_shown(path: str, declared: str) -> None:
    """Any other name may be a customer's words."""
    assert declared == declared_part(path, SCHEMA)
