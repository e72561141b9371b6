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
    ],
    "get_order": [
        {"id": "A-1", "total": 20.1, "fee": 0, "discount": True},
        {"id": "A-2", "total": "12.50"},
        {"id": "A-3", "total": 7},
        {"id": None, "total": 9},
        {"id": "A-3", "total": 5},
    ],
    "list_orders": [
        {"orders": [{"id": "A-1", "price": {"total": 1}}]},
        {
            "orders": [
                {"id": "A-1", "price": {"total": 20}},
                {"id": "A-2", "price": {"total": 3}},
                {"id": 7, "price": {"total": "1e2"}},
                {"id": "A-4", "price": {"total": 30}},
                {"id": "A-4", "price": {"total": 10}},
                {"id": "A-5", "price": {"total": True}},
                {"id": "A-6", "price": None},
                {"id": "A-8", "price": {"total": 2.0**70}},
                "odd",
            ]
        },
    ],
    "get_nested": [{"order": {"ref": {"id": "A-1"}, "price": {"total": 4}}}],
    "get_credit": [{"credit": 5}, {"credit": 8}],
}


def broken(rule: dict[str, Any], arguments: dict[str, JsonValue], *permissions: str) -> str | None:
    """Argument and message of the breach, or the permission that lacks."""
    rules = RULES.validate_python([rule])
    found = broken_rule(rules, arguments, permissions=permissions, found=FOUND, fresh=FOUND)
    return None if found is None else found.permission or f"{found.argument} {found.message}"


RANGE = {"kind": "range", "argument": "n"}
ORDER = {"kind": "order", "lower": "first", "upper": "last"}
RIGHT = {"kind": "right", "argument": "scope", "values": ["all", "team"], "permission": "p"}
LOOKUP = {"kind": "lookup", "argument": "id", "tool": "list_invoices", "path": "invoices.id"}

OF_ORDER = {
    "kind": "looked_up_range",
    "argument": "n",
    "tool": "get_order",
    "maximum": "total",
    "where": {"id": "id"},
}
OF_LIST = {
    **OF_ORDER,
    "tool": "list_orders",
    "maximum": "orders.price.total",
    "where": {"id": "orders.id"},
}
NESTED = {
    **OF_ORDER,
    "tool": "get_nested",
    "maximum": "order.price.total",
    "where": {"id": "order.ref.id"},
}
CREDIT = {"kind": "looked_up_range", "argument": "n", "tool": "get_credit", "maximum": "credit"}


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


TOO_MUCH = "n must not be above the total that get_order found"
NO_NUMBER = "n has no bound: list_orders found no number as orders.price.total"
NOT_YET = "n is bounded by a result of get_order with this id: call that first"


@pytest.mark.parametrize(
    ("rule", "arguments", "expected"),
    [
        (OF_ORDER, {"id": "A-1", "n": 20.1}, None),
        (OF_ORDER, {"id": "A-1", "n": 20.100001}, TOO_MUCH),
        (OF_ORDER, {"id": "A-1", "n": "20.1"}, None),
        (OF_ORDER, {"id": "A-1", "n": "9.5"}, None),
        (OF_ORDER, {"id": "A-1", "n": "20.11"}, TOO_MUCH),
        (OF_ORDER, {"id": "A-2", "n": 12.5}, None),
        (OF_ORDER, {"id": "A-2", "n": 12.51}, TOO_MUCH),
        (OF_ORDER, {"id": "A-2", "n": "9"}, None),
        (OF_ORDER, {"id": "A-2", "n": "100"}, TOO_MUCH),
        (OF_ORDER, {"id": "A-3", "n": 5}, None),
        (OF_ORDER, {"id": "A-3", "n": 6}, TOO_MUCH),
        (OF_ORDER, {"id": "A-1"}, None),
        (OF_ORDER, {"id": "A-1", "n": None}, None),
        (OF_ORDER, {"id": "A-9", "n": 1}, NOT_YET),
        (OF_ORDER, {"n": 1}, NOT_YET),
        (OF_ORDER, {"id": None, "n": 1}, NOT_YET),
        (OF_ORDER, {"id": "A-1", "n": True}, "n must be a decimal number, such as 12.50"),
        (OF_ORDER, {"id": "A-1", "n": "1e1"}, "n must be a decimal number, such as 12.50"),
        (OF_ORDER, {"id": "A-1", "n": "NaN"}, "n must be a decimal number, such as 12.50"),
        (OF_ORDER, {"id": "A-1", "n": "1,5"}, "n must be a decimal number, such as 12.50"),
        (OF_ORDER, {"id": "A-1", "n": "١٢"}, "n must be a decimal number, such as 12.50"),
        (OF_ORDER, {"id": "A-1", "n": [1]}, "n must be a decimal number, such as 12.50"),
        ({**OF_ORDER, "minimum": "fee"}, {"id": "A-1", "n": 0}, None),
        (
            {**OF_ORDER, "minimum": "fee"},
            {"id": "A-1", "n": -0.01},
            "n must not be below the fee that get_order found",
        ),
        (
            {**OF_ORDER, "maximum": "discount"},
            {"id": "A-1", "n": 1},
            "n has no bound: get_order found no number as discount",
        ),
        (
            {**OF_ORDER, "maximum": "tax"},
            {"id": "A-1", "n": 1},
            "n has no bound: get_order found no number as tax",
        ),
        ({**OF_ORDER, "tool": "other"}, {"id": "A-1", "n": 1}, NOT_YET),
        (OF_LIST, {"id": "A-1", "n": 20}, None),
        (OF_LIST, {"id": "A-2", "n": 4}, TOO_MUCH.replace("total", "orders.price.total")),
        (OF_LIST, {"id": 7, "n": 1}, NO_NUMBER),
        (OF_LIST, {"id": "7", "n": 1}, NOT_YET),
        (OF_LIST, {"id": "A-4", "n": 10}, None),
        (OF_LIST, {"id": "A-4", "n": 11}, TOO_MUCH.replace("total", "orders.price.total")),
        (OF_LIST, {"id": "A-5", "n": 1}, NO_NUMBER),
        (OF_LIST, {"id": "A-6", "n": 1}, NO_NUMBER),
        (OF_LIST, {"id": "A-8", "n": 1e21}, None),
        (NESTED, {"id": "A-1", "n": 4}, None),
        (
            NESTED,
            {"id": "A-1", "n": 5},
            "n must not be above the order.price.total that get_nested found",
        ),
        (CREDIT, {"n": 8}, None),
        (CREDIT, {"n": 9}, "n must not be above the credit that get_credit found"),
        (
            {**CREDIT, "tool": "other"},
            {"n": 1},
            "n is bounded by a result of other: call that first",
        ),
    ],
)
def test_bounds_that_are_looked_up(
    rule: dict[str, Any], arguments: dict[str, JsonValue], expected: str | None
) -> None:
    """Of the order that the call names, its newest result, exactly, and never as texts."""
    tool = rule["tool"]
    if expected is not None:
        expected = expected.replace("get_order", tool)

    assert expected == broken(rule, arguments)


def test_a_permission_opens_what_it_is_for() -> None:
    """With the right in the session every value may be used."""
    assert broken(RIGHT, {"scope": "all"}, "p") is None
    assert "p" == broken(RIGHT, {"scope": "all"}, "q")


def test_the_first_breach_counts() -> None:
    """Rules are looked at in their order."""
    rules = RULES.validate_python([RIGHT, {**RANGE, "minimum": 1}])
    found = broken_rule(rules, {"n": 0}, permissions=(), found={}, fresh={})

    assert found is not None
    assert "n" == found.argument
