"""The conversation of `tests/models` with real models: only where somebody names some.

`TURNSTREAM_LIVE_CONFIG` is the path of a `turnstream.yaml` whose `deciders` are tried, with their
keys in the environment. Without it nothing here runs, and nothing leaves this machine.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.driving import Driver
from tests.models.adapters import RULES
from tests.network import NETWORK
from turnstream.config import load_settings
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.models.agent_model import AgentModel
from turnstream.models.connectors import AGENT_MODELS, agent_model

VARIABLE: Final = "TURNSTREAM_LIVE_CONFIG"


def sections() -> dict[str, Any]:
    """The agent models that are named."""
    path = os.environ.get(VARIABLE)
    if not path:
        return {}
    deciders = load_settings(Path(path)).deciders
    return {name: one for name, one in deciders.items() if isinstance(one, AGENT_MODELS)}


NAMED: Final = sections()


@pytest.fixture(autouse=True)
def _network(_this_machine_only: None) -> Iterator[None]:
    """Lets these tests out, and no others."""
    NETWORK.open = True
    yield
    NETWORK.open = False


@pytest.mark.live
@pytest.mark.skipif(not NAMED, reason=f"{VARIABLE} names no agent models")
@pytest.mark.parametrize("native", [True, False], ids=["native", "ReAct"])
@pytest.mark.parametrize("name", NAMED)
def test_model_asks_looks_up_and_answers(name: str, native: bool) -> None:
    """A question for the order, the call with what was said, and an answer with the result."""
    section = NAMED[name].model_copy(update={"native_tools": native})
    with asyncio.Runner() as runner:
        model: AgentModel = agent_model(section, catalog=RULES.catalog, decision_version="live")

        def propose(request: DecisionRequest) -> Proposal:
            reply: Proposal = runner.run(model.propose(request))
            return reply

        driver = Driver(RULES, decide=propose)
        driver.turn("Where is my order?")
        asked = driver.action.question
        driver.turn("A-7")
        called = driver.action.call
        driver.result({"status": "shipped", "total": 20.0})
        runner.run(model.close())

    assert asked is not None
    assert "order_id" == asked.field
    assert called is not None
    assert ("get_order", '{"order_id":"A-7"}') == (called.tool, called.arguments_json)
    assert "answer" == driver.action.decision.action
