"""The report: what was done rightly and wrongly, and what cannot be told apart."""

from dataclasses import asdict
from typing import Any

import pytest

from tests.catalogs import RULES, ruleset
from tests.unit.calibration.made import answers, over_confident, sample
from turnstream.calibration import Division, MadeFor, SetsOverlap, TargetPrecision, calibrate
from turnstream.calibration.findings import near_ties, stage
from turnstream.core.contract import ACTIONS

CATALOG = RULES.catalog
AIM = TargetPrecision(precision=0.9)
MADE_FOR = MadeFor(decider="made-up-1", decision_version="d1")

CALL: dict[str, Any] = {"action": "call_tool", "tool": "get_order"}
ASK: dict[str, Any] = {"action": "ask", "missing_field": "order_id"}


def fitted(tuning: Any, control: Any, catalog: Any = CATALOG) -> Any:
    """A calibration and its report."""
    return calibrate(
        tuning, control, made_for=MADE_FOR, division=Division(), catalog=catalog, aim=AIM
    )


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, {"right", "right_action"}),
        ({**CALL, "right": "call_tool"}, {"right", "right_action"}),
        ({**CALL, "right": "answer"}, {"unnecessary_calls"}),
        ({**CALL, "right": "call_tool", "agrees": False}, {"right_action", "wrong_tool"}),
        ({**CALL, "right": "ask"}, {"unnecessary_calls", "missed_questions"}),
        ({**ASK, "right": "ask", "agrees": False}, {"right_action", "wrong_field"}),
        ({**ASK, "right": "answer"}, {"superfluous_questions"}),
        ({"right": "ask"}, {"missed_questions"}),
        ({"action": "refuse", "right": "answer"}, {"wrong_refusals"}),
        ({"action": "refuse", "right": "refuse"}, {"right", "right_action"}),
        ({"action": "handoff", "judged": False, "right": "answer"}, {"handed_off"}),
        ({"action": "handoff", "judged": False, "right": "ask"}, {"handed_off"}),
        (
            {"action": "handoff", "judged": False, "right": "handoff"},
            {"right", "right_action"},
        ),
    ],
)
def test_every_kind_of_mistake_is_counted(changes: dict[str, Any], counted: set[str]) -> None:
    """One turn each; what is right is counted as that."""
    one = sample(**changes)

    found = stage([one], lambda _: False)

    assert counted == {name for name, count in asdict(found.mistakes).items() if count} - {"turns"}
    assert 1 == found.table[one.right][one.action]
    assert 1 == sum(found.table[right][done] for right in ACTIONS for done in ACTIONS)


def test_what_is_held_back_is_handed_off() -> None:
    """Without need where it was right, rightly where a handoff was."""
    found = stage([sample(), sample(right="handoff")], lambda _: True)

    assert (1, 1) == (found.mistakes.handed_off, found.mistakes.right)
    assert 1 == found.table["answer"]["handoff"] == found.table["handoff"]["handoff"]


def test_before_is_what_the_catalog_holds_back() -> None:
    """Its thresholds, those of its tools, and its near ties; a write's own threshold too."""
    control = [
        sample(confidence=0.19),
        sample(confidence=0.2),
        sample(confidence=0.9, margin=0.04),
        sample(confidence=0.9, margin=0.05),
        sample(action="call_tool", right="call_tool", tool="refund", confidence=0.79),
        sample(action="call_tool", right="call_tool", tool="get_order", confidence=0.01),
        sample(judged=False, confidence=0.0),
    ]

    _, report = fitted([], control)

    assert 3 == report.before.mistakes.handed_off
    assert 0 == report.free.mistakes.handed_off


def test_a_report_is_about_the_control_set_alone() -> None:
    """What the tuning set holds changes the calibration, not what is counted."""
    tuning = over_confident(400, temperature=2.0, of="tuning")
    control = over_confident(300, temperature=2.0, seed=8, of="control")

    calibration, report = fitted(tuning, control)

    assert (400, 300) == (
        calibration.made_from.tuning.labelled_turns,
        calibration.made_from.control.labelled_turns,
    )
    judged = sum(one.judged for one in control)
    assert judged == report.confidence[0].count == report.confidence[1].count
    assert judged == sum(one.after.proposals for one in report.prices)
    assert 300 == report.after.mistakes.turns == report.actions[0].count
    assert {"made up": judged} == report.confidence_kinds
    assert report.confidence[1].error == calibration.control.confidence_error_after
    assert report.log_loss[0] > report.log_loss[1]


def test_the_price_after_is_that_of_the_calibration() -> None:
    """At its threshold and temperature; the grid has any other threshold."""
    tuning = answers(*[(0.9, True)] * 30, *[(0.5, False)] * 30)
    control = [
        sample(conversation_id="k-1", confidence=0.95),
        sample(conversation_id="k-2", confidence=0.6),
        sample(conversation_id="k-3", confidence=0.1, right="ask"),
    ]

    calibration, report = fitted(tuning, control)

    (only,) = report.prices
    assert 0.9 == calibration.actions["answer"].value == only.fitted
    assert (0.2, 2) == (only.before.threshold, only.before.kept)
    assert (0.9, 1, 1) == (only.after.threshold, only.after.kept, only.after.held_right)
    assert [3, 3, 2, 2, 2, 2, 2, 1, 1, 1] == [one.kept for one in only.grid]


def test_a_fitted_threshold_never_lowers_the_catalogs() -> None:
    """The greater of the two counts."""
    strict = ruleset(thresholds={"answer": 0.95}).catalog
    tuning = answers(*[(0.9, True)] * 30)

    calibration, report = fitted(tuning, [sample(conversation_id="k-1")], strict)

    assert 0.9 == calibration.actions["answer"].value
    assert (0.95, 0) == (report.prices[0].after.threshold, report.prices[0].after.kept)


def test_what_was_never_proposed_in_the_tuning_set_has_no_threshold() -> None:
    """It is said so."""
    _, report = fitted([], [sample(**CALL, right="call_tool")])

    assert {("call_tool", "action", None), ("get_order", "tool", None)} == {
        (one.name, one.of, one.fitted) for one in report.prices
    }
    assert {"never proposed in the tuning set"} == {one.note for one in report.prices}


def test_sets_that_share_a_conversation_are_refused() -> None:
    """Also here, whatever was done before."""
    with pytest.raises(SetsOverlap, match="1 conversations are in the tuning set"):
        fitted([sample()], [sample()])


def test_near_ties_of_two_tools_have_both_descriptions() -> None:
    """And how often each of them was called; the order of the rivals does not matter."""
    tied: dict[str, Any] = {"right": "call_tool", "apart": 0.02}
    samples = [
        sample(**tied, rivals=("get_order", "search_help"), right_tool="get_order"),
        sample(**{**tied, "apart": 0.04}, rivals=("search_help", "get_order"), right_tool=None),
        sample(rivals=("get_order", "refund"), apart=0.0),
        sample(rivals=("get_order", "refund"), apart=0.05),
        sample(rivals=("get_order", "refund"), apart=None),
        sample(rivals=("get_order", "no_such_tool"), apart=0.0),
        sample(rivals=None, apart=0.0),
    ]

    first, second = near_ties(samples, CATALOG)

    assert ("get_order", "search_help") == first.tools
    assert ("Look up an order.", "Find instructions.") == first.descriptions
    assert (2, (1, 0)) == (first.turns, first.labelled)
    assert pytest.approx(0.03) == first.mean_apart
    assert (("get_order", "refund"), 1) == (second.tools, second.turns)
