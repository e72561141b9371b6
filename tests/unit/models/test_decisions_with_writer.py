"""A decision model chooses, an agent model writes the arguments: one conversation of both."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from tests.decisions_service import Service
from tests.driving import Driver
from tests.unit.models.test_decisions_api import CATALOG, LETTER, RULES, actions
from turnstream.models.agent_model import AgentModel
from turnstream.models.transport import KeptCall, ModelCall, ModelReply, Prompt, ToolForm, Wire


@dataclass
class Writing:
    """A provider whose model calls the tool that it is shown, with these arguments in turn."""

    arguments: list[str]
    form: str = "test/1"
    place: str = "here"
    model: str = "writer-1"
    tools: list[list[str]] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Call the first tool of the catalog among those shown."""
        names = [tool.name for tool in tools]
        self.tools.append(names)
        self.prompts.append(prompt)
        tool = next(name for name in names if name in CATALOG.tools)
        call = ModelCall(f"call_{len(self.tools)}", tool, self.arguments.pop(0))

        def keep(calls: Sequence[KeptCall], text: str | None) -> JsonValue:
            return {"calls": [one.call_id for one in calls], "text": text}

        return ModelReply("", (call,), "tool_calls", keep)

    async def close(self) -> None:
        """Nothing is held."""


def test_the_choice_is_the_one_models_and_the_arguments_are_the_others() -> None:
    """A made-up number is refused by the gates and told to the writer; the given one is used."""
    writing = Writing(['{"order_number": "A-9999"}', '{"order_number": "A-1001"}'])
    writer = AgentModel(
        writing,
        catalog=CATALOG,
        decision_version="d1",
        wire=Wire("openai"),
        native_tools=True,
        clock=lambda: 0.0,
    )
    steps = ["tool", "get_order_status", "tool", "get_order_status", "answer", "order_status"]
    service = Service([*steps])
    model = service.model(CATALOG, arguments=writer)
    driver = Driver(rules=RULES, decide=lambda asked: asyncio.run(model.propose(asked)))

    driver.turn(f"{LETTER} Commande A-1001.")
    called = driver.action
    driver.result({"status": "expédiée"})
    driver.answered()
    service.finish()

    assert [("call_tool", "get_order_status"), ("answer", None)] == actions(driver)
    assert called.call is not None
    assert {"order_number": "A-1001"} == orjson.loads(called.call.arguments_json)
    notes = orjson.loads(called.diagnostics_json)
    assert (0.8, writer.name) == (notes["confidence"], notes["arguments_by"])
    assert ["cancel_order" in names for names in writing.tools] == [False, False]
    assert "provenance" in str(writing.prompts[1])
    assert (
        'result of get_order_status: {"status":"expédiée"}'
        in (service.requests[4]["state"]["conversation"])
    )
