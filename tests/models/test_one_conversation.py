"""One conversation through every adapter: the same outcome, shown as a table (`pytest -rP`).

The customer asks for an order without naming it. The model asks which; looks the order up; answers
with the result. Then the customer asks when the shop opens, and the model gives the approved text.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from tests.driving import Driver
from tests.models.adapters import ADAPTERS, KEY_VARIABLE, RULES, Adapter, talking
from tests.providers.decisions import DecisionsServer
from tests.providers.script import Said, Scripted, call
from tests.providers.server import ProviderServer
from turnstream.config import DecisionsSettings
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent
from turnstream.models.decision_wire import DecisionsClient
from turnstream.models.decisions_api import DecisionModel
from turnstream.models.intent import Intents

STATUS: Final[dict[str, JsonValue]] = {"status": "shipped", "total": 20.0}
ANSWER: Final = "Order A-7 is shipped; it costs 20.0."
"""Of the model's own words, and of the approved text: the same."""

NATIVE: Final[tuple[Scripted, ...]] = (
    call("ask_customer", '{"field":"order_id","needed_for":"get_order"}', reasoning="Which one?"),
    call("get_order", '{"order_id":"A-7"}', reasoning="That one."),
    Said(text=ANSWER),
    call("give_approved_answer", '{"answer_id":"hours"}', reasoning="There is a text for it."),
)


def _action(tool: str, **arguments: str) -> Said:
    given = json.dumps(arguments)
    return Said(text=f"Thought: I need it.\nAction: {tool}\nAction Input: {given}")


REACT: Final[tuple[Scripted, ...]] = (
    _action("ask_customer", field="order_id", needed_for="get_order"),
    _action("get_order", order_id="A-7"),
    Said(text=f"Thought: That is all.\nFinal Answer: {ANSWER}"),
    _action("give_approved_answer", answer_id="hours"),
)

CHOICES: Final[tuple[Scripted, ...]] = tuple(
    Said(text=option)
    for option in (
        *("ask", "get_order"),
        *("tool", "get_order"),
        *("answer", "order_status"),
        *("answer", "hours"),
    )
)
"""A decision model chooses the step, then what it is about."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the conversation came to."""

    steps: tuple[str, ...]
    """Action of each step, with what it is about."""
    texts: tuple[str, ...]
    """What the customer was shown."""


EXPECTED: Final = Outcome(
    ("ask order_id", 'call_tool get_order {"order_id":"A-7"}', "answer", "answer"),
    ("Which order?", ANSWER, "We open at nine."),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    adapter: str
    way: str
    outcome: Outcome | None
    requests: int
    problem: str = ""


def play(driver: Driver) -> Outcome:
    """Let the customer write, the tool reply and the answers be composed."""
    driver.turn("Where is my order?")
    texts = [driver.message.text]
    driver.turn("A-7")
    driver.result(STATUS)
    texts.append(compose(driver))
    driver.turn("And when do you open?")
    texts.append(compose(driver))
    return Outcome(tuple(_step(one) for one in driver.actions), tuple(texts))


def compose(driver: Driver) -> str:
    """Do what the answer role does: fill in an approved text, or give the model's own."""
    answer = driver.action.answer
    assert answer is not None
    texts = {"order_status": ANSWER, "hours": "We open at nine."}
    text = answer.text if answer.answer_id is None else texts[answer.answer_id]
    assert text is not None
    driver.answered(text=text)
    return text


def _step(action: ActionEvent) -> str:
    done = action.decision.action
    if action.question is not None:
        return f"{done} {action.question.field}"
    if action.call is not None:
        return f"{done} {action.call.tool} {action.call.arguments_json}"
    return done


def through_adapter(adapter: Adapter, *, native: bool, stream: bool) -> Row:
    """Play it through an agent model's adapter."""
    how: dict[str, Any] = {"native_tools": native}
    if adapter.streams:
        how["stream"] = stream

    def played() -> tuple[Outcome, ProviderServer]:
        with talking(adapter, *(NATIVE if native else REACT), **how) as talk:
            outcome = play(talk.driver)
        for heard in talk.server.heard:  # the way is the one that the line names
            assert stream == talk.server.streams(heard)
            assert native == ("tools" in heard.json or "toolConfig" in heard.json)
        return outcome, talk.server

    way = f"{'native' if native else 'ReAct'}, {'streamed' if stream else 'whole'}"
    return row(adapter.name, way, played)


def through_decisions() -> Row:
    """Play it through the decisions API."""

    def played() -> tuple[Outcome, ProviderServer]:
        with asyncio.Runner() as runner, DecisionsServer(*CHOICES) as server:
            section = DecisionsSettings.model_validate(
                {
                    "kind": "decisions",
                    "base_url": server.url,
                    "model": "acme/decider-1",
                    "api_key": f"env:{KEY_VARIABLE}",
                }
            )
            model = DecisionModel(
                section,
                catalog=RULES.catalog,
                decision_version="d1",
                client=DecisionsClient(section),
                intents=Intents(RULES.catalog),
            )

            def propose(request: DecisionRequest) -> Proposal:
                return runner.run(model.propose(request))

            try:
                return play(Driver(RULES, decide=propose)), server
            finally:
                runner.run(model.close())

    return row("decisions", "choices", played)


def row(name: str, way: str, played: Callable[[], tuple[Outcome, ProviderServer]]) -> Row:
    """A line, whatever came of it."""
    try:
        outcome, server = played()
    except Exception as error:  # noqa: BLE001 - the table names every adapter that fails
        return Row(name, way, None, 0, f"{type(error).__name__}: {error}"[:300])
    return Row(name, way, outcome, len(server.heard))


def rows() -> Iterator[Row]:
    """Every adapter, natively and in ReAct, whole and streamed where both exist."""
    for adapter in ADAPTERS:
        for stream in (False, True) if adapter.streams else (False,):
            yield through_adapter(adapter, native=True, stream=stream)
            yield through_adapter(adapter, native=False, stream=stream)
    yield through_decisions()


def table(found: list[Row]) -> str:
    """The lines, as text."""
    lines = [f"{'adapter':<24} {'way':<18} {'requests':>8}  outcome"]
    for one in found:
        steps = " -> ".join(one.outcome.steps) if one.outcome is not None else one.problem
        lines.append(f"{one.adapter:<24} {one.way:<18} {one.requests:>8}  {steps}")
    return "\n".join(lines)


def test_one_conversation_has_the_same_outcome_through_every_adapter() -> None:
    """Same steps, same call, same texts; each server has judged every request."""
    found = list(rows())
    print(table(found))

    assert [] == [one for one in found if one.outcome != EXPECTED]
