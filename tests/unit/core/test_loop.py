"""Tests of turnstream.core.loop: what is kept of replies, and what happens when it is too much."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import RULES, agent_rules, asking, calling, saying, wanting
from tests.driving import Driver
from turnstream.core.bounds import CHECKPOINT_BYTES, RECORD_BYTES
from turnstream.core.conversation import Activation, Conversation, Fact, LoopCall, LoopStep
from turnstream.core.envelope import CallFault, Envelope
from turnstream.core.evolution import evolved
from turnstream.core.loop import (
    envelope_of,
    laid_out,
    with_answer_to_question,
    with_reply,
    with_result,
)
from turnstream.core.record import dump, load

CALL = LoopCall("c1", "get_order", "a1", None)


def fact(**changes: Any) -> Fact:
    """What came back of the call."""
    given: dict[str, Any] = {
        "action_id": "a1",
        "tool": "get_order",
        "outcome": "done",
        "result": {"n": 1},
        "error_code": None,
        "superseded": False,
        "at_input": 1,
        "epoch": 0,
        "fields": {},
        "size": 1,
        **changes,
    }
    return Fact(**given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"n": 1}),
        ({"result": None}, {}),
        ({"superseded": True}, "superseded"),
        ({"outcome": "failed", "result": None}, "tool_error"),
        ({"outcome": "failed", "result": None, "error_code": "down"}, "down"),
        ({"result": None, "error_code": "result_too_large"}, "result_too_large"),
        ({"outcome": "outcome_unknown", "result": None}, "tool_error"),
    ],
)
def test_what_a_model_is_told_of_a_result(changes: dict[str, Any], expected: object) -> None:
    """The result, or the error's code; never something in between."""
    envelope = envelope_of(fact(**changes), CALL)

    assert ("c1", "get_order") == (envelope.call_id, envelope.name)
    assert expected == (envelope.error.code if envelope.error is not None else envelope.result)


@pytest.mark.parametrize(
    ("write", "outcome", "expected"),
    [
        (False, "done", "call again"),
        (True, "done", "it was carried out"),
        (True, "failed", "call again"),
    ],
)
def test_what_was_carried_out_is_told_also_when_it_is_overtaken(
    write: bool,
    outcome: str,
    expected: str,
) -> None:
    """A correction makes no write undone: the model must know of it."""
    envelope = envelope_of(fact(superseded=True, outcome=outcome), replace(CALL, write=write))

    assert envelope.error is not None
    assert "superseded" == envelope.error.code
    assert expected in envelope.error.message


def test_a_write_that_a_correction_overtook() -> None:
    """Before its result or after it, until the model is asked."""
    talk = Driver(RULES)
    refund = calling(
        wanting("refund", {"order_id": "A-1"}, "r"), wanting("get_store_hours", {}, "h")
    )
    talk.turn("Refund A-1", calling(wanting("get_order", {"order_id": "A-1"})))
    talk.result({"total": 5}, refund)
    first, second = [one.action_id for one in talk.conversation.outstanding]
    talk.result({"refund_id": "R"}, action_id=first)
    talk.turn("No, A-2!")
    talk.result({}, saying("Sorry."), action_id=second)

    told = talk.requests[-1].loop[-1].envelopes[0].error
    assert told is not None
    assert "it was carried out" in told.message


def test_the_catalog_says_what_an_error_means() -> None:
    """An unknown outcome is called one; else the catalog's words stand for the code."""
    failed = fact(outcome="failed", result=None, error_code="unknown_order")
    unknown = fact(outcome="outcome_unknown", result=None)

    assert "No such order." == envelope_of(failed, CALL, "No such order.").error.message  # type: ignore[union-attr]
    assert "the call failed" == envelope_of(failed, CALL).error.message  # type: ignore[union-attr]
    assert "nobody knows" in envelope_of(unknown, CALL).error.message  # type: ignore[union-attr]

    talk = Driver(RULES)
    talk.turn("Where is A-1?", calling(wanting("get_order", {"order_id": "A-1"})))
    talk.failure("unknown_order", saying("There is none."))
    assert "No such order." == talk.requests[-1].loop[0].envelopes[0].error.message  # type: ignore[union-attr]


STATE = Conversation(activation=Activation("t1", 1, 1), spoken=3)


def with_steps(*steps: LoopStep) -> Conversation:
    """The same with replies."""
    return evolved(STATE, activation=Activation("t1", 1, 1, loop=steps))


def test_nothing_is_kept_without_work_or_without_a_reply() -> None:
    """A copy may not know how the work began; a decision model has nothing to give back."""
    reply = calling(wanting("get_order", {}))
    idle = Conversation()
    plain = replace(saying("Hi."), reply=None)

    assert idle is with_reply(idle, reply, spoken=0)
    assert STATE is with_reply(STATE, plain, spoken=0)
    assert idle is with_result(idle, fact())
    assert STATE is with_result(STATE, fact())
    assert idle is with_answer_to_question(idle, "f", "x")
    assert STATE is with_answer_to_question(STATE, "f", "x")


@pytest.mark.parametrize(
    "reply",
    [
        "x" * CHECKPOINT_BYTES,
        {"a": float("nan")},
        {"a": "\ud800"},
        b"bytes",
        ["deep"] * 1,
    ],
)
def test_a_reply_is_kept_whole_or_not_at_all(reply: Any) -> None:
    """What no record can hold, or too long a loop, is None and never a part of it."""
    if reply == ["deep"]:
        for _ in range(120):
            reply = [reply]

    assert with_reply(STATE, saying("Hi."), spoken=0) is not None
    assert with_reply(STATE, replace(saying("Hi."), reply=reply), spoken=0) is None


def test_a_reply_as_deep_as_allowed_is_read_again() -> None:
    """The bound is below what the reader of records takes."""
    reply: JsonValue = "x"
    for _ in range(100):
        reply = [reply]
    kept = with_reply(STATE, replace(saying("Hi."), reply=reply), spoken=0)

    assert kept is not None
    assert kept == load(dump(kept))


def test_calls_without_a_reply_are_kept_all_the_same() -> None:
    """The outcomes are worth telling to a model that keeps no replies of its own."""
    kept = with_reply(STATE, calling(wanting("x" * 100, {}), reply=None), spoken=2, fault="no")

    assert kept is not None
    (step,) = kept.activation.loop  # type: ignore[union-attr]
    assert (None, "no", 2) == (step.reply, step.fault, step.spoken)
    assert 64 == len(step.calls[0].tool)


def test_an_outcome_that_is_not_there_yet() -> None:
    """A copy that follows the live side may be asked before all is in."""
    step_ = LoopStep("r", (CALL,), None, 3)
    state = with_steps(step_)

    assert "awaited" == laid_out(state)[1][0].envelopes[0].error.code  # type: ignore[union-attr]


def test_a_question_in_a_faulty_reply_has_no_answer() -> None:
    """It was never asked: what the customer writes next is no reply to it."""
    asked = LoopStep("r", (LoopCall("q", "ask_user", None, None),), "broken", 3)
    state = with_steps(asked)

    assert state is with_answer_to_question(state, "f", "x")


def test_only_the_call_that_is_meant_gets_an_outcome() -> None:
    """Results by action, replies by what is open; what is settled stays."""
    settled = Envelope("c2", "t", error=CallFault("not_made", "no"))
    calls = (CALL, LoopCall("c2", "t", None, settled), LoopCall("q", "ask_user", None, None))
    state = with_steps(LoopStep("r", calls, None, 3))

    told = with_answer_to_question(state, "f", "x")
    assert told is not None
    found = with_result(told, fact())
    assert found is not None
    outcomes = [one.outcome for one in found.activation.loop[0].calls]  # type: ignore[union-attr]
    assert [
        Envelope("c1", "get_order", {"n": 1}),
        settled,
        Envelope("q", "ask_user", {"field": "f", "reply": "x"}),
    ] == outcomes


# --- too much -----------------------------------------------------------------------------------

LOOK = wanting("lookup_order", {"order_id": "A-1"})


@pytest.mark.parametrize("reply", [calling(LOOK), asking(), calling(wanting("nothing", {}))])
def test_a_reply_too_long_for_the_record_is_handed_off(reply: Any) -> None:
    """Before anything of it is done, whatever it asks for."""
    talk = Driver(RULES)
    talk.turn("Where is my order?", replace(reply, reply="x" * CHECKPOINT_BYTES))

    assert "state_too_large" == talk.cause
    assert ["handoff"] == [one.decision.action for one in talk.actions]


def test_many_replies_stay_within_the_record() -> None:
    """However long a loop lasts, the record has its bound and the work ends visibly."""
    agents = {"shop": {"description": "S.", "maxSteps": 100, "maxRetries": 0}}
    talk = Driver(agent_rules(agents=agents))
    number, causes = 0, []

    def reply() -> Any:
        return calling(
            wanting("find_ticket", {"ticket_id": number + 1}), reply="\U0001f600" * 7_000
        )

    talk.turn("hello", reply())
    while talk.phase == "waiting_calls":
        number += 1
        talk.result({"text": "x" * 2_000}, reply())
        assert len(dump(talk.conversation)) < RECORD_BYTES
    causes.append(talk.cause)

    assert ["state_too_large"] == causes
    assert number > 5


def test_a_result_that_does_not_fit_any_more_ends_the_work() -> None:
    """The call is not made again: it was done, and only the model cannot be told."""
    talk = Driver(RULES)
    talk.turn("hello", calling(LOOK, reply="x" * (CHECKPOINT_BYTES - 10_000)))
    talk.result({"text": "x" * 20_000})

    assert "state_too_large" == talk.cause
    assert "done" == talk.action.handoff.calls[0].outcome  # type: ignore[union-attr]


def test_a_reply_of_the_customer_that_does_not_fit_any_more_ends_the_work() -> None:
    """Nothing is cut from what a customer wrote in reply to a question."""
    talk = Driver(RULES)
    talk.turn("Where is my order?", replace(asking(), reply="x" * (CHECKPOINT_BYTES - 2_500)))
    talk.turn("A-1 " + "\U0001f600" * 3_000)

    assert "state_too_large" == talk.cause
    assert "accepted" == talk.action.question_ended.outcome  # type: ignore[union-attr]
