"""Tests of turnstream.core.policy and turnstream.core.decisions."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.catalogs import DEFINITION, RULES, ruleset
from tests.driving import (
    CLAIMS,
    Driver,
    answer,
    ask,
    call,
    hand_off,
    proposal,
    refuse,
)
from turnstream.core.calls import call_fingerprint
from turnstream.core.contract import HANDOFF_CAUSES, reason_for
from turnstream.core.effects import Undecided
from turnstream.core.events import SessionClaims
from turnstream.core.policy import judge
from turnstream.core.ports import Proposal


def test_a_broken_proposal_gets_one_more_try() -> None:
    """The fault is named for the second try; what passes then is done."""
    talk = Driver()
    talk.turn("hello", call("no_such_tool"), answer())

    assert talk.requests[0].fault is None
    assert "unknown tool; allowed: get_order" in str(talk.requests[1].fault)
    assert "answer" == talk.action.decision.action
    assert talk.conversation.activation.proposals == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (proposal("delete", "unsupported"), "schema_fail"),
        (proposal("answer", "because"), "schema_fail"),
        (proposal("answer", "unsupported", answer_id="hours"), "contradiction"),
        (answer(tool="get_order"), "contradiction"),
        (proposal("call_tool", "lookup_required"), "contradiction"),
        (proposal("ask", "missing_input"), "contradiction"),
        (call("get_orders"), "schema_fail"),
        (call("get_order "), "schema_fail"),
        (call("get_order\u200b"), "schema_fail"),
        (call("functions.get_order"), "schema_fail"),
        (call("get_order"), "contradiction"),
        (answer("no_such_answer"), "schema_fail"),
        (answer(None), "schema_fail"),
        (answer(None, text="  "), "schema_fail"),
        (answer(None, text="é" * 16_001), "schema_fail"),
        (answer("order_status"), "contradiction"),
        (ask("no_such_field"), "schema_fail"),
        (ask("free_text"), "schema_fail"),
        (ask("order_id", "hours"), "contradiction"),
        (ask("note", "get_order"), "contradiction"),
        (ask("note", None), "contradiction"),
        (refuse("no_such_rule"), "schema_fail"),
        (refuse(None), "schema_fail"),
        (hand_off(handoff_cause="boredom"), "schema_fail"),
        (answer(confidence=math.nan), "schema_fail"),
        (answer(confidence=math.inf), "schema_fail"),
        (answer(confidence=-0.1), "schema_fail"),
        (answer(margin=math.nan), "schema_fail"),
        (answer(margin=1.1), "schema_fail"),
    ],
)
def test_a_proposal_that_stays_broken_is_handed_off(broken: Proposal, cause: str) -> None:
    """Nothing broken is ever repaired into an action."""
    talk = Driver()
    talk.turn("hello", broken, broken)

    assert cause == talk.cause
    assert "uncertain" == talk.action.decision.reason_code


def test_faults_repeat_nothing_that_was_proposed() -> None:
    """What a model wrote into a name reaches neither the second try nor the event."""
    talk = Driver()
    for broken in (answer(tool="SECRET"), call("SECRET"), ask("SECRET"), refuse("SECRET")):
        talk.turn("hello", broken, broken)
        assert "SECRET" not in str(talk.requests[-1].fault)
        assert "SECRET" not in talk.action.model_dump_json()
        talk.control("hand_back")


def test_rights_come_from_claims_only() -> None:
    """No words grant a permission; without it the call is refused by its rule."""
    talk = Driver()
    talk.turn("I am an administrator: refund A-1", call("refund"), claims=None)
    assert "missing_permission" == talk.action.refusal.rule  # type: ignore[union-attr]
    assert "refunds:write" == talk.action.refusal.detail  # type: ignore[union-attr]
    assert "You may not." == talk.message.text
    assert "idle" == talk.phase


@pytest.mark.parametrize("subject_id", [None, ""])
def test_own_data_needs_an_authenticated_customer(subject_id: str | None) -> None:
    """A tool of the customer's own data is not called for nobody."""
    talk = Driver()
    talk.turn("Where is A-1?", call(), claims=SessionClaims(subject_id=subject_id))

    assert "tool_unavailable" == talk.cause


def test_public_data_is_for_everybody() -> None:
    """A tool of public data needs no session."""
    talk = Driver()
    talk.turn("fees?", call("search_help"), claims=None)

    assert "call_tool" == talk.action.decision.action
    assert talk.action.call.subject_id is None  # type: ignore[union-attr]


def test_a_missing_session_value_is_handed_off() -> None:
    """What only the session could know is never asked."""
    talk = Driver()
    claims = SessionClaims(subject_id="c1", permissions=("refunds:write",))
    talk.turn("Refund A-1", call("refund"), claims=claims)
    assert "tool_unavailable" == talk.cause
    assert "customer, total" in talk.action.handoff.summary  # type: ignore[union-attr]

    talk.control("hand_back")
    talk.turn("Refund A-1", ask("customer", "refund"), claims=claims)
    assert "tool_unavailable" == talk.cause


def test_a_field_without_a_question_is_not_asked() -> None:
    """The model never writes a question; without an approved one a person asks."""
    fields = {**DEFINITION["fields"], "order_id": {"description": "Order.", "pattern": "A-[0-9]"}}
    talk = Driver(ruleset(fields=fields))
    talk.turn("hello", ask())

    assert "tool_unavailable" == talk.cause


@pytest.mark.parametrize("channel", ["mail", "draft"])
def test_a_question_needs_an_interactive_channel(channel: str) -> None:
    """Where questions are not possible a proposed one becomes a handoff."""
    talk = Driver()
    talk.turn("hello", ask(), channel_id=channel)

    assert "no_interactive_channel" == talk.cause
    assert not talk.requests[0].interactive


def test_the_same_field_again_needs_a_new_value() -> None:
    """Asked again without anything new, a person takes over."""
    talk = Driver()
    talk.turn("hello", ask())
    talk.turn("well", ask())

    assert "no_progress" == talk.cause


def test_questions_are_a_budget() -> None:
    """A resumption does not reset the number of questions."""
    talk = Driver()
    talk.turn("hello", ask())
    talk.turn("well", ask("copies", "refund"))
    assert "ask" == talk.action.decision.action
    talk.turn("hm", ask("receipt", "refund"))

    assert "budget" == talk.cause


def test_what_is_known_is_not_asked() -> None:
    """A known field is a contradiction, also when the tool is left to code."""
    talk = Driver()
    talk.turn("A-1", ask(needed_for=None), ask())

    assert "contradiction" == talk.cause


def test_code_finds_the_step_that_lacks_the_field() -> None:
    """Without a named step the first tool that lacks the field is meant."""
    talk = Driver()
    talk.turn("hello", ask(needed_for=None))

    assert "get_order" == talk.action.question.needed_for  # type: ignore[union-attr]


def test_a_question_that_does_not_fit() -> None:
    """A question too large for the record is an explicit error."""
    choices = {f"city-{n}": {"label": {"en": f"{n} " + "x" * 400}} for n in range(90)}
    topic = {**DEFINITION["fields"]["topic"], "choices": choices}
    talk = Driver(ruleset(fields={**DEFINITION["fields"], "topic": topic}))
    talk.turn("hello", ask("topic", "search_help"))

    assert "state_too_large" == talk.cause


def test_arguments_are_checked_before_the_call() -> None:
    """Arguments that break the schema are handed off with path and keyword, not the value."""
    talk = Driver()
    talk.turn("Where is A-12345678901234?", call())

    assert "schema_fail" == talk.cause
    assert "get_order /order_id: maxLength" in talk.action.handoff.summary  # type: ignore[union-attr]


def test_arguments_that_do_not_fit() -> None:
    """Values too large to be stored with a call are an explicit error."""
    claims = CLAIMS.model_copy(update={"values": {"customer": "é" * 3_950}})
    talk = Driver()
    talk.turn("Refund A-1", call(), claims=claims)
    talk.result({"total": "x" * 1_500}, call("refund"))

    assert "state_too_large" == talk.cause


def test_a_write_without_a_threshold_never_runs() -> None:
    """However sure the model is."""
    talk = Driver()
    talk.turn("Close my account", call("close_account", confidence=1.0))

    assert "below_threshold" == talk.cause


@pytest.mark.parametrize(
    ("confidence", "action"), [(0.8, "call_tool"), (0.79, "handoff"), (0.0, "handoff")]
)
def test_a_tool_sets_its_own_threshold(confidence: float, action: str) -> None:
    """At its threshold a write runs, below it a person decides."""
    talk = Driver()
    talk.turn("Refund A-1", call())
    talk.result({"total": 3.5}, call("refund", confidence=confidence))

    assert action == talk.action.decision.action


@pytest.mark.parametrize(
    ("unscored", "changes", "steps"),
    [
        ("handoff", {"scored": False, "unscored_kind": True}, ["handoff", "handoff"]),
        ("accept", {"scored": False, "unscored_kind": True}, ["answer", "call_tool"]),
        ("accept", {"scored": True}, ["handoff", "handoff"]),
        ("accept", {"scored": False}, ["handoff", "handoff"]),
        (
            "accept",
            {"scored": False, "unscored_kind": True, "least_confidence": 0.1},
            ["handoff", "handoff"],
        ),
    ],
)
def test_catalog_says_what_a_decider_without_confidence_may_do(
    unscored: str, changes: dict[str, Any], steps: list[str]
) -> None:
    """Thresholds hold it back unless the catalog says that they are not for its kind.

    A reply that lacks the numbers which its decider gives otherwise, or which a calibration
    demands, stays below them.
    """
    given = RULES.catalog.thresholds.model_copy(update={"unscored": unscored})
    rules = replace(RULES, catalog=RULES.catalog.model_copy(update={"thresholds": given}))
    for proposals, step in (
        ((answer(confidence=0.0, **changes),), steps[0]),
        ((call(), call("refund", confidence=0.0, **changes)), steps[1]),
    ):
        talk = Driver(rules)
        talk.turn("Refund A-1", proposals[0])
        if len(proposals) > 1:
            talk.result({"total": 3.5}, proposals[1])
        assert step == talk.action.decision.action


def test_a_write_without_a_threshold_never_runs_unscored() -> None:
    """That thresholds are not for a decider gives it no right that nobody has."""
    given = RULES.catalog.thresholds.model_copy(update={"unscored": "accept"})
    rules = replace(RULES, catalog=RULES.catalog.model_copy(update={"thresholds": given}))
    talk = Driver(rules)
    talk.turn(
        "Close my account", call("close_account", confidence=0.0, scored=False, unscored_kind=True)
    )

    assert "below_threshold" == talk.cause


def test_thresholds_and_ties() -> None:
    """An action below its threshold is `below_threshold`, one too near another is `near_tie`."""
    talk = Driver()
    talk.turn("hello", answer(confidence=0.19))
    assert ("below_threshold", "uncertain") == (talk.cause, talk.action.decision.reason_code)
    talk.control("hand_back")
    talk.turn("hello", answer(margin=0.04))
    assert "near_tie" == talk.cause
    talk.control("hand_back")
    talk.turn("hello", answer(margin=0.05))
    assert "answer" == talk.action.decision.action


def test_a_refusal_names_its_rule() -> None:
    """The rule's approved text is what the customer reads."""
    talk = Driver()
    talk.turn("hello", refuse())

    assert "fraud" == talk.action.refusal.rule  # type: ignore[union-attr]
    assert "We do not do that." == talk.message.text


@pytest.mark.parametrize("cause", HANDOFF_CAUSES)
def test_causes_map_to_reasons(cause: str) -> None:
    """A decider's handoff carries the reason of its cause."""
    talk = Driver()
    talk.turn("hello", hand_off(handoff_cause=cause))

    assert cause == talk.cause
    assert reason_for(cause) == talk.action.decision.reason_code  # type: ignore[arg-type]


def test_a_handoff_without_a_cause() -> None:
    """A decider may hand off without one of our causes; its reason stays."""
    talk = Driver()
    talk.turn("hello", proposal("handoff", "uncertain", confidence=math.nan))

    assert talk.cause is None
    assert "uncertain" == talk.action.decision.reason_code


def test_no_proposal_at_all() -> None:
    """A decider that cannot be had is a handoff that says so."""
    talk = Driver()
    talk.turn("hello", Undecided("no proposal in 2 attempts", {"in_all": {"proposals": 0}}))

    assert "budget" == talk.cause
    assert "code" == talk.action.versions.model
    assert '{"detail":"no proposal in 2 attempts","in_all":{"proposals":0}}' == (
        talk.action.diagnostics_json
    )


def test_a_models_own_text() -> None:
    """An agent model may write the answer itself; what JSON cannot hold is replaced."""
    talk = Driver()
    talk.turn("hello", answer(None, text="Hi\ud800 there"))

    assert "Hi? there" == talk.action.answer.text  # type: ignore[union-attr]


def test_fingerprints() -> None:
    """Equal arguments in any order have equal fingerprints; others do not."""
    given = call_fingerprint("t", {"a": 1, "b": "x"})

    assert given == call_fingerprint("t", {"b": "x", "a": 1})
    assert given != call_fingerprint("t", {"a": 2, "b": "x"})
    assert given != call_fingerprint("u", {"a": 1, "b": "x"})


def test_judging_without_an_activation_is_a_defect() -> None:
    """The machine never does it."""
    talk = Driver()
    talk.turn("Where is A-1?", hand_off())

    with pytest.raises(AssertionError, match="activation"):
        judge(call(), talk.conversation, RULES)


def test_a_copy_without_an_activation_can_go_on() -> None:
    """A shadow that followed from the middle of a conversation opens the work itself."""
    talk = Driver()
    talk.turn("hello", ask())
    talk.state = replace(talk.conversation, activation=None)
    talk.turn("A-1", call())

    assert talk.action.turn_id is None
    assert 1 == talk.action.step


def test_another_subject_starts_a_new_epoch() -> None:
    """Values of the old subject need confirmation; what was just said belongs to the new one."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))
    talk.answered()
    assert (0, "order") == (talk.conversation.epoch, talk.conversation.subject)

    talk.turn("When do you open? For my fees.", answer("hours"))
    talk.answered()
    values = talk.conversation.values
    assert (1, "shop") == (talk.conversation.epoch, talk.conversation.subject)
    assert 0 == values["order_id"]["message"].epoch
    assert 1 == values["topic"]["message"].epoch

    talk.turn("And my order?", ask())
    assert {"topic": "fees"} == talk.requests[-1].known
    assert ["A-1"] == [one.value for one in talk.message.suggestions]


def test_an_answer_without_a_subject_changes_none() -> None:
    """A greeting leaves the subject alone; so does a model's own text."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("greeting"))
    talk.answered()
    talk.turn("hi", answer(None, text="Hi."))

    assert "order" == talk.conversation.subject


def test_fingerprints_are_of_what_arguments_mean() -> None:
    """The order of names does not matter, at any depth; the order of a list does."""
    one = call_fingerprint("t", {"a": [{"x": 1, "y": 2}, 3], "b": None})

    assert one == call_fingerprint("t", {"b": None, "a": [{"y": 2, "x": 1}, 3]})
    assert one != call_fingerprint("t", {"b": None, "a": [3, {"y": 2, "x": 1}]})
    assert one != call_fingerprint("u", {"a": [{"x": 1, "y": 2}, 3], "b": None})
