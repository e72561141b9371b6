"""Advice about amounts that are bounded from above alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents import TOOLS, tool
from tests.catalogs import DEFINITION
from tests.unit.catalog.small import with_change
from turnstream.catalog.lint import lint
from turnstream.catalog.lower_bounds import lower_bound_advice
from turnstream.core.definitions import Catalog

NUMBER = {"type": "number"}
TEXT = {"type": "string"}
RANGE: dict[str, Any] = {"kind": "range", "argument": "amount"}
MOST = {**RANGE, "maximum": 50}
LOOKED_UP: dict[str, Any] = {
    "kind": "looked_up_range",
    "argument": "amount",
    "tool": "get_order",
    "maximum": "total",
}


@pytest.mark.parametrize(
    ("schema", "rules", "advised"),
    [
        (NUMBER, [MOST], [0]),
        (NUMBER, [LOOKED_UP], [0]),
        (NUMBER, [MOST, LOOKED_UP], [0, 1]),
        ({"type": "integer"}, [MOST], [0]),
        ({}, [LOOKED_UP], [0]),
        ({**NUMBER, "multipleOf": 0.01, "maximum": 99}, [MOST], [0]),
        ({"type": "integer", "multipleOf": 5}, [MOST], [0]),
        (TEXT, [LOOKED_UP], [0]),
        ({**TEXT, "pattern": r"^-?[0-9]+\.[0-9]{2}$"}, [LOOKED_UP], [0]),
        ({"$ref": "#/$defs/money"}, [LOOKED_UP], [0]),
        ({**NUMBER, "minimum": 0}, [MOST, LOOKED_UP], []),
        ({**NUMBER, "minimum": -100}, [MOST], []),
        ({**NUMBER, "exclusiveMinimum": 0}, [LOOKED_UP], []),
        ({"enum": [5, 10]}, [LOOKED_UP], []),
        ({**TEXT, "pattern": r"^[0-9]+\.[0-9]{2}$"}, [LOOKED_UP], []),
        (NUMBER, [LOOKED_UP, {**RANGE, "minimum": 0}], []),
        (NUMBER, [MOST, {**LOOKED_UP, "minimum": "fee"}], []),
        (NUMBER, [{**RANGE, "minimum": 1, "maximum": 5}], []),
        (NUMBER, [{**RANGE, "minimum": 1}], []),
        (NUMBER, [{**LOOKED_UP, "maximum": None, "minimum": "fee"}], []),
        # Dates, which are bounded as texts.
        (TEXT, [{**RANGE, "maximum": "2026-12-31"}], []),
        (TEXT, [{"kind": "right", "argument": "amount", "values": ["9"], "permission": "p"}], []),
        # Faults of their own.
        (NUMBER, [{**MOST, "argument": "no_such_argument"}], []),
        ({"type": "no_such_type"}, [MOST], []),
    ],
)
def test_a_maximum_wants_a_lower_bound(
    schema: dict[str, Any], rules: list[dict[str, Any]], advised: list[int]
) -> None:
    """In a rule or in the schema, wherever it is: without one a negative amount passes."""
    pay = tool({"amount": schema}, effect="write", rules=rules)
    pay["input_schema"]["$defs"] = {"money": NUMBER}
    tools = {"get_order": TOOLS["get_order"], "pay": pay}
    catalog = Catalog.model_validate({**DEFINITION, "tools": tools})

    assert [("tools", "pay", "rules", index, "maximum") for index in advised] == [
        place for place, _ in lower_bound_advice(catalog)
    ]


def test_the_command_gives_the_advice(tmp_path: Path) -> None:
    """With the place of the maximum, among everything else that it says."""
    path = tmp_path / "catalog.yaml"
    path.write_text(
        with_change(
            "format: {enum: [print, audio]}",
            "format: {enum: [print, audio]}\n        fine: {type: number}",
        ).replace(
            "    effect: read\n",
            "    effect: read\n    rules: [{kind: range, argument: fine, maximum: 50}]\n",
        ),
        "utf-8",
    )

    assert [("warning", "tools.find_loan.rules.0.maximum")] == [
        (one.severity, one.path) for one in lint(path) if one.code == "no_lower_bound"
    ]
