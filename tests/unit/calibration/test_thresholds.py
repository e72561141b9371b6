"""Thresholds for a target precision or the least cost, and what they cost."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.calibration.made import answers, sample
from turnstream.calibration import Costs, LeastCost, Sample, TargetPrecision
from turnstream.calibration.thresholds import Threshold, by_action, by_tool, fit_threshold, price

NINE_IN_TEN = TargetPrecision(precision=0.9)
COSTS = LeastCost(costs=Costs(handoff=0.25))


def fitted(samples: list[Sample], aim: Any = NINE_IN_TEN, temperature: float = 1.0) -> Threshold:
    """The threshold of these proposals."""
    return fit_threshold(samples, temperature=temperature, aim=aim)


def graded() -> list[Sample]:
    """Twenty right ones at 0.9, ten at 0.7 of which half are right, ten wrong ones at 0.3."""
    return answers(
        *[(0.9, True)] * 20, *[(0.7, place < 5) for place in range(10)], *[(0.3, False)] * 10
    )


@pytest.mark.parametrize(
    ("precision", "value", "kept"), [(0.9, 0.9, 20), (0.8, 0.7, 30), (0.6, 0.3, 40)]
)
def test_the_lowest_threshold_that_reaches_the_precision(
    precision: float, value: float, kept: int
) -> None:
    """20 of 20, 25 of 30, 25 of 40; never below the lowest confidence that was seen."""
    found = fitted(graded(), TargetPrecision(precision=precision))

    assert Threshold(value=value, proposals=40, kept=kept) == found


def test_few_lucky_proposals_prove_nothing() -> None:
    """Nineteen right ones at the top are passed over; all but certainties are handed off."""
    samples = answers(*[(0.9, True)] * 19, *[(0.5, False)] * 21)

    found = fitted(samples)

    assert 1.0 == found.value
    assert "no threshold reaches 90% on 20 proposals or more; the best has 48% of 40" == found.note


def test_certainties_pass_where_nothing_else_does() -> None:
    """They are counted as kept."""
    found = fitted(answers(*[(1.0, True)] * 3, *[(0.5, False)] * 37))

    assert (1.0, 3) == (found.value, found.kept)


def test_too_few_proposals_give_no_threshold() -> None:
    """The number that is wanted is said."""
    assert Threshold(note="29 proposals; 30 wanted", proposals=29) == fitted(graded()[:29])


def test_a_threshold_is_one_of_the_confidence_at_the_temperature() -> None:
    """0.9 and 0.7 become 0.75 and 0.604; six digits are kept, rounded down."""
    assert 0.75 == fitted(graded(), temperature=2.0).value
    assert 0.604356 == fitted(graded(), TargetPrecision(precision=0.8), temperature=2.0).value


def test_the_cheapest_threshold() -> None:
    """At a quarter for a handoff, half wrong at 1 is too dear; at three quarters it is not."""
    assert 0.9 == fitted(graded(), COSTS).value
    assert 0.7 == fitted(graded(), LeastCost(costs=Costs(handoff=0.75))).value
    assert 0.3 == fitted(graded(), LeastCost(costs=Costs(handoff=1.0))).value


def test_where_handing_off_is_cheapest_all_but_certainties_are() -> None:
    """It is said that this is so."""
    found = fitted(graded(), LeastCost(costs=Costs(handoff=0)))

    assert 0.9 == found.value, "twenty right ones cost nothing either way: they go on"
    found = fitted(answers(*[(0.9, False)] * 30), COSTS)
    assert (1.0, "handing off costs least at every confidence that was seen") == (
        found.value,
        found.note,
    )


@pytest.mark.parametrize(
    ("changes", "doing", "holding"),
    [
        ({}, 0.0, 0.25),
        ({"right": "ask"}, 1.0, 0.5),
        ({"right": "refuse"}, 5.0, 0.25),
        ({"right": "handoff"}, 1.0, 0.0),
        ({"action": "call_tool", "right": "ask", "tool": "refund"}, 20.0, 0.5),
        ({"action": "call_tool", "right": "ask", "tool": "look_up"}, 2.0, 0.5),
        ({"action": "call_tool", "right": "call_tool", "tool": "refund"}, 0.0, 0.25),
        (
            {"action": "call_tool", "right": "call_tool", "tool": "refund", "agrees": False},
            30.0,
            0.25,
        ),
    ],
)
def test_costs(changes: dict[str, Any], doing: float, holding: float) -> None:
    """The matrix where it says something, else the defaults; a tool has a factor."""
    costs = Costs(
        matrix={"refuse": {"answer": 5}, "ask": {"handoff": 0.5, "call_tool": 2}},
        wrong_target=3,
        tools={"refund": 10},
    )
    one = sample(**changes)

    assert (doing, holding) == (costs.of_doing(one), costs.of_holding_back(one))


@pytest.mark.parametrize("costs", [{"handoff": -1}, {"matrix": {"reply": {}}}, {"other": 1}])
def test_costs_that_are_none_are_refused(costs: dict[str, Any]) -> None:
    """Negative ones, unknown actions, unknown keys."""
    with pytest.raises(ValidationError):
        Costs.model_validate(costs)


def test_the_price_of_a_threshold() -> None:
    """What is kept, what of it is right, what is handed off, and what all of it costs."""
    found = price(graded(), 0.7, temperature=1.0, aim=COSTS)

    assert (40, 30, 25, 10, 0) == (
        found.proposals,
        found.kept,
        found.kept_right,
        found.held,
        found.held_right,
    )
    assert 0.75 == found.coverage
    assert pytest.approx(25 / 30) == found.precision
    assert pytest.approx(5 * 1.0 + 10 * 0.25) == found.cost
    assert 5 == price(graded(), 0.9, temperature=1.0, aim=COSTS).held_right


def test_nothing_has_no_price() -> None:
    """No share is made of no proposals."""
    found = price([], 0.5, temperature=1.0, aim=NINE_IN_TEN)

    assert (None, None, None) == (found.coverage, found.precision, found.cost)


def test_proposals_are_grouped_by_action_and_by_tool() -> None:
    """Handoffs, and what no confidence holds back, are in neither."""
    call = {"action": "call_tool", "right": "call_tool"}
    samples = [
        sample(**call, tool="look_up"),
        sample(**call, tool="cancel"),
        sample(**call, tool="look_up", judged=False),
        sample(),
        sample(action="handoff", judged=False),
    ]

    assert {"answer": 1, "call_tool": 2} == {
        action: len(found) for action, found in by_action(samples).items()
    }
    assert ["cancel", "look_up"] == list(by_tool(samples))
