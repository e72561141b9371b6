"""The scripted decider fails loudly in both directions."""

import pytest

from turnstream.core.contract import Decision
from turnstream.core.ports import DeciderUnavailable, DecisionRequest
from turnstream.models.scripted import (
    ScriptedDecider,
    Step,
    UnconsumedSteps,
    UnexpectedRequest,
    answer,
    ask,
    call,
    hand_off,
    refuse,
)

REQUEST = DecisionRequest("shop", "en", True, (), "hello", {}, (), (), None, None)


def test_steps_are_played_in_order() -> None:
    """Each request gets the next step's reply, and a finished script is fine."""
    decider = ScriptedDecider([Step(call("track")), Step(answer("status"))])
    played = [decider.propose(REQUEST), decider.propose(REQUEST)]
    decider.finish()

    assert [call("track"), answer("status")] == played


def test_request_too_many_fails() -> None:
    """A request beyond the script is unexpected."""
    decider = ScriptedDecider([])

    with pytest.raises(UnexpectedRequest, match="has no step"):
        decider.propose(REQUEST)


def test_other_request_than_expected_fails() -> None:
    """A step may say what it expects of its request."""
    decider = ScriptedDecider([Step(hand_off(), expects=lambda request: bool(request.facts))])

    with pytest.raises(UnexpectedRequest, match="is not what its step expects"):
        decider.propose(REQUEST)


def test_unconsumed_step_fails() -> None:
    """A script that was not played to its end fails."""
    with pytest.raises(UnconsumedSteps, match="1 of 1"):
        ScriptedDecider([Step(hand_off("near_tie"))]).finish()


def test_failure_is_raised() -> None:
    """A step can be an outage of the decider."""
    decider = ScriptedDecider([Step(DeciderUnavailable("rate limit"))])

    with pytest.raises(DeciderUnavailable, match="rate limit"):
        decider.propose(REQUEST)


def test_ready_made_replies_agree_with_the_contract() -> None:
    """Every constructor gives a row of the contract table."""
    for proposal in (
        call("track"),
        ask("city", needed_for="track"),
        answer("hours"),
        refuse("fraud"),
        hand_off(),
        hand_off("near_tie"),
    ):
        Decision.model_validate(
            {
                "action": proposal.action,
                "tool": proposal.tool,
                "missing_field": proposal.missing_field,
                "reason_code": proposal.reason_code,
            }
        )
