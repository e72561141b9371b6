"""An agent model in the machine: batches, retries, questions in the loop, confirmations."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import (
    AGENTS,
    RULES,
    TOOLS,
    agent_rules,
    asking,
    calling,
    doubting,
    saying,
    tool,
    wanting,
)
from tests.driving import Driver, answer, hand_off, proposal
from turnstream.core.bounds import CALL_BYTES, CALLS
from turnstream.core.events import SessionClaims
from turnstream.core.ports import LoopTurn, Proposal
from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Ruleset

LOOK = wanting("lookup_order", '{"order_id":"A-1"}', "look")
LIST = wanting("list_orders", '{"limit":3.0,"after":null}', "list")
BROKEN = wanting("list_orders", '{"status":"op', "broken")
GET = wanting("get_order", {"order_id": "A-1"}, "get")
CANCEL = wanting("cancel_order", {"order_id": "A-1"}, "cancel")


def talking(text: str = "Where is A-1?", *replies: Proposal, rules: Ruleset = RULES) -> Driver:
    """A conversation in which the customer has written and the model has replied."""
    talk = Driver(rules)
    talk.turn(text, *replies)
    return talk


def called(talk: Driver) -> list[CallPayload]:
    """The calls that the last input led to."""
    return [one.call for one in talk.of(ActionEvent) if one.call is not None]


def told(turn: LoopTurn) -> dict[str, JsonValue]:
    """Call id to the result, or to code and path of the error."""
    return {
        one.call_id: dict(one.result or {})
        if one.error is None
        else f"{one.error.code} {one.error.path or ''}".strip()
        for one in turn.envelopes
    }


def results(talk: Driver, *replies: Proposal) -> None:
    """Let all calls come back, the last one first."""
    waiting = [one.action_id for one in talk.conversation.outstanding]
    for left, action_id in reversed(list(enumerate(waiting))):
        talk.result({"status": f"of {left}"}, *([] if left else replies), action_id=action_id)


# --- several calls of one reply -----------------------------------------------------------------


def test_the_calls_of_a_reply_are_one_step() -> None:
    """Each is an action with an id, a place in the batch and a deadline of its own."""
    talk = talking("Where is A-1?", calling(LOOK, LIST))
    actions = talk.of(ActionEvent)

    assert [0, 1] == [one.batch_index for one in actions]
    assert [2, 2] == [one.batch_size for one in actions]
    assert [1, 1] == [one.step for one in actions]
    assert 1 == len({one.decision_id for one in actions})
    assert 2 == len({one.action_id for one in actions})
    assert actions[0].sequence + 1 == actions[1].sequence == talk.conversation.sequence
    assert ['{"order_id":"A-1"}', '{"limit":3}'] == [one.arguments_json for one in called(talk)]
    assert ['{"order_id":"A-1"}', '{"limit":3.0,"after":null}'] == [
        one.model_arguments_json for one in called(talk)
    ]
    assert ["call_deadline"] * 2 == [
        one.kind for one in talk.conversation.timers if one.kind == "call_deadline"
    ]
    assert 1 == talk.conversation.activation.steps  # type: ignore[union-attr]
    assert talk.conversation == load(dump(talk.conversation))


def test_the_model_goes_on_when_all_results_are_in() -> None:
    """In any order; each result stands under the id that the model gave its call."""
    talk = talking("Where is A-1?", calling(LOOK, LIST))
    results(talk, saying("Here."))
    (turn,) = talk.requests[-1].loop

    assert {"calls": ["look", "list"]} == turn.reply
    assert ["look", "list"] == [one.call_id for one in turn.envelopes]
    assert {"look": {"status": "of 0"}, "list": {"status": "of 1"}} == told(turn)
    assert "Here." == talk.action.answer.text  # type: ignore[union-attr]
    assert 2 == len(talk.requests)


def test_no_answer_while_a_call_is_outstanding() -> None:
    """One result of two asks nobody anything; late, repeated and unknown ones change nothing."""
    talk = talking("Where is A-1?", calling(LOOK, LIST))
    first, second = [one.action_id for one in talk.conversation.outstanding]
    talk.result({"n": 1}, action_id=second)
    talk.result({"n": 2}, action_id=second)
    talk.result({"n": 3}, action_id="made-up")
    talk.turn("Hello?")

    assert "waiting_calls" == talk.phase
    assert 1 == len(talk.requests)
    talk.result({"n": 4}, saying("Done."), action_id=first)
    assert {"look": {"n": 4}, "list": {"n": 1}} == told(talk.requests[-1].loop[0])
    talk.answered(saying("Hello."))
    assert () == talk.requests[-1].loop


def test_a_rejected_call_stands_beside_one_that_runs() -> None:
    """A01: the model is told of it with the result of the other; nothing is tried again now."""
    talk = talking("Where is A-1?", calling(BROKEN, LOOK, wanting("nothing", {}, "none")))

    assert ["lookup_order"] == [one.tool for one in called(talk)]
    assert 1 == talk.action.batch_size
    results(talk, saying("Here."))
    assert {"broken": "invalid_arguments", "look": {"status": "of 0"}, "none": "unknown_tool"} == (
        told(talk.requests[-1].loop[0])
    )
    assert talk.requests[-1].fault is None


def test_the_same_call_twice_runs_once() -> None:
    """Equal arguments in another spelling are the same call."""
    again = wanting("lookup_order", {"order_id": "A-1"}, "again")
    talk = talking("Where is A-1?", calling(LOOK, again))

    assert 1 == len(called(talk))
    results(talk, saying("Here."))
    assert "not_made" == told(talk.requests[-1].loop[0])["again"]


def test_calls_about_several_things_do_not_end_the_present_one() -> None:
    """What was said about it stays usable, also where another call stands first."""
    talk = talking("Where is A-1?", calling(GET))
    results(talk, calling(LIST, wanting("get_store_hours", {}, "h"), CANCEL))
    assert "Cancel order A-1?" == talk.message.text
    talk.turn("yes", calling(LIST, CANCEL))

    assert ("order", 0) == (talk.conversation.subject, talk.conversation.epoch)
    assert ["list_orders", "cancel_order"] == [one.tool for one in called(talk)]
    results(talk, calling(wanting("find_ticket", {"ticket_id": 1}, "t")))
    assert ("find_ticket", 1) == (talk.conversation.subject, talk.conversation.epoch)


def test_more_calls_than_anybody_needs() -> None:
    """The first of them run, the others are told that there are too many."""
    many = [wanting("find_ticket", {"ticket_id": n + 1}, f"c{n}") for n in range(CALLS + 5)]
    talk = talking("hello", calling(*many))

    assert CALLS == len(called(talk))
    results(talk, saying("Here."))
    assert ["not_made"] * 5 == list(told(talk.requests[-1].loop[0]).values())[CALLS:]


def test_calls_that_are_large_together() -> None:
    """Orders are kept in the state: what does not fit beside the others is told so."""
    large = "x" * (CALL_BYTES // 2)
    calls = [wanting("list_orders", {"after": f"{large}{n}"}, f"c{n}") for n in range(3)]
    talk = talking("hello", calling(*calls))

    assert 1 == len(called(talk))
    results(talk, saying("Here."))
    assert ["not_made"] * 2 == list(told(talk.requests[-1].loop[0]).values())[1:]


@pytest.mark.parametrize(
    ("first", "second"), [("", "b"), ("same", "same"), ("x" * 10_000, "b"), ("a\x00", "b")]
)
def test_ids_that_do_not_tell_calls_apart(first: str, second: str) -> None:
    """Nothing is made; the fault says so, and no id is given back that nobody could match."""
    odd = calling(replace(LOOK, call_id=first), replace(LIST, call_id=second))
    talk = talking("hello", odd, odd, saying("Sorry."))

    assert "ids that tell them apart" in str(talk.requests[-1].fault)
    assert () == talk.requests[-1].loop[0].envelopes
    assert "answer" == talk.action.decision.action


# --- faults and retries -------------------------------------------------------------------------


def test_a_model_corrects_itself_within_bounds() -> None:
    """Each retry gets the reply, the envelope and the fault; then the call is made."""
    talk = talking("hello", calling(BROKEN), calling(LIST))
    (turn,) = talk.requests[-1].loop

    assert "list_orders: parse" == talk.requests[-1].fault == turn.fault
    assert {"broken": "invalid_arguments"} == told(turn)
    assert ["list_orders"] == [one.tool for one in called(talk)]
    assert 0 == talk.conversation.activation.proposals  # type: ignore[union-attr]


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_at_the_limit_a_person_takes_over(retries: int) -> None:
    """What lacks is nothing that a customer could say."""
    agents = {"shop": {**AGENTS["shop"], "maxRetries": retries}}
    talk = talking("hello", *[calling(BROKEN)] * (retries + 1), rules=agent_rules(agents=agents))

    assert "schema_fail" == talk.cause
    assert "uncertain" == talk.action.decision.reason_code
    assert retries + 1 == len(talk.requests)


def test_at_the_limit_the_customer_is_asked_for_what_is_theirs_to_say() -> None:
    """Only for a required field, in approved words; the loop goes on with the reply."""
    guess = calling(wanting("get_order", {"order_id": "A-7"}, "guess"))
    talk = talking("Where is it?", guess, guess, guess)

    assert "Which order?" == talk.message.text
    assert ("ask", "order_id") == (
        talk.action.decision.action,
        talk.action.decision.missing_field,
    )
    talk.turn("A-1", calling(GET))
    last = talk.requests[-1].loop[-1]
    assert {"guess": "not_made"} == told(last)
    assert ["Which order?", "A-1"] == [one.text for one in last.heard]
    assert ["Where is it?"] == [one.text for one in talk.requests[-1].messages]
    assert ["get_order"] == [one.tool for one in called(talk)]


def test_nobody_is_asked_for_what_they_have_said() -> None:
    """The model writes it down wrongly: that is no reason to bother the customer."""
    wrong = calling(wanting("get_order", {"order_id": 1}, "wrong"))
    talk = talking("Where is A-1?", wrong, wrong, wrong)

    assert "schema_fail" == talk.cause


def test_a_field_that_the_catalog_does_not_define_cannot_be_asked_for() -> None:
    """There is no question for it."""
    tools = {
        **TOOLS,
        "odd": tool({"shade": {}}, ["shade"], arguments={"shade": {"provenance": ["message"]}}),
    }
    guess = calling(wanting("odd", {}, "guess"))
    talk = talking("hello", guess, guess, guess, rules=agent_rules(tools=tools))

    assert "schema_fail" == talk.cause


def test_nobody_is_asked_where_nobody_can_be() -> None:
    """On such a channel the fault goes to a person like any other."""
    guess = calling(wanting("get_order", {}, "guess"))
    talk = Driver(RULES)
    talk.turn("Where is it?", guess, guess, guess, channel_id="mail")

    assert "schema_fail" == talk.cause


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (calling(LOOK, missing_field="order_id"), "forbids missing_field"),
        (replace(calling(LOOK), reason_code="missing_input"), "allows reason_code"),
        (calling(LOOK, tool="get_order"), "none of those that are called"),
        (saying("Hi", calls=(LOOK,)), "'answer' makes no call"),
        (hand_off(calls=(LOOK,), reply=1), "'handoff' makes no call"),
        (replace(asking(), calls=(LOOK, LIST)), "a question is asked alone"),
        (calling(LOOK, confidence=7.0), "numbers from 0 to 1"),
    ],
)
def test_contradictory_replies(reply: Proposal, fault: str) -> None:
    """A call plus a missing argument, an answer plus a call: nothing of it is done."""
    talk = talking("hello", reply, saying("Sorry."))

    assert fault in str(talk.requests[-1].fault)
    assert ["not_made"] * len(reply.calls) == list(told(talk.requests[-1].loop[0]).values())
    assert "answer" == talk.action.decision.action


def test_a_tool_may_be_named_by_its_calls_alone() -> None:
    """Several calls have no one tool; an empty name is an unknown tool, not a broken contract."""
    talk = talking("hello", calling(wanting("", {}), tool=None), calling(LOOK, LIST, tool=None))

    assert "unknown tool; allowed: lookup_order" in str(talk.requests[-1].fault)
    assert 2 == len(called(talk))


def test_faults_of_calls_repeat_nothing_that_was_proposed() -> None:
    """What a model wrote reaches itself alone, shortened."""
    odd = calling(
        wanting("SECRET" * 2_000, {"SECRET": 1}, "c1"),
        wanting("list_orders", {"SECRET": "SECRET"}, "c2"),
        wanting("get_order", {"order_id": "SECRET"}, "c3"),
        reply=None,
    )
    talk = talking("hello", odd, odd, odd)

    assert "SECRET" not in talk.action.model_dump_json()
    assert "SECRET" not in str(talk.requests[-1].fault)
    assert all(len(one.name) <= 64 for one in talk.requests[-1].loop[0].envelopes)


def test_rights_and_thresholds_decide_about_the_whole_reply() -> None:
    """Nothing of a reply runs that wants what the session may not have, or that is doubtful."""
    refused = talking("Refund A-1", calling(LOOK, wanting("refund", {"order_id": "A-1"}, "r")))
    nobody = Driver(RULES)
    nobody.turn("Refund A-1", calling(LOOK, wanting("refund", {}, "r")), claims=None)
    doubtful = talking("Cancel A-1", doubting(calling(LOOK, CANCEL), 0.4))

    assert "missing_permission" == nobody.action.refusal.rule  # type: ignore[union-attr]
    assert "below_threshold" == doubtful.cause
    assert ["lookup_order"] == [one.tool for one in called(refused)]


def test_a_right_that_some_values_take() -> None:
    """Without it the call is refused like one of a tool that takes it."""
    rule = {"kind": "right", "argument": "status", "values": ["closed"], "permission": "archive"}
    tools = {**TOOLS, "list_orders": {**TOOLS["list_orders"], "rules": [rule]}}
    talk = talking(
        "hello",
        calling(wanting("list_orders", {"status": "closed"})),
        rules=agent_rules(tools=tools),
    )

    assert "archive" == talk.action.refusal.detail  # type: ignore[union-attr]


def test_a_call_is_not_repeated_without_news() -> None:
    """The model is told; if it insists, a person is."""
    talk = talking("hello", calling(LOOK))
    results(talk, calling(LOOK), calling(LOOK), calling(LOOK))

    assert "no_progress" == talk.cause
    assert {"look": "not_made"} == told(talk.requests[-1].loop[-1])


def test_the_steps_are_counted_whatever_the_agent_says() -> None:
    """`max_steps` and `schema_fail` end the loop also where `stopWhen` does not name them."""
    agents = {"shop": {**AGENTS["shop"], "maxSteps": 2, "stopWhen": ["final_answer"]}}
    rules = agent_rules(agents=agents)
    talk = talking("hello", calling(LOOK), rules=rules)
    results(talk, calling(LIST))
    results(talk)
    other = talking("hello", *[calling(BROKEN)] * 3, rules=rules)
    cancelled = talking("hello", calling(LOOK), rules=rules)
    cancelled.control("cancel")

    assert "max_steps" == talk.cause
    assert "schema_fail" == other.cause
    assert "waiting_calls" == cancelled.phase
    assert () == cancelled.last


def test_a_cancellation_ends_the_loop() -> None:
    """Where the agent lets it: the loop is gone, and late results find nobody."""
    talk = talking("hello", calling(LOOK, LIST))
    ids = [one.action_id for one in talk.conversation.outstanding]
    talk.control("cancel")
    assert "user_cancel" == talk.cause
    assert 2 == len(talk.action.handoff.calls)  # type: ignore[union-attr]
    talk.result(None, action_id=ids[1])

    assert "held" == talk.phase
    assert talk.conversation.activation is None
    talk.control("forget")
    assert "lookup" not in dump(talk.conversation).decode()


def test_a_deadline_of_one_call_ends_the_work() -> None:
    """The others may still come back; nobody waits for them."""
    talk = talking("hello", calling(LOOK, LIST))
    talk.timer("call_deadline")

    assert "tool_unavailable" == talk.cause


def test_a_replayed_input_makes_calls_of_its_own() -> None:
    """After a handoff of the same input ids go on behind the index that it took."""
    first, again = talking("hello", calling(LOOK, LIST)), Driver(RULES)
    again.send(first.log[0].event, calling(LOOK, LIST), given_up=1)
    ids = [[one.action_id for one in talk.of(ActionEvent)] for talk in (first, again)]

    assert ids[0][1] == ids[1][0]
    assert 3 == len({*ids[0], *ids[1]})


# --- questions in the loop ----------------------------------------------------------------------


def test_a_question_is_a_call_of_the_loop() -> None:
    """Its reply is the outcome of the call; what else was said is not lost."""
    talk = talking("Where is my order?", asking())
    talk.turn("no idea", reply_to_question_id=talk.conversation.open_question.question_id)  # type: ignore[union-attr]
    talk.turn("A-1", calling(GET))
    request = talk.requests[-1]

    assert {"q1": {"field": "order_id", "reply": "A-1"}} == told(request.loop[0])
    assert ["Where is my order?"] == [one.text for one in request.messages]
    assert ["no idea"] == [one.text for one in request.loop[0].heard]
    assert "accepted" == talk.action.question_ended.outcome  # type: ignore[union-attr]


def test_a_question_that_is_not_answered_has_an_outcome_too() -> None:
    """Providers want one for each call; the words of the customer stand beside it."""
    talk = talking("Where is my order?", asking())
    talk.turn("When do you open?", saying("At nine."))
    (turn,) = talk.requests[-1].loop

    assert {"q1": "not_answered"} == told(turn)
    assert ["Which order?", "When do you open?"] == [one.text for one in turn.heard]
    assert "cancelled" == talk.action.question_ended.outcome  # type: ignore[union-attr]


def test_the_end_of_a_question_is_said_once_in_a_batch() -> None:
    """In the first of its actions."""
    talk = talking("Where is my order?", asking())
    talk.turn("A-1", calling(GET, LOOK))

    assert [True, False] == [one.question_ended is not None for one in talk.of(ActionEvent)]


def test_a_history_that_was_cut_gives_each_reply_its_own_words() -> None:
    """The loop says when each reply was given; what is gone is gone, the rest stays in place."""
    limits = replace(RULES.limits, history_messages=2)
    talk = talking("Where is my order?", asking(), rules=agent_rules(limits))
    talk.turn("A-1", asking("topic", "search_help", "q2"))
    talk.turn("fees", saying("Here."))
    request = talk.requests[-1]

    assert () == request.messages
    assert [(), ()] == [one.heard for one in request.loop]
    assert {"q2": {"field": "topic", "reply": "fees"}} == told(request.loop[1])


def test_words_between_replies() -> None:
    """A correction that came while calls were outstanding stands after the reply that made them."""
    talk = talking("Where is A-1?", calling(GET))
    talk.turn("Sorry, A-2")
    results(talk, calling(wanting("get_order", {"order_id": "A-2"}, "new")))
    request = talk.requests[-1]

    assert {"get": "superseded"} == told(request.loop[0])
    assert ["Sorry, A-2"] == [one.text for one in request.loop[0].heard]
    assert ['{"order_id":"A-2"}'] == [one.arguments_json for one in called(talk)]


# --- confirmations ------------------------------------------------------------------------------


def test_a_call_that_wants_a_yes() -> None:
    """The customer sees with what it is made; the yes is for that call, once."""
    talk = talking("Cancel A-1", calling(CANCEL))
    assert "Cancel order A-1?" == talk.message.text
    assert "sure" == talk.action.decision.missing_field
    talk.turn("yes", calling(CANCEL))
    assert ["cancel_order"] == [one.tool for one in called(talk)]
    assert {} == talk.conversation.activation.confirming  # type: ignore[union-attr]
    results(talk, calling(LOOK))
    results(talk, calling(CANCEL))

    assert "Cancel order A-1?" == talk.message.text


def test_a_yes_to_one_call_is_none_to_another() -> None:
    """Nor does it undo a no: each call keeps its own answer."""
    other = wanting("cancel_order", {"order_id": "A-2"}, "other")
    talk = Driver(RULES)
    talk.turn("Cancel A-1", calling(CANCEL))
    talk.turn("no", saying("Fine."))
    assert "not_made" == told(talk.requests[-1].loop[0])["cancel"]
    talk.answered()

    talk = Driver(RULES)
    talk.turn("Cancel A-1", calling(CANCEL))
    talk.turn("no", calling(CANCEL), saying("Fine."))
    assert {"cancel": "not_confirmed"} == told(talk.requests[-1].loop[1])
    talk.answered()
    talk.turn("Then A-2", calling(other))
    assert "Cancel order A-2?" == talk.message.text
    talk.turn("yes", calling(replace(CANCEL, call_id="again")), calling(other))
    assert ['{"order_id":"A-2"}'] == [one.arguments_json for one in called(talk)]


def test_a_yes_does_not_undo_a_no() -> None:
    """Two calls of one tool are asked about by one field; each keeps the answer that it got."""
    drop = tool({"id": {"type": "integer"}}, ["id"], confirm="sure")
    first, second = (wanting("drop", {"id": n}, f"d{n}") for n in (1, 2))
    talk = talking("Drop both", calling(first), rules=agent_rules(tools={**TOOLS, "drop": drop}))
    talk.turn("no", calling(second))
    talk.turn("yes", calling(first, second))

    assert ['{"id":2}'] == [one.arguments_json for one in called(talk)]
    results(talk, saying("Done."))
    assert {"d1": "not_confirmed", "d2": {"status": "of 0"}} == told(talk.requests[-1].loop[-1])


def test_a_no_that_a_model_will_not_hear() -> None:
    """The call is never made; a person is told what the customer wanted."""
    talk = talking("Cancel A-1", calling(CANCEL))
    talk.turn("no", *[calling(CANCEL)] * 3)

    assert "user_cancel" == talk.cause


def test_another_value_wants_another_yes() -> None:
    """The yes was to the arguments that were shown."""
    talk = talking("Cancel A-1", calling(CANCEL))
    talk.turn("A-2 rather", calling(wanting("cancel_order", {"order_id": "A-2"}, "c2")))
    assert "Cancel order A-2?" == talk.message.text
    talk.turn("yes", calling(wanting("cancel_order", {"order_id": "A-2"}, "c3")))

    assert ['{"order_id":"A-2"}'] == [one.arguments_json for one in called(talk)]


def test_decision_models_are_confirmed_as_well() -> None:
    """Code filled the arguments; a no ends the work with a person."""
    named = proposal("call_tool", "lookup_required", tool="cancel_order")
    talk = talking("Cancel A-1", named)
    assert "Cancel order A-1?" == talk.message.text
    talk.turn("no", named)
    assert "user_cancel" == talk.cause

    other = talking("Cancel A-1", named)
    other.turn("yes", named)
    assert ["cancel_order"] == [one.tool for one in called(other)]
    assert called(other)[0].model_arguments_json is None


@pytest.mark.parametrize("reply", ["ok, forget it", "Yes, don't cancel", "is it ok if I keep it?"])
@pytest.mark.parametrize("kind", ["agent", "decision"])
def test_a_reply_that_is_not_clearly_a_yes_makes_no_call(kind: str, reply: str) -> None:
    """The customer is asked again, whatever the model makes of it."""
    named = proposal("call_tool", "lookup_required", tool="cancel_order")
    again = calling(CANCEL) if kind == "agent" else named
    talk = talking("Cancel A-1", again)
    talk.turn(reply, again)

    assert [] == called(talk)
    assert "Cancel order A-1?" == talk.message.text


@pytest.mark.parametrize(
    ("changes", "channel", "cause"),
    [
        ({}, "mail", "no_interactive_channel"),
        ({"agents": {"shop": {**AGENTS["shop"], "maxQuestions": 0}}}, "web", "budget"),
        ({"fields": {"sure": {"description": "S.", "type": "boolean"}}}, "web", "tool_unavailable"),
        (
            {"fields": {"sure": {"description": "S.", "type": "boolean",
                                 "question": {"en": "{gone}?"}}}},
            "web",
            "tool_unavailable",
        ),
    ],
)  # fmt: skip
def test_without_a_question_nothing_is_done(
    changes: dict[str, Any], channel: str, cause: str
) -> None:
    """What must be confirmed and cannot be goes to a person."""
    if "fields" in changes:
        changes = {"fields": {**RULES.catalog.model_dump()["fields"], **changes["fields"]}}
    talk = Driver(agent_rules(**changes))
    talk.turn("Cancel A-1", calling(CANCEL), channel_id=channel)

    assert cause == talk.cause


def test_arguments_too_long_to_be_asked_about() -> None:
    """A question that no channel would show is no question."""
    tools = {
        **TOOLS,
        "note_down": tool({"note": {"type": "string"}}, ["note"], confirm="sure"),
    }
    fields = {**RULES.catalog.model_dump()["fields"]}
    fields["sure"] = {"description": "S.", "type": "boolean", "question": {"en": "{note} " * 9}}
    talk = talking(
        "hello",
        calling(wanting("note_down", {"note": "x" * 8_000})),
        rules=agent_rules(tools=tools, fields=fields),
    )

    assert "tool_unavailable" == talk.cause


# --- other customers, other answers -------------------------------------------------------------


def test_another_customer_sees_nothing_of_the_first() -> None:
    """What the model was told and has said since goes with the claims."""
    talk = talking("Where is A-1?", calling(GET))
    results(talk, asking("topic", "search_help"))
    talk.turn(
        "fees",
        saying("Here."),
        claims=SessionClaims(subject_id="c2", permissions=(), values={"customer": "c2"}),
    )

    assert () == talk.requests[-1].loop
    assert [True] == [one.superseded for one in talk.requests[-1].facts]


def test_decision_models_leave_no_trace_in_the_loop() -> None:
    """Their proposals have no reply that anybody would give back."""
    talk = talking("hello", proposal("delete", "unsupported"), answer())

    assert () == talk.requests[-1].loop
