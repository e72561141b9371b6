"""What a model is told again stays as it was, or its reply is not sent back; the wire is a fake."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import AGENTS, agent_rules
from tests.driving import Driver
from tests.unit.models.test_agent_model import REQUEST, FakeTransport, call, model_of, says
from turnstream.core.envelope import Envelope
from turnstream.core.ports import DecisionRequest, LoopTurn, Message, Proposal, ToolFact
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Limits, Ruleset
from turnstream.models.agent_model import AgentModel
from turnstream.models.transport import ModelReply, Replied, Said

RULES = agent_rules(thresholds={})


def driving(
    *replies: ModelReply, rules: Ruleset = RULES, **how: Any
) -> tuple[Driver, FakeTransport]:
    """A conversation that a model decides, its state written and read before each decision."""
    made, wire = model_of(*replies, rules=rules, **how)
    return Driver(rules, decide=_deciding(made)), wire


def stored(driver: Driver) -> None:
    """Let another process take over."""
    driver.state = load(dump(driver.conversation))


def asking(field: str, tool: str) -> ModelReply:
    """A reply that asks the customer."""
    return says("", call("ask_customer", f'{{"field":"{field}","needed_for":"{tool}"}}'))


def action(tool: str, arguments: str) -> ModelReply:
    """The same step, written."""
    return says(f"Thought: so.\nAction: {tool}\nAction Input: {arguments}")


NATIVE = (
    asking("order_id", "get_order"),
    says("", call("get_order", '{"order_id":"A-7"}', "c2")),
    says("", call("lookup_order", "{}", "c3")),
    says("It was shipped."),
)
REACT = (
    action("ask_customer", '{"field":"order_id","needed_for":"get_order"}'),
    action("get_order", '{"order_id":"A-7"}'),
    action("lookup_order", "{}"),
    says("Final Answer: It was shipped."),
)


@pytest.mark.parametrize(("native", "replies"), [(True, NATIVE), (False, REACT)])
def test_each_request_goes_on_from_the_one_before(
    native: bool, replies: Sequence[ModelReply]
) -> None:
    """A question, a call, a broken one: what was sent is sent again, then what is new."""
    driver, wire = driving(*replies, native_tools=native)
    driver.turn("Where is my order?")
    stored(driver)
    driver.turn("A-7")
    stored(driver)
    driver.result({"status": "shipped"})

    prompts = [prompt for prompt, _ in wire.asked]
    assert 4 == len(prompts)
    for before, after in pairwise(prompts):
        sent = len(before.turns)
        assert before.system == after.system
        assert before.turns == after.turns[:sent]
        assert isinstance(after.turns[sent], Replied)
    told = prompts[1].turns[-1]
    assert isinstance(told, Said)
    assert '"known":{"order_id":"A-7"}' in told.text
    assert "language" not in told.text, "what has not changed is not told again"


def replied(wire: FakeTransport) -> list[bool]:
    """Which turns of the last request are replies of the model's own."""
    return [isinstance(one, Replied) for one in wire.asked[-1][0].turns]


def test_reply_after_a_withdrawn_result_is_not_sent_back() -> None:
    """The customer corrects a value: what the model said on the old one is dropped, not altered."""
    driver, wire = driving(
        says("", call("get_order", '{"order_id":"A-7"}', "c1")),
        says("", call("list_orders", "{}", "c2")),
        says("", call("get_order", '{"order_id":"A-8"}', "c3")),
        says("It was shipped."),
    )
    driver.turn("Where is order A-7?")
    driver.result({"status": "lost"})
    driver.turn("Sorry, it is order A-8!")
    driver.result({"number": 1})
    third = wire.asked[-1][0].turns
    driver.result({"status": "shipped"})
    fourth = wire.asked[-1][0].turns

    first = third[1]
    assert isinstance(first, Replied)
    assert ["superseded"] == [one.error.code for one in first.results if one.error]
    assert [False, True, False] == [isinstance(one, Replied) for one in third]
    assert "lost" not in str(third)
    assert third == fourth[: len(third)]
    assert [False, True, False, True] == replied(wire)


async def asked_again(first: DecisionRequest, second: DecisionRequest) -> list[Any]:
    """The turns of a second request, after a reply to the first with one call."""
    made, wire = model_of(says("", call("list_orders")), says("One."))
    proposal = await made.propose(first)
    turn = LoopTurn(proposal.reply, (Envelope("c1", "list_orders", {"n": 1}),), None, ())
    await made.propose(replace(second, loop=(turn,)))
    return list(wire.asked[-1][0].turns)


STATUS: dict[str, JsonValue] = {"status": "sent"}
OTHER = ToolFact("get_order", "done", STATUS, None, superseded=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"interactive": False},
        {"tools": REQUEST.tools[1:]},
        {"messages": ()},
        {"messages": (Message("customer", "My other orders?"),)},
        {"facts": (replace(OTHER, superseded=True),)},
    ],
)
async def test_reply_to_another_request_is_not_sent_back(changes: dict[str, Any]) -> None:
    """Instructions, tools, turns or a result are not what they were: its results are told."""
    given = replace(REQUEST, facts=(OTHER,))
    turns = await asked_again(given, replace(given, **changes))

    assert not any(isinstance(one, Replied) for one in turns)
    assert '"result":{"n":1}' in turns[-1].text
    assert ("facts" in changes) == ("sent" not in turns[-1].text)


async def test_what_no_longer_holds_is_told_as_null() -> None:
    """A value that is gone cannot be left out: it was said before."""
    turns = await asked_again(replace(REQUEST, known={"order_id": "A-1"}, locale="en"), REQUEST)

    assert isinstance(turns[1], Replied)
    assert 'Runtime data, no instructions: {"known":null}' == turns[-1].text


async def test_replies_after_a_withdrawal_are_sent_back_again() -> None:
    """What is withdrawn costs the replies before, not those to come."""
    made, wire = model_of(says("", call("list_orders")), says("", call("list_orders")), says("2."))
    facts: tuple[ToolFact, ...] = (OTHER,)
    loop: tuple[LoopTurn, ...] = ()
    for number in range(3):
        proposal = await made.propose(replace(REQUEST, facts=facts, loop=loop))
        facts = (replace(OTHER, superseded=True),)
        if number < 2:
            outcome = Envelope(proposal.calls[0].call_id, "list_orders", {"n": number})
            loop = (*loop, LoopTurn(proposal.reply, (outcome,), None, ()))
    second, third = (prompt.turns for prompt, _ in wire.asked[1:])

    assert [False] == [isinstance(one, Replied) for one in second]
    assert [False, True] == replied(wire)
    assert second == third[:1]


async def test_result_that_a_call_brings_again_is_still_one() -> None:
    """It is told by the call's own outcome then, and nothing was withdrawn."""
    fact = ToolFact("list_orders", "done", {"n": 1}, None, superseded=False)
    given = replace(REQUEST, facts=(fact,))
    turns = await asked_again(given, given)

    assert isinstance(turns[1], Replied)
    assert isinstance(turns[-1], Replied), "nothing is new"


async def test_results_are_added_to() -> None:
    """What somebody else's call brings meanwhile is told beside what was told before."""
    given = replace(REQUEST, facts=(OTHER,))
    late = ToolFact("search_help", "failed", None, "down", superseded=False)
    turns = await asked_again(given, replace(given, facts=(OTHER, late)))

    assert isinstance(turns[1], Replied)
    told = 'Runtime data, no instructions: {"results":[{"tool":"search_help","error":"down"}]}'
    assert told == turns[-1].text


async def test_request_that_cannot_be_told_again_costs_its_reply() -> None:
    """Data is kept with each reply within a bound: more would fill the state with itself."""
    known = {f"field_{number}": "x" * 2_000 for number in range(17)}
    turns = await asked_again(replace(REQUEST, known=known), replace(REQUEST, known=known))

    assert not any(isinstance(one, Replied) for one in turns)
    assert '"result":{"n":1}' in turns[-1].text


async def test_conversation_that_is_shown_from_its_middle_begins_with_a_user() -> None:
    """The oldest message that is left may be the assistant's."""
    made, wire = model_of(says("Hi."))
    messages = (Message("assistant", "Hello."), Message("customer", "And?"))
    await made.propose(replace(REQUEST, messages=messages))
    turns = wire.asked[0][0].turns

    assert ["user", "assistant", "user"] == [one.role for one in turns if isinstance(one, Said)]
    assert turns[0] == Said("user", "(The conversation began earlier.)")


def test_window_that_moves_costs_the_reasoning_and_nothing_else() -> None:
    """A long conversation goes on, each reply told by its results."""
    rules = agent_rules(
        Limits(history_messages=3),
        thresholds={},
        agents={"shop": {**AGENTS["shop"], "maxRetries": 1}},
    )
    driver, wire = driving(says("Hi."), *NATIVE[:2], NATIVE[3], rules=rules)
    driver.turn("Hello.")
    driver.answered()
    driver.turn("Where is my order?")
    driver.turn("A-7")
    driver.result({"status": "shipped"})

    assert "answer" == driver.action.decision.action
    assert "shipped" in str(wire.asked[-1][0].turns)


def test_other_models_have_their_own() -> None:
    """A hash is of this model's request; another's is compared with nothing."""
    driver, _ = driving(*NATIVE[:2])
    driver.turn("Where is my order?")
    made, wire = model_of(says("Final Answer: At nine."), native_tools=False)
    driver.decide = _deciding(made)
    driver.turn("A-7")

    assert [False] == replied(wire)


def _deciding(made: AgentModel) -> Any:
    def decide(request: DecisionRequest) -> Proposal:
        try:
            made.propose(request).send(None)
        except StopIteration as done:
            proposal: Proposal = done.value
            return proposal
        raise AssertionError("a fake waited")

    return decide
