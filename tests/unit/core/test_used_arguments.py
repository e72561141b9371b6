"""What a tool shows of its arguments: honest echoes are no fault, everything else is one."""

from typing import Any

import pytest

from turnstream.core.used_arguments import unlike_used

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["order_id"],
    "properties": {
        "order_id": {"type": "string"},
        "page": {"type": "integer", "default": 1},
        "note": {"type": ["string", "null"]},
        "amount": {"type": "number"},
        "address": {"$ref": "#/$defs/address"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "sort": {"anyOf": [{"$ref": "#/$defs/sort"}, {"type": "null"}], "default": None},
        "window": {
            "type": "object",
            "properties": {"days": {"type": "integer"}},
            "default": {"days": 7},
        },
        "pay": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["by"],
                    "properties": {"by": {"const": "card"}, "fee": {"default": 2}},
                },
                {
                    "type": "object",
                    "required": ["by"],
                    "properties": {"by": {"const": "cash"}, "fee": {"default": 0}},
                },
            ]
        },
        "any": True,
    },
    "$defs": {
        "address": {
            "type": "object",
            "properties": {
                "zip": {"type": "string", "default": "0"},
                "street": {"type": "string"},
                "geo": {"type": "object", "properties": {"exact": {"default": False}}},
            },
        },
        "line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        },
        "sort": {"type": "object", "properties": {"by": {"default": "date"}}},
    },
}
FULL: dict[str, Any] = {
    "order_id": "A-1",
    "address": {"street": "x"},
    "lines": [{"sku": "a"}, {"sku": "b", "count": 2}],
    "pay": {"by": "cash"},
}


def unlike(asked: dict[str, Any], used: dict[str, Any]) -> tuple[str, ...]:
    """Where what was used is not what was asked for."""
    return unlike_used({"order_id": "A-1", **asked}, used, schema=SCHEMA, key="k-1")


@pytest.mark.parametrize(
    ("used", "paths"),
    [
        ({"order_id": "A-1"}, ()),
        ({"order_id": "A-1", "idempotency_key": "k-1"}, ()),
        ({"order_id": "A-1", "page": 1.0}, ()),
        ({"order_id": "A-1", "page": 2}, ("/page",)),
        ({"order_id": "A-1", "page": True}, ("/page",)),
        ({"order_id": "A-1", "idempotency_key": "k-2"}, ("/idempotency_key",)),
        ({"order_id": "A-1", "any": 1}, ("/any",)),
        ({"order_id": "A-1", "unknown": 1}, ("/unknown",)),
        ({"order_id": "A-1", "address": {"idempotency_key": "k-1"}}, ("/address",)),
        ({"order_id": "A-2"}, ("/order_id",)),
        ({"order_id": None}, ("/order_id",)),
        ({}, ("/order_id",)),
    ],
)
def test_a_tool_may_show_the_key_and_defaults(used: dict[str, Any], paths: tuple[str, ...]) -> None:
    """And nothing else that the call did not hold."""
    assert paths == unlike({}, used)


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ({}, {"order_id": "A-1", "note": None, "amount": None, "address": None, "unknown": None}),
        ({}, {"order_id": "A-1", "address": {"zip": "0", "street": None, "geo": {}}}),
        ({}, {"order_id": "A-1", "address": {"zip": "0", "geo": {"exact": False}}}),
        ({}, {"order_id": "A-1", "window": {"days": 7.0, "end": None}}),
        ({}, {"order_id": "A-1", "sort": None}),
        ({"sort": {}}, {"order_id": "A-1", "sort": {"by": "date"}}),
        ({"address": {}}, {"order_id": "A-1", "address": {"zip": "0"}}),
        (
            FULL,
            {
                **FULL,
                "address": {"street": "x", "zip": "0", "geo": None},
                "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2, "gift": None}],
                "pay": {"by": "cash", "fee": 0},
            },
        ),
    ],
)
def test_what_was_not_sent_may_be_null_or_a_default(
    asked: dict[str, Any], used: dict[str, Any]
) -> None:
    """At any depth, by whatever way the schema says so."""
    assert () == unlike(asked, used)


@pytest.mark.parametrize(
    ("asked", "used", "paths"),
    [
        ({"note": None}, {"order_id": "A-1"}, ("/note",)),
        ({"note": "x"}, {"order_id": "A-1", "note": None}, ("/note",)),
        ({"page": 2}, {"order_id": "A-1", "page": 1}, ("/page",)),
        ({}, {"order_id": "A-1", "address": {"zip": "1"}}, ("/address",)),
        ({}, {"order_id": "A-1", "window": {"days": 8}}, ("/window",)),
        ({}, {"order_id": "A-1", "window": {}}, ("/window",)),
        ({}, {"order_id": "A-1", "unknown": {}}, ("/unknown",)),
        ({"address": {}}, {"order_id": "A-1", "address": {"zip": "1"}}, ("/address/zip",)),
        ({"address": {"zip": "1"}}, {"order_id": "A-1", "address": {}}, ("/address/zip",)),
        ({"address": {}}, {"order_id": "A-1", "address": []}, ("/address",)),
        (FULL, {**FULL, "lines": [{"sku": "a"}]}, ("/lines",)),
        (FULL, {**FULL, "lines": [{"sku": "a"}, {"sku": "b"}]}, ("/lines/1/count",)),
        (
            FULL,
            {**FULL, "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": 2}]},
            ("/lines/0/count",),
        ),
        (FULL, {**FULL, "pay": {"by": "cash", "fee": 2}}, ("/pay/fee",)),
    ],
)
def test_a_default_excuses_no_other_value(
    asked: dict[str, Any], used: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """Nor does null, and the default of a branch that is not meant."""
    assert paths == unlike(asked, used)


@pytest.mark.parametrize(
    ("asked", "used", "same"),
    [
        (10**16, 1e16, True),
        (1e16, 10**16, True),
        (1e19, 10**19, True),
        (1e23, 10**23, True),
        (1e23, int(1e23), True),
        (2.0**60, 2**60, True),
        (2.0**60, 1152921504606847000, True),
        (2**53 + 1, float(2**53), False),
        (2.0**60, 2**60 + 1, False),
        (1e16, 10**16 + 1, False),
        (1, True, False),
        (True, 1.0, False),
        (0.1, 0.1 + 2**-55, False),
        (5, "5", False),
    ],
)
def test_a_whole_number_is_shown_by_its_digits_or_its_value(
    asked: Any, used: Any, same: bool
) -> None:
    """Services write a large one either way; a neighbour is another number."""
    paths = () if same else ("/amount",)

    assert paths == unlike({"amount": asked}, {"order_id": "A-1", "amount": used})
