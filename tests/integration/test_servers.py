"""Tools of MCP servers and agents of queues, called by the executor on a real broker.

Servers and agents are processes of the official SDKs; the executor is killed in the middle of a
call, and so is the server.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import refunds, small_shop
from tests.integration.deployed import Deployed, deployed, environment, now_ms, until
from tests.mcp_process import SCHEMA
from tests.unit.roles.bench import action
from turnstream.core.events import ToolResult
from turnstream.core.publications import ActionEvent

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
ASKED = {"reconcile": {"tool": "refund_by_key"}}
PATH = {"PYTHONPATH": ":".join(path for path in sys.path if path)}


@asynccontextmanager
async def process(module: str, *arguments: str, port: int | None = None) -> AsyncIterator[Any]:
    """A process of ours, ended with the test; one with a port is waited for."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), env=environment() | PATH
    )
    try:
        if port is not None:
            await until(lambda: listens(port), str)
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def over_http(port: int) -> dict[str, Any]:
    """A server that is there already; its list is read before each call."""
    return {
        "transport": "streamable_http",
        "url": f"http://127.0.0.1:{port}/mcp",
        "list_seconds": 0.001,
    }


def over_pipes(folder: Path) -> dict[str, Any]:
    """A server that the executor starts."""
    return {
        "transport": "stdio",
        "command": sys.executable,
        "args": ["-m", "tests.mcp_process", "stdio", str(folder)],
        "env": PATH,
    }


def catalog(
    folder: Path,
    *,
    server: dict[str, Any] | None = None,
    agent: str | None = None,
    binding: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Write a catalog with the refund on a server, or with an agent; its name."""
    document: dict[str, Any] = dict(small_shop.CATALOG)
    if server is not None:
        tool = refunds.TOOL | {
            "input_schema": SCHEMA,
            "result_schema": {"type": "object", "properties": {"status": {"type": "string"}}},
            "binding": {"kind": "mcp", "server": "refunds", **(binding or {})},
            "timeout_seconds": 10,
            **changes,
        }
        document |= {"servers": {"refunds": server}, "tools": {"refund": tool, **document["tools"]}}
    if agent is not None:
        queue = document["queues"]["general"]
        told = {"url": agent, "skill": "take_over", "attempts": 3, "timeout_seconds": 5}
        document |= {"queues": {"general": {**queue, "agent": told}}}
    path = folder / "served.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path.name


def refund(order_id: str) -> ActionEvent:
    """A decided refund."""
    payload = {
        "tool_call_id": f"refund-{order_id}",
        "tool": "refund",
        "arguments_json": json.dumps({"order_id": order_id}),
        "provenance": {"order_id": "message"},
        "effect": "write",
        "deadline_at": now_ms() + 60_000,
    }
    return action(
        "call_tool",
        payload,
        action_id=f"refund-{order_id}",
        conversation_id="c-1",
        decided_at=now_ms(),
    )


def handoff(number: int) -> ActionEvent:
    """A decided handoff."""
    payload = {
        "queue": "general",
        "cause": "user_request",
        "summary": "user_request; last message: a person, please",
        "text": "A person will reply.",
        "locale": "en",
    }
    return action(
        "handoff",
        payload,
        action_id=f"handoff-{number}",
        conversation_id="c-1",
        decided_at=now_ms(),
    )


def lines(path: Path) -> list[str]:
    """What a server has written."""
    return path.read_text().splitlines() if path.exists() else []


async def results(on: Deployed, count: int) -> list[ToolResult]:
    """Wait for so many final results; give all that there are."""
    found: list[ToolResult] = []

    async def enough() -> bool:
        found[:] = [one for one in await on.events(ToolResult) if one.final]
        return len(found) >= count

    await until(enough, lambda: "\n".join(role.text()[-3000:] for role in on.roles))
    return found


async def written(on: Deployed, path: Path, count: int) -> None:
    """Wait until a server has written so many lines."""

    async def enough() -> bool:
        return len(lines(path)) >= count

    await until(enough, on.roles[-1].text)


@pytest.mark.parametrize("way", ["http", "stateless", "stdio"])
async def test_a_tool_of_a_server_is_called(
    way: str, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Once, with key and trace; a changed schema is met before a call, and mended by itself."""
    port = free_port()
    server = over_pipes(tmp_path) if way == "stdio" else over_http(port)
    server["list_seconds"] = 0.001
    name = catalog(tmp_path, server=server)
    async with (
        # Over pipes, this one is there for nobody.
        process(
            "tests.mcp_process",
            "stateless" if way == "stateless" else "http",
            *(str(tmp_path), str(port)),
            port=port,
        ),
        deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on,
    ):
        execute = await on.start("execute")
        await on.send(refund("A-1"), headers=[("traceparent", TRACE.encode())])
        (first,) = await results(on, 1)

        assert ("done", '{"status":"shipped"}') == (first.outcome, first.result_json)
        assert [f"refund-A-1 A-1 {TRACE}"] == lines(tmp_path / "calls")

        other = {**SCHEMA, "required": ["order_id", "reason"]}
        (tmp_path / "schema").write_text(json.dumps(other))
        await on.send(refund("A-2"))
        second = (await results(on, 2))[1]

        assert ("failed", "schema_changed") == (second.outcome, second.error and second.error.code)
        assert 1 == len(lines(tmp_path / "calls"))
        assert 1 == await execute.sample("tool_schema_changes_total", tool="refund")

        (tmp_path / "schema").unlink()
        await on.send(refund("A-3"))
        assert "done" == (await results(on, 3))[2].outcome
        assert 0 == await execute.stopped()
        assert [] == await on.letters("conversation.actions")


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize(
    ("binding", "outcome"),
    [({}, "outcome_unknown"), (ASKED, "done")],
    ids=["nobody knows", "asked"],
)
async def test_an_executor_killed_in_a_call_never_calls_twice(  # noqa: PLR0917 - by name
    way: str,
    binding: dict[str, Any],
    outcome: str,
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    """The next owner asks the server, where it can be asked."""
    port = free_port()
    server = over_pipes(tmp_path) if way == "stdio" else over_http(port)
    name = catalog(tmp_path, server=server, binding=binding)
    (tmp_path / "hang").touch()
    async with (
        process("tests.mcp_process", "http", str(tmp_path), str(port), port=port),
        deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on,
    ):
        killed = await on.start("execute")
        await on.send(refund("A-1"))
        await written(on, tmp_path / "calls", 1)
        killed.process.kill()
        await killed.process.wait()
        (tmp_path / "hang").unlink()
        last = await on.start("execute")
        (result,) = await results(on, 1)

        assert (outcome, "refund-A-1") == (result.outcome, result.action_id)
        assert 1 == len(lines(tmp_path / "calls"))
        assert 0 == await last.stopped()


@pytest.mark.parametrize(("effect", "outcome"), [("write", "outcome_unknown"), ("read", "done")])
async def test_a_server_killed_in_a_call(
    effect: str, outcome: str, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A write may have been done; a read is made again when the server is back."""
    port = free_port()
    patient = {"attempts": 10, "backoff_seconds": 0.5}
    name = catalog(
        tmp_path,
        server=over_http(port),
        effect=effect,
        retry=patient,
        breaker={"failures": 100},
    )
    (tmp_path / "hang").touch()
    serving = ("http", str(tmp_path), str(port))
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        execute = await on.start("execute")
        async with process("tests.mcp_process", *serving, port=port) as server:
            await on.send(refund("A-1"))
            await written(on, tmp_path / "calls", 1)
            server.kill()
            await server.wait()
        (tmp_path / "hang").unlink()
        async with process("tests.mcp_process", *serving, port=port):
            (result,) = await results(on, 1)

            assert outcome == result.outcome
            assert (1 if effect == "write" else 2) == len(lines(tmp_path / "calls"))
            assert 0 == await execute.stopped()


async def told(on: Deployed, execute: Any, result: str) -> None:
    """Wait until the executor has counted a handoff."""

    async def counted() -> bool:
        total: float = await execute.sample("agents_told_total", result=result)
        return total == 1

    await until(counted, on.roles[-1].text)


def ids(folder: Path) -> list[str]:
    """The messages that the agent was told."""
    return [json.loads(line)["id"] for line in lines(folder / "told")]


async def test_an_agent_is_told_of_a_handoff(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """With the action's id; killed in between, the next owner tells it again under the same one."""
    port = free_port()
    name = catalog(tmp_path, agent=f"http://127.0.0.1:{port}")
    (tmp_path / "hang").touch()
    async with (
        process("tests.a2a_process", str(tmp_path), str(port), port=port),
        deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on,
    ):
        killed = await on.start("execute")
        await on.send(handoff(1), headers=[("traceparent", TRACE.encode())])
        await written(on, tmp_path / "told", 1)
        killed.process.kill()
        await killed.process.wait()
        (tmp_path / "hang").unlink()
        last = await on.start("execute")
        await told(on, last, "taken")

        assert ["handoff-1", "handoff-1"] == ids(tmp_path)
        said = json.loads(lines(tmp_path / "told")[0])
        assert ("c-1", "general", TRACE) == (
            said["conversation_id"],
            said["queue"],
            said["meta"]["traceparent"],
        )

        # The same action under another offset is no second handoff.
        await on.send(handoff(1))
        await on.send(handoff(2))
        await written(on, tmp_path / "told", 3)
        assert ["handoff-1", "handoff-1", "handoff-2"] == ids(tmp_path)
        assert 0 == await last.stopped()
        assert [] == await on.letters("conversation.actions")
        assert [] == await on.events(ToolResult)


async def test_people_have_a_handoff_that_no_agent_takes(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """The log and a metric say so, and calls of the conversation go on."""
    port = free_port()
    name = catalog(tmp_path, agent=f"http://127.0.0.1:{port}", server=over_pipes(tmp_path))
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        execute = await on.start("execute")
        await on.send(handoff(1))
        await told(on, execute, "not_taken")
        await on.send(refund("A-1"))

        assert "done" == (await results(on, 1))[0].outcome
        assert "with people alone" in execute.text()
        assert 0 == await execute.stopped()
        assert [] == await on.letters("conversation.actions")
