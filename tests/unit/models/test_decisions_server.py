"""A decision model against a server that judges every request, over a real connection."""

import asyncio
from collections.abc import Sequence

import orjson
import pytest

from tests.decisions_service import settings
from tests.driving import Driver
from tests.providers.decisions import DecisionsServer
from tests.providers.script import Failure, FailureKind, Said
from tests.providers.server import KEY
from tests.unit.models.test_decisions_api import CATALOG, LETTER, RULES, actions, request
from turnstream.core.ports import DeciderRefused, DeciderUnavailable, DecisionRequest, Proposal
from turnstream.models.decision_wire import DecisionsClient
from turnstream.models.decisions_api import DecisionModel
from turnstream.models.intent import Intents

INTENTS = Intents(CATALOG)


async def proposed(server: DecisionsServer, asked: DecisionRequest) -> Proposal:
    """Ask once, with a client of its own."""
    section = settings(base_url=server.url, api_key="env:DECISIONS_KEY", timeout_seconds=0.5)
    model = DecisionModel(
        section,
        catalog=CATALOG,
        decision_version="d1",
        client=DecisionsClient(section),
        intents=INTENTS,
    )
    try:
        return await model.propose(asked)
    finally:
        await model.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that the server wants."""
    monkeypatch.setenv("DECISIONS_KEY", KEY)


def said(options: Sequence[str]) -> list[Said]:
    """One reply for each option."""
    return [Said(text=option) for option in options]


def test_a_conversation_over_a_connection() -> None:
    """Every request is in the documented form; question, call and answer follow each other."""
    steps = ["ask", "get_order_status", "tool", "get_order_status", "answer", "order_status"]
    with DecisionsServer(*said(steps)) as server:
        driver = Driver(rules=RULES, decide=lambda one: asyncio.run(proposed(server, one)))
        driver.turn(LETTER)
        driver.turn("A-1001")
        driver.result({"status": "expédiée"})
        driver.answered()

    assert [("ask", None), ("call_tool", "get_order_status"), ("answer", None)] == actions(driver)
    notes = orjson.loads(driver.actions[-1].diagnostics_json)
    assert (24, 10, 0.001, 2) == (
        notes["input_tokens"],
        notes["output_tokens"],
        notes["cost"],
        notes["requests"],
    )


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("rate_limit", False),
        ("server_error", False),
        ("silent", False),
        ("cut", False),
        ("bad_json", False),
        ("not_json", False),
        ("unauthorised", True),
        ("not_found", True),
        ("redirect", True),
    ],
)
async def test_a_failure_is_told_by_kind(kind: FailureKind, *, refused: bool) -> None:
    """Passing, or for whoever operates the deployment; nothing is proposed."""
    with DecisionsServer(Failure(kind)) as server:
        with pytest.raises(DeciderUnavailable) as raised:
            await proposed(server, request())

        assert refused == isinstance(raised.value, DeciderRefused)
        assert raised.value.retry_after_seconds == (2.0 if kind == "rate_limit" else None)
        assert 1 == len(server.heard)
