"""Bins and their error, by hand."""

import pytest

from tests.unit.calibration.made import answers, over_confident, sample
from turnstream.calibration.reliability import of_actions, of_confidence, reliability
from turnstream.calibration.temperature import fit_temperature


def test_the_expected_calibration_error_by_hand() -> None:
    """Two of five in a bin at 0.1 with none right, three at 0.9 with two right."""
    pairs = [(0.05, False), (0.15, False), (0.85, True), (0.9, True), (0.95, False)]

    found = reliability(pairs, bins=2)

    low, high = found.bins
    assert (2, 0.0) == (low.count, low.accuracy)
    assert pytest.approx(0.1) == low.mean_confidence
    assert 3 == high.count
    assert pytest.approx(0.9) == high.mean_confidence
    assert pytest.approx(2 / 3) == high.accuracy
    assert pytest.approx(2 / 5 * 0.1 + 3 / 5 * (0.9 - 2 / 3)) == found.error


def test_bins_exclude_their_upper_bound_but_the_last() -> None:
    """Certainty belongs to the surest bin."""
    found = reliability([(0.0, True), (0.5, True), (1.0, True)], bins=2)

    assert [1, 2] == [one.count for one in found.bins]
    assert [(0.0, 0.5), (0.5, 1.0)] == [(one.low, one.high) for one in found.bins]


def test_an_empty_set_has_no_error() -> None:
    """Nothing is made up."""
    found = reliability([], bins=10)

    assert (0, None) == (found.count, found.error)
    assert {None} == {one.accuracy for one in found.bins}


def test_only_what_confidence_can_hold_back_is_looked_at() -> None:
    """A handoff's confidence decides nothing."""
    samples = [*answers((0.7, True)), sample(action="handoff", judged=False, confidence=0.2)]

    assert [(0.7, True)] == list(of_confidence(samples, 1.0))


def test_actions_are_looked_at_by_the_most_probable_one() -> None:
    """Whatever the confidence says."""
    samples = [
        sample(right="ask", probabilities={"answer": 0.8, "ask": 0.2}),
        sample(right="ask", probabilities={"answer": 0.2, "ask": 0.8}),
        sample(),
    ]

    assert [(0.8, False), (0.8, True)] == list(of_actions(samples, 1.0))


def test_the_right_temperature_makes_a_decider_reliable() -> None:
    """Measured on turns that it was not fitted on."""
    tuning = over_confident(1500, temperature=2.0, seed=1)
    control = over_confident(1500, temperature=2.0, seed=2)
    temperature = fit_temperature(tuning).value

    for pairs in (of_confidence, of_actions):
        before, after = (reliability(pairs(control, one), bins=10) for one in (1.0, temperature))
        assert before.error is not None
        assert after.error is not None
        assert before.error > 0.1
        assert after.error < 0.05
