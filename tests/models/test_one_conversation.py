"""One conversation through every adapter: the same outcome, shown as a table (`pytest -rP`)."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.driving import Driver
from tests.models.adapters import ADAPTERS, KEY_VARIABLE, RULES, Adapter, talking
from tests.models.conversation import ANSWER, EXPECTED, Outcome, play
from tests.providers.decisions import DecisionsServer
from tests.providers.script import Said, Scripted, call
from tests.providers.server import ProviderServer
from turnstream.config import DecisionsSettings
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.models.decision_wire import DecisionsClient
from turnstream.models.decisions_api import DecisionModel
from turnstream.models.intent import Intents

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


RESPONSES: Final = ("openai_responses", "azure_openai responses")
"""They are read whole and never streamed; all others are both."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    adapter: str
    way: str
    outcome: Outcome | None
    requests: int
    problem: str = ""


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

    ways = {(one.adapter, one.way) for one in found}
    assert len(found) == len(ways)
    assert {
        (adapter.name, f"{style}, {read}")
        for adapter in ADAPTERS
        for style in ("native", "ReAct")
        for read in (("whole", "streamed") if adapter.name not in RESPONSES else ("whole",))
    } | {("decisions", "choices")} == ways
    assert [] == [one for one in found if one.outcome != EXPECTED]
