"""What a calibration does to a decider, and when it refuses to."""

import math
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.catalogs import RULES
from tests.driving import answer, call, hand_off, proposal
from turnstream.calibration import Calibrated, Calibration, CalibrationRefused, read_calibration
from turnstream.core.conversation import Activation, Conversation
from turnstream.core.policy import judge
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.verdicts import AnswerWith, HandOff

THRESHOLDS = {"answer": {"value": 0.7}, "call_tool": {"value": 0.6}, "ask": {"note": "too few"}}


def calibration(**changes: Any) -> Calibration:
    """One with a temperature of two."""
    given: dict[str, Any] = {
        "made_for": {"decider": "scripted-1", "decision_version": "d1"},
        "made_from": {
            "tuning": {"conversations": 9, "labelled_turns": 90},
            "control": {"conversations": 8, "labelled_turns": 80},
            "control_share": 0.5,
            "seed": 0,
        },
        "aim": {"kind": "target_precision", "precision": 0.9},
        "temperature": {"value": 2.0, "turns": 90},
        "actions": THRESHOLDS,
        "tools": {"refund": {"value": 0.8}, "get_order": {"value": 0.5}},
        "control": dict.fromkeys(
            f"{name}_{when}"
            for name in ("confidence_error", "actions_error", "log_loss")
            for when in ("before", "after")
        ),
        **changes,
    }
    return Calibration.model_validate(given)


class Given:
    """A decider with one reply."""

    name = "scripted-1"

    def __init__(self, reply: Proposal, *, later: bool = False) -> None:
        self._reply, self._later = reply, later

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:
        """Give it, at once or later."""

        async def later() -> Proposal:
            return self._reply

        return later() if self._later else self._reply


REQUEST = DecisionRequest(
    agent="shop",
    locale="en",
    interactive=True,
    messages=(),
    latest="hello",
    known={},
    tools=(),
    facts=(),
    answered_field=None,
    open_intent=None,
)


def rescaled(reply: Proposal, of: Calibration | None = None) -> Proposal:
    """What a calibrated decider makes of a reply."""
    found = Calibrated(Given(reply), of or calibration()).propose(REQUEST)
    assert isinstance(found, Proposal)
    return found


def test_probabilities_and_confidence_are_rescaled() -> None:
    """Everything else stays, and the diagnostics keep what the decider said."""
    reply = answer(
        confidence=0.8, probabilities={"answer": 0.8, "ask": 0.2}, margin=0.6, diagnostics={"a": 1}
    )

    found = rescaled(reply)

    assert pytest.approx(2 / 3) == found.confidence == found.probabilities["answer"]
    assert (0.6, "hours") == (found.margin, found.answer_id)
    assert {"a": 1, "uncalibrated_confidence": 0.8} == found.diagnostics


def test_a_decision_names_the_calibration_too() -> None:
    """As part of the model's version; it changes with what decides."""
    first, second = calibration(), calibration(temperature={"value": 3.0})

    found = rescaled(answer(), first)

    assert f"{answer().model}+{first.version}" == found.model
    assert f"scripted-1+{first.version}" == Calibrated(Given(answer()), first).name
    assert first.version != second.version
    assert first.version == calibration(made_from=first.made_from).version


@pytest.mark.parametrize(
    ("reply", "least"),
    [
        (answer(), 0.7),
        (call("get_order"), 0.6),
        (call("refund"), 0.8),
        (call("close_account"), 0.6),
        (hand_off(), 0.0),
        (proposal("ask", "missing_input", tool="refund"), 0.0),
        (proposal("what?", "missing_input"), 0.0),
        (answer(least_confidence=0.9), 0.9),
    ],
)
def test_what_is_demanded_is_that_of_action_and_tool(reply: Proposal, least: float) -> None:
    """The greater of the two, and nothing where nothing was fitted."""
    assert least == rescaled(reply).least_confidence


async def test_a_decider_behind_a_network_stays_one() -> None:
    """Its reply is waited for."""
    found = Calibrated(Given(answer(confidence=0.9), later=True), calibration()).propose(REQUEST)

    assert not isinstance(found, Proposal)
    assert pytest.approx(0.75) == (await found).confidence


@pytest.mark.parametrize(
    ("confidence", "least", "passes"),
    [(0.7, 0.7, True), (0.69, 0.7, False), (0.2, 0.0, True), (0.19, 0.0, False)],
)
def test_the_policy_demands_the_greater_of_catalog_and_calibration(
    confidence: float, least: float, passes: bool
) -> None:
    """The catalog has 0.2 for answers: a calibration raises it, and never lowers it."""
    state = Conversation(phase="deciding", agent="shop", activation=Activation("t-1", 1, 1))

    verdict = judge(answer(confidence=confidence, least_confidence=least), state, RULES)

    assert (AnswerWith if passes else HandOff) is type(verdict)
    if isinstance(verdict, HandOff):
        assert "below_threshold" == verdict.cause


def test_a_confidence_that_is_none_stays_the_policys_business() -> None:
    """Nothing is made of it."""
    assert math.isnan(rescaled(answer(confidence=math.nan)).confidence)


@pytest.mark.parametrize(
    ("decider", "version", "message"),
    [
        ("scripted-1", "d2", "made for decision version 'd1', and here it is 'd2': run"),
        ("scripted-2", "d1", "made for decider 'scripted-1', and here it is 'scripted-2'"),
        ("scripted-2", "d2", "here it is 'd2'; for decider 'scripted-1', and here"),
    ],
)
def test_other_versions_are_refused(decider: str, version: str, message: str) -> None:
    """Both are named, with the file."""
    with pytest.raises(CalibrationRefused, match=message) as refused:
        calibration().check(decider=decider, decision_version=version, where="cal.json")

    assert str(refused.value).startswith("cal.json: ")
    calibration().check(decider="scripted-1", decision_version="d1", where="cal.json")


def test_a_file_is_read_as_it_was_written() -> None:
    """Every number of it."""
    written = calibration()

    assert written == read_calibration(written.model_dump_json().encode(), where="cal.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"cal\.json: no calibration of format 1: file: Invalid JSON"),
        (b"{}", r"cal\.json: no calibration of format 1: made_for: Field required"),
        (
            calibration().model_dump_json().replace('"format":1', '"format":2').encode(),
            r"cal\.json: no calibration of format 1: format: Input should be 1",
        ),
        (
            calibration().model_dump_json().replace('"value":2.0', '"value":0').encode(),
            r"temperature\.value: Input should be greater than 0",
        ),
    ],
)
def test_what_is_no_calibration_is_refused(content: bytes, message: str) -> None:
    """With the file and what is wrong in it."""
    with pytest.raises(CalibrationRefused, match=message):
        read_calibration(content, where="cal.json")


def test_what_was_not_fitted_is_told() -> None:
    """Tools with too few proposals have their action's threshold: nothing is missing there."""
    found = calibration(
        temperature={"why_not": "nothing to tell apart"},
        tools={"refund": {"note": "3 proposals"}, "get_order": {"value": 1, "note": "none"}},
    ).not_fitted

    assert ["temperature: nothing to tell apart", "ask: too few", "get_order: none"] == found
    assert ["ask: too few"] == calibration().not_fitted
