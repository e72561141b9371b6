"""Tests of turnstream.core.business_rules."""

from typing import Any

import pytest
from pydantic import JsonValue, TypeAdapter

from turnstream.core.business_rules import BusinessRule, broken_rule

RULES: TypeAdapter[tuple[BusinessRule, ...]] = TypeAdapter(tuple[BusinessRule, ...])

FOUND: dict[str, list[dict[str, JsonValue]]] = {
    "list_invoices": [
        {"invoices": [{"id": "I-1", "n": 1}, {"id": "I-2"}], "latest": "I-2"},
        {"invoices": [{"id": "I-3"}, "odd"]},
    ]
}


def broken(rule: dict[str, Any], arguments: dict[str, JsonValue], *permissions: str) -> str | None:
    """Argument and message of the breach, or the permission that lacks."""
    rules = RULES.validate_python([rule])
    found = broken_rule(rules, arguments, permissions=permissions, found=FOUND)
    return None if found is None else found.permission or f"{found.argument} {found.message}"


RANGE = {"kind": "range", "argument": "n"}
ORDER = {"kind": "order", "lower": "first", "upper": "last"}
RIGHT = {"kind": "right", "argument": "scope", "values": ["all", "team"], "permission": "p"}
LOOKUP = {"kind": "lookup", "argument": "id", "tool": "list_invoices", "path": "invoices.id"}


@pytest.mark.parametrize(
    ("rule", "arguments", "expected"),
    [
        ({**RANGE, "minimum": 1, "maximum": 5}, {"n": 1}, None),
        ({**RANGE, "minimum": 1, "maximum": 5}, {"n": 5.0}, None),
        ({**RANGE, "minimum": 1, "maximum": 5}, {}, None),
        ({**RANGE, "minimum": 1, "maximum": 5}, {"n": None}, None),
        ({**RANGE, "minimum": 1, "maximum": 5}, {"n": 0}, "n must not be below 1"),
        ({**RANGE, "maximum": 5.5}, {"n": 6}, "n must not be above 5.5"),
        ({**RANGE, "maximum": 5}, {"n": True}, "n must not be above 5"),
        ({**RANGE, "maximum": 5}, {"n": "1"}, "n must not be above 5"),
        ({**RANGE, "minimum": "2026-01-01"}, {"n": "2026-01-01"}, None),
        (
            {**RANGE, "minimum": "2026-01-01"},
            {"n": "2025-12-31"},
            "n must not be below 2026-01-01",
        ),
        (ORDER, {"first": 1, "last": 2}, None),
        (ORDER, {"first": 2, "last": 2}, None),
        (ORDER, {"first": "2026-01-31"}, None),
        (ORDER, {"last": "2026-01-31"}, None),
        (
            ORDER,
            {"first": "2026-02-01", "last": "2026-01-31"},
            "first must not be above last",
        ),
        (ORDER, {"first": 1, "last": "2"}, "first must not be above last"),
        (RIGHT, {"scope": "own"}, None),
        (RIGHT, {}, None),
        (RIGHT, {"scope": "all"}, "p"),
        (RIGHT, {"scope": ["own", "team"]}, "p"),
        (RIGHT, {"scope": [["team"]]}, None),
        (LOOKUP, {"id": "I-1"}, None),
        (LOOKUP, {"id": "I-3"}, None),
        (LOOKUP, {}, None),
        (LOOKUP, {"id": "I-9"}, "id is not among what list_invoices found"),
        (
            {**LOOKUP, "path": "invoices.n"},
            {"id": True},
            "id is not among what list_invoices found",
        ),
        ({**LOOKUP, "path": "latest"}, {"id": "I-2"}, None),
        (
            {**LOOKUP, "tool": "other"},
            {"id": "I-1"},
            "id must come from a result of other: call that first",
        ),
    ],
)
def test_rules(rule: dict[str, Any], arguments: dict[str, JsonValue], expected: str | None) -> None:
    """A rule is kept or the first breach is named; what is absent breaks nothing."""
    assert expected == broken(rule, arguments)


def test_a_permission_opens_what_it_is_for() -> None:
    """With the right in the session every value may be used."""
    assert broken(RIGHT, {"scope": "all"}, "p") is None
    assert "p" == broken(RIGHT, {"scope": "all"}, "q")


def test_the_first_breach_counts() -> None:
    """Rules are looked at in their order."""
    rules = RULES.validate_python([RIGHT, {**RANGE, "minimum": 1}])
    found = broken_rule(rules, {"n": 0}, permissions=(), found={})

    assert found is not None
    assert "n" == found.argument
