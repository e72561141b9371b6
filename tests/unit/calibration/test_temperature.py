"""One temperature: found where it is known, refused where nothing tells it."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.calibration.made import over_confident, sample
from turnstream.calibration.temperature import (
    cooled,
    cooled_confidence,
    fit_temperature,
    negative_log_likelihood,
)
from turnstream.core.contract import ACTIONS, Action

PROBABILITIES: dict[Action, float] = {"answer": 0.8, "ask": 0.2}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 5.0])
def test_the_temperature_of_a_made_up_decider_is_found(temperature: float) -> None:
    """Also that of one who is too modest, and that of a reliable one."""
    found = fit_temperature(over_confident(1500, temperature=temperature))

    assert None is found.why_not
    assert pytest.approx(temperature, rel=0.1) == found.value
    assert 1500 == found.turns


def test_it_is_where_the_loss_is_least() -> None:
    """No temperature beside it has a smaller mean negative log-likelihood."""
    samples = over_confident(300, temperature=2.0)
    best = fit_temperature(samples).value

    losses = [negative_log_likelihood(samples, best * factor) for factor in (1.0, 0.97, 1.03)]

    assert losses[0] == min(one for one in losses if one is not None)


def test_probabilities_at_a_temperature_by_hand() -> None:
    """Square roots of 0.8 and 0.2 are as two to one."""
    found = cooled(PROBABILITIES, 2.0)

    assert {"answer": pytest.approx(2 / 3), "ask": pytest.approx(1 / 3)} == found
    assert PROBABILITIES == cooled(PROBABILITIES, 1.0)


@pytest.mark.parametrize(
    "given_ones",
    [{}, {"answer": math.nan}, {"answer": -0.1, "ask": 1.1}, {"answer": 0.0}, {"ask": math.inf}],
)
def test_what_is_no_distribution_stays_as_it_is(given_ones: dict[Action, float]) -> None:
    """Nothing is made of it."""
    assert str(given_ones) == str(cooled(given_ones, 2.0))


@given(
    st.lists(st.floats(1e-300, 1.0), min_size=2, max_size=5),
    st.floats(0.05, 20.0),
)
def test_a_temperature_keeps_the_order(ones: list[float], temperature: float) -> None:
    """And makes a distribution of any positive numbers."""
    found = cooled(dict(zip(ACTIONS, ones, strict=False)), temperature)

    assert pytest.approx(1.0) == sum(found.values())
    ordered = sorted(range(len(ones)), key=lambda at: ones[at])
    values = [found[ACTIONS[at]] for at in ordered]
    assert all(low <= high for low, high in pairwise(values))


def test_a_confidence_that_is_the_probability_of_its_action_stays_that() -> None:
    """Rounding by the service is allowed for."""
    assert pytest.approx(2 / 3) == cooled_confidence(0.8000001, "answer", PROBABILITIES, 2.0)


def test_any_other_confidence_is_taken_as_right_against_wrong() -> None:
    """0.9 has odds of nine to one; their square root is three to one."""
    assert pytest.approx(0.75) == cooled_confidence(0.9, "answer", PROBABILITIES, 2.0)
    assert pytest.approx(0.25) == cooled_confidence(0.1, "answer", {}, 2.0)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.05, 20.0))
def test_confidences_keep_their_order(one: float, other: float, temperature: float) -> None:
    """A higher one never becomes the lower one, and each stays one."""
    low, high = sorted((one, other))

    found = [cooled_confidence(each, "answer", {}, temperature) for each in (low, high)]

    assert 0 <= found[0] <= found[1] <= 1


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_certainties_stay(confidence: float) -> None:
    """A step that follows from a result is as certain as before."""
    assert confidence == cooled_confidence(confidence, "answer", {}, 3.0)


@pytest.mark.parametrize("confidence", [math.nan, -0.1, 1.5])
def test_a_confidence_that_is_none_is_left_to_the_policy(confidence: float) -> None:
    """It names the fault there."""
    assert str(confidence) == str(cooled_confidence(confidence, "answer", PROBABILITIES, 2.0))


SURE: dict[str, Any] = {"probabilities": {"answer": 0.9, "ask": 0.1}}


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([], "0 turns with a probability of what was done; 50 wanted"),
        ([sample(**SURE)] * 49, "49 turns with"),
        ([sample()] * 60, "0 turns with"),
        ([sample(**SURE)] * 60, "all turns have the label answer: nothing to tell apart"),
        (
            [sample(probabilities={"answer": 1.0})] * 60
            + [sample(right="ask", probabilities={"ask": 1.0})] * 60,
            "every probability is 0 or 1",
        ),
        (
            [sample(**SURE)] * 60 + [sample(right="refuse", **SURE)] * 61,
            "what was done had probability 0 in 61 turns, most of them",
        ),
        (
            [sample(**SURE)] * 30 + [sample(right="ask", **SURE)] * 60,
            "best above 20: the probabilities do not tell what is done",
        ),
        (
            [sample(**SURE)] * 60
            + [sample(right="ask", probabilities={"ask": 0.9, "answer": 0.1})] * 60,
            "best below 0.05: the most probable action is always the right one",
        ),
    ],
)
def test_where_nothing_tells_a_temperature_there_is_none(samples: Any, why: str) -> None:
    """Everything stays as it is, and it is said why."""
    found = fit_temperature(samples)

    assert 1.0 == found.value
    assert why in str(found.why_not)


def test_what_no_temperature_can_mend_is_counted() -> None:
    """Turns without probabilities, and those where what was done had none."""
    samples = over_confident(100, temperature=2.0)
    samples += [sample(right="refuse", **SURE)] * 3 + [sample()] * 2

    found = fit_temperature(samples)

    assert (100, 3, 2) == (found.turns, found.impossible, found.without)
    assert fit_temperature(samples[:100]).value == found.value


def test_no_loss_without_probabilities() -> None:
    """There is nothing to tell."""
    assert None is negative_log_likelihood([sample()], 1.0)
