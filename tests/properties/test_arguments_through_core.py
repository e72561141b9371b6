"""Any arguments of a model: no crash, and no call that a stranger's validator refuses.

A few hundred by default, as every property; ``make fuzz`` takes a hundred thousand.
"""

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.properties.argument_checks import (
    PASSED,
    REFUSED,
    RULES,
    STRANGERS,
    check_core,
    check_gates,
)
from tests.properties.argument_texts import CASES, VALID, Raw
from turnstream.core import gates

EXAMPLES = int(os.environ.get("TURNSTREAM_FUZZ_EXAMPLES", "300"))


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(CASES)
def test_any_arguments_on_their_way_to_a_call(case: tuple[str, Raw, bool]) -> None:
    """What passes the gates is called, what does not is told; the core adds and loses nothing."""
    tool, raw, beside = case

    assert check_gates(tool, raw) == check_core(tool, raw, beside=beside)


def test_the_right_ones_pass() -> None:
    """So the property above says something about each tool, and about rules and rights."""
    ends = {
        tool: Counter(check_core(tool, arguments, beside=False) for arguments in some)
        for tool, some in VALID.items()
    }

    assert ends == {
        "search_invoices": {PASSED: 4, "rule": 1},
        "create_refund": {PASSED: 3, "rule": 1, REFUSED: 1},
        "ship": {PASSED: 2},
        "find_contact": {PASSED: 3},
        "note_down": {PASSED: 2},
        "get_hours": {PASSED: 1},
        "pay_back": {PASSED: 2, "rule": 1, "provenance": 3},
    }
    assert STRANGERS.keys() == {*VALID, "find_orders"}


@pytest.mark.parametrize("beside", [False, True])
def test_a_missing_gate_is_found(*, beside: bool) -> None:
    """Without the catalog's own check of schemas the stranger's catches the call."""
    open_gates = replace(RULES, checks={})

    wrong = {"customer": "C-1", "status": "open"}

    with pytest.raises(AssertionError):
        check_gates("search_invoices", wrong, rules=open_gates)
    with pytest.raises(AssertionError):
        check_core("search_invoices", wrong, beside=beside, rules=open_gates)


@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        ("create_refund", {"order": "A-7", "amount": 60}),
        ("create_refund", {"order": "A-7", "amount": 1, "note": "goodwill"}),
        (
            "search_invoices",
            {"customer": "C-1001", "status": "paid", "from": "2026-02-01", "to": "2026-01-31"},
        ),
        ("pay_back", {"order": "A-1", "amount": 30}),
    ],
)
def test_a_missing_rule_is_found(
    tool: str, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the gate of rules and rights what it keeps out is seen to have passed."""
    monkeypatch.setattr(gates, "_breach", lambda *_, **__: None)

    with pytest.raises(AssertionError):
        check_gates(tool, wrong)
    with pytest.raises(AssertionError):
        check_core(tool, wrong, beside=False)


def test_a_changed_argument_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that put another valid value in place of the model's would be seen."""
    monkeypatch.setattr(gates, "with_whole_numbers", lambda given, **_: {**given, "amount": 2})

    with pytest.raises(AssertionError):
        check_gates("create_refund", {"order": "A-7", "amount": 1})
