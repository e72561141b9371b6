"""The conversation of `tests/models` with real models: only where somebody names some.

`TURNSTREAM_LIVE_CONFIG` is the path of a `turnstream.yaml` whose `deciders` are tried, with their
keys in the environment. Without it nothing here runs, and nothing leaves this machine; a section
whose keys are not there is skipped, and the reason names them.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.driving import Driver
from tests.models.adapters import RULES
from tests.models.conversation import EXPECTED, play
from tests.network import NETWORK
from turnstream.config import load_settings
from turnstream.config.secrets import SecretRef, SecretUnavailable
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

ABSENT: Final = f"{VARIABLE} names no turnstream.yaml with agent models among its deciders"


def unreadable_keys(section: Any) -> list[str]:
    """The references of a section that cannot be resolved here."""
    references = [value for _, value in section if isinstance(value, SecretRef)]
    return sorted({str(one) for one in references if not is_there(one)})


def is_there(reference: SecretRef) -> bool:
    """Whether a reference can be resolved."""
    try:
        reference.resolve()
    except SecretUnavailable:
        return False
    return True


@pytest.fixture(autouse=True)
def _network(_this_machine_only: None) -> Iterator[None]:
    """Lets these tests out, and no others."""
    NETWORK.open = True
    yield
    NETWORK.open = False


@pytest.mark.live
@pytest.mark.parametrize("native", [True, False], ids=["native", "ReAct"])
@pytest.mark.parametrize("name", list(NAMED) or [pytest.param("", marks=pytest.mark.skip(ABSENT))])
def test_real_model_comes_to_the_same(name: str, native: bool) -> None:
    """Question, call, answer, and the approved text: steps as scripted, words its own."""
    lacking = unreadable_keys(NAMED[name])
    if lacking:
        pytest.skip(f"deciders.{name} needs {', '.join(lacking)}")
    section = NAMED[name].model_copy(update={"native_tools": native})
    with asyncio.Runner() as runner:
        model: AgentModel = agent_model(section, catalog=RULES.catalog, decision_version="live")

        def propose(request: DecisionRequest) -> Proposal:
            reply: Proposal = runner.run(model.propose(request))
            return reply

        outcome = play(Driver(RULES, decide=propose))
        runner.run(model.close())

    assert EXPECTED.steps == outcome.steps
    assert EXPECTED.texts[0] == outcome.texts[0], "the approved question"
