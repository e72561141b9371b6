"""Handoffs that a real A2A agent is told of, and what keeps it from being told."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AgentCard
from starlette.responses import RedirectResponse

from tests.a2a_process import SKILL, agent_app, card
from tests.hostile import EVENTS, drip, flood, packed
from tests.mcp_serving import Front, serving
from turnstream.core.ports import HandoffNotice, HandoffReceipt
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
    """The action's id is the message's, the handoff its data; the card is read for each."""
    agent, front = await bench.agent()

    receipts = [await agent.tell(NOTICE) for _ in range(2)]

    assert [True, True] == [one.taken for one in receipts]
    first = bench.told()[0]
    assert ("action-1", NOTICE.text) == (first["id"], first["text"])
    assert {"skill": SKILL, "traceparent": NOTICE.traceparent} == first["meta"]
    assert NOTICE.data["values"] == first["values"]
    assert ["GET", "SendMessage"] * 2 == front.methods


async def test_secrets_go_with_each_message(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By reference, as they are then; without one nothing is sent."""
    monkeypatch.setenv("AGENT_KEY", "Bearer one")
    agent, front = await bench.agent(headers={"Authorization": "env:AGENT_KEY"})
    await agent.tell(NOTICE)
    monkeypatch.delenv("AGENT_KEY")
    receipt = await agent.tell(NOTICE)

    assert ["Bearer one"] * 2 == [one.get("authorization") for one in front.headers]
    assert ["GET", "SendMessage"] == front.methods
    assert (False, False) == (receipt.taken, receipt.retryable)
    assert "AGENT_KEY" in receipt.fault


@pytest.mark.parametrize(
    ("described", "fault"),
    [
        (card("http://127.0.0.1:9/", skill="sing"), "lists no skill 'take_over'"),
        (card("http://127.0.0.1:9/", modes=("text/plain",)), "does not take application/json"),
        (card("http://agent.test/"), "host that is not allowed"),
        (card("http://127.0.0.1:9/", binding="GRPC"), "offers no JSON-RPC"),
    ],
)
async def test_a_card_that_does_not_fit(bench: Bench, described: AgentCard, fault: str) -> None:
    """Nothing is sent, and trying again is of no use."""
    agent, front = await bench.agent(described)

    receipt = await agent.tell(NOTICE)

    assert (False, False) == (receipt.taken, receipt.retryable)
    assert fault in receipt.fault
    assert ["GET"] == front.methods


async def test_a_handoff_that_the_skill_does_not_take(bench: Bench) -> None:
    """By the schema that the catalog gives; its values are not repeated."""
    schema = {"properties": {"queue": {"const": "returns"}}}
    agent, front = await bench.agent(input_schema=schema)

    receipt = await agent.tell(NOTICE)

    assert "properties/queue/const" in receipt.fault
    assert "complaints" not in receipt.fault
    assert [] == front.methods


@pytest.mark.parametrize("state", ["SUBMITTED", "WORKING", "COMPLETED"])
async def test_an_agent_may_answer_with_a_task(bench: Bench, state: str) -> None:
    """What becomes of it the agent tells as people do."""
    (bench.folder / "task").write_text(state)
    agent, _ = await bench.agent()

    assert HandoffReceipt(taken=True) == await agent.tell(NOTICE)


@pytest.mark.parametrize(
    "state", ["REJECTED", "FAILED", "CANCELED", "INPUT_REQUIRED", "AUTH_REQUIRED"]
)
async def test_a_task_that_is_not_worked_on(bench: Bench, state: str) -> None:
    """Is not taken, and the agent is not told again: nobody would reply to it either."""
    (bench.folder / "task").write_text(state)
    agent, _ = await bench.agent()

    receipt = await agent.tell(NOTICE)

    assert (False, False) == (receipt.taken, receipt.retryable)
    assert f"the task is {state.lower()}" in receipt.fault


@pytest.mark.parametrize(
    ("name", "said", "fault"),
    [
        ("skill", "sing", "lists no skill 'take_over'"),
        ("modes", "text/plain", "does not take application/json"),
        ("moved", "http://127.0.0.1:9/", "redirects to another address"),
    ],
)
async def test_an_agent_that_changes_between_two_handoffs(
    bench: Bench, name: str, said: str, fault: str
) -> None:
    """Is not told of the next in a form that it does not take any more; and again when it does."""
    agent, _ = await bench.agent()
    assert (await agent.tell(NOTICE)).taken
    (bench.folder / name).write_text(said)

    receipt = await agent.tell(NOTICE)

    assert (False, False) == (receipt.taken, receipt.retryable)
    assert fault in receipt.fault
    assert 1 == len(bench.told())
    (bench.folder / name).unlink()
    assert (await agent.tell(NOTICE)).taken


# --- limits -------------------------------------------------------------------------------------

ASKED = pytest.mark.parametrize("asked", ["GET", "SendMessage"], ids=["card", "message"])


@ASKED
async def test_a_flood_is_not_read(bench: Bench, asked: str) -> None:
    """Of a hundred megabytes one is read, then the connection is ended."""
    agent, front = await bench.agent()
    endless = front.instead[asked] = flood()

    receipt = await agent.tell(NOTICE)
    async with asyncio.timeout(30):
        await endless.left.wait()

    assert not receipt.taken
    assert endless.sent < endless.count


@ASKED
@pytest.mark.parametrize("kind", ["application/json", EVENTS])
async def test_a_reply_that_never_ends(bench: Bench, kind: str, asked: str) -> None:
    """Is waited for as long as the agent has, and then read no longer."""
    agent, front = await bench.agent(timeout_seconds=1)
    endless = front.instead[asked] = drip(kind=kind)

    receipt = await agent.tell(NOTICE)
    async with asyncio.timeout(30):
        await endless.left.wait()

    assert (False, True) == (receipt.taken, receipt.retryable)
    assert "no reply within 1 s" == receipt.fault


async def test_a_packed_reply_is_not_unpacked(bench: Bench) -> None:
    """It was not asked for, and may be large in memory."""
    agent, front = await bench.agent()
    front.replies["SendMessage"] = (200, {"content-encoding": "gzip"}, packed())

    receipt = await agent.tell(NOTICE)

    assert (False, True) == (receipt.taken, receipt.retryable)
    assert {"identity"} == {one.get("accept-encoding") for one in front.headers}


@ASKED
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(bench: Bench, status: int, asked: str) -> None:
    """Also to one that may be spoken to; and telling it again is of no use."""
    agent, front = await bench.agent()
    (bench.folder / "other").mkdir()
    elsewhere = Front(agent_app(bench.folder / "other", card("http://127.0.0.1:9/")))
    url = await bench.stack.enter_async_context(serving(elsewhere))
    front.instead[asked] = RedirectResponse(url, status_code=status)

    receipt = await agent.tell(NOTICE)

    assert (False, False) == (receipt.taken, receipt.retryable)
    assert "redirects to another address" in receipt.fault
    assert url not in receipt.fault
    assert [] == elsewhere.methods


@pytest.mark.parametrize(
    ("status", "body", "retryable"),
    [
        (503, b"", True),
        (200, b"nonsense", True),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"secret"}}', False),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"secret"}}', True),
        (200, b'{"jsonrpc":"2.0","id":"1","result":{}}', True),
        (200, b'"' + b"x" * 1_100_000 + b'"', True),
    ],
)
async def test_an_agent_that_fails(bench: Bench, status: int, body: bytes, retryable: bool) -> None:
    """Says whether it may be tried again, and nothing that the agent said."""
    agent, front = await bench.agent()
    front.replies["SendMessage"] = (status, {}, body)

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
