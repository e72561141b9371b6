"""Handoffs that a real A2A agent is told of, and what keeps it from being told."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AgentCard

from tests.a2a_process import SKILL, agent_app, card
from tests.mcp_serving import Front, serving
from turnstream.core.ports import HandoffNotice
from turnstream.core.servers import RemoteAgent
from turnstream.tools import BindingError, Egress
from turnstream.tools.a2a import A2AAgent

NOTICE = HandoffNotice(
    message_id="action-1",
    conversation_id="c-1",
    text="uncertain; last message: hello",
    data={"queue": "complaints", "cause": None, "values": [{"field": "order_id", "epoch": 1}]},
    traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
)


@dataclass
class Bench:
    """What a test opens, closed at its end."""

    stack: AsyncExitStack
    folder: Path

    def told(self) -> list[dict[str, Any]]:
        """What the agent has been told."""
        found = self.folder / "told"
        return [json.loads(line) for line in found.read_text().splitlines() if found.exists()]

    async def agent(
        self, described: AgentCard | None = None, **changes: Any
    ) -> tuple[A2AAgent, Front]:
        """An agent that is there."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shown = described or card(f"http://127.0.0.1:{port}/")
        front = Front(agent_app(self.folder, shown))
        url = await self.stack.enter_async_context(serving(front, port=port))
        return self.known(url, **changes), front

    def known(self, url: str, **changes: Any) -> A2AAgent:
        """An agent, whether it is there or not."""
        given = {"url": url, "skill": SKILL, "timeout_seconds": 20, **changes}
        agent = A2AAgent(RemoteAgent.model_validate(given), egress=Egress(["127.0.0.1"]))
        self.stack.push_async_callback(agent.close)
        return agent


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Nobody there yet."""
    async with AsyncExitStack() as stack:
        yield Bench(stack, tmp_path)


async def test_an_agent_is_told(bench: Bench) -> None:
    """The action's id is the message's, the handoff its data; the card is read once."""
    agent, front = await bench.agent()

    receipts = [await agent.tell(NOTICE) for _ in range(2)]

    assert [True, True] == [one.taken for one in receipts]
    first = bench.told()[0]
    assert ("action-1", NOTICE.text) == (first["id"], first["text"])
    assert {"skill": SKILL, "traceparent": NOTICE.traceparent} == first["meta"]
    assert NOTICE.data["values"] == first["values"]
    assert ["SendMessage"] * 2 == front.methods


async def test_secrets_go_with_each_message(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By reference, as they are then; without one nothing is sent."""
    monkeypatch.setenv("AGENT_KEY", "Bearer one")
    agent, front = await bench.agent(headers={"Authorization": "env:AGENT_KEY"})
    await agent.tell(NOTICE)
    monkeypatch.delenv("AGENT_KEY")
    receipt = await agent.tell(NOTICE)

    assert ["Bearer one"] == [one.get("authorization") for one in front.headers]
    assert (False, False) == (receipt.taken, receipt.retryable)
    assert "AGENT_KEY" in receipt.fault


@pytest.mark.parametrize(
    ("described", "fault"),
    [
        (card("http://127.0.0.1:9/", skill="sing"), "lists no skill 'take_over'"),
        (card("http://127.0.0.1:9/", modes=("text/plain",)), "does not take application/json"),
        (card("http://agent.test/"), "host that is not allowed"),
    ],
)
async def test_a_card_that_does_not_fit(bench: Bench, described: AgentCard, fault: str) -> None:
    """Nothing is sent, and trying again is of no use."""
    agent, front = await bench.agent(described)

    receipt = await agent.tell(NOTICE)

    assert (False, False) == (receipt.taken, receipt.retryable)
    assert fault in receipt.fault
    assert [] == front.methods


async def test_a_handoff_that_the_skill_does_not_take(bench: Bench) -> None:
    """By the schema that the catalog gives; its values are not repeated."""
    schema = {"properties": {"queue": {"const": "returns"}}}
    agent, front = await bench.agent(input_schema=schema)

    receipt = await agent.tell(NOTICE)

    assert "properties/queue/const" in receipt.fault
    assert "complaints" not in receipt.fault
    assert [] == front.methods


async def test_an_agent_that_rejects(bench: Bench) -> None:
    """Has not taken it, and is not asked again."""
    (bench.folder / "reject").touch()
    agent, _ = await bench.agent()

    receipt = await agent.tell(NOTICE)

    # It may only have said that the task was submitted before it rejected it.
    assert receipt.taken or "rejected" in receipt.fault
    assert not receipt.retryable


@pytest.mark.parametrize(
    ("status", "body", "retryable"),
    [
        (503, b"", True),
        (200, b"nonsense", True),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"secret"}}', False),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"secret"}}', True),
        (200, b'{"jsonrpc":"2.0","id":"1","result":{}}', True),
        (200, b'"' + b"x" * 1_100_000 + b'"', True),
        (307, b"", True),
    ],
)
async def test_an_agent_that_fails(bench: Bench, status: int, body: bytes, retryable: bool) -> None:
    """Says whether it may be tried again, and nothing that the agent said."""
    agent, front = await bench.agent()
    front.replies["SendMessage"] = (status, {"location": "http://127.0.0.2:1/"}, body)

    receipt = await agent.tell(NOTICE)

    assert (False, retryable) == (receipt.taken, receipt.retryable)
    assert "secret" not in receipt.fault


async def test_nobody_there(bench: Bench) -> None:
    """It may be there later."""
    agent = bench.known("http://127.0.0.1:9")

    receipt = await agent.tell(NOTICE)

    assert (False, True) == (receipt.taken, receipt.retryable)


def test_a_host_that_is_not_allowed_is_refused_at_the_start() -> None:
    """Before anything is sent."""
    with pytest.raises(BindingError, match=r"agent\.test"):
        A2AAgent(RemoteAgent(url="http://agent.test", skill=SKILL), egress=Egress(["127.0.0.1"]))
