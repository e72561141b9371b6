"""Tools on servers and agents of queues: their catalog, their processes, and actions for them."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests import refunds, small_shop
from tests.integration.deployed import Deployed, environment, now_ms, until
from tests.mcp_process import SCHEMA
from tests.unit.roles.bench import action
from turnstream.core.events import ToolResult
from turnstream.core.publications import ActionEvent

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
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
    """A server that is there already."""
    return {"transport": "streamable_http", "url": f"http://127.0.0.1:{port}/mcp"}


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
    attempts: int = 3,
    seconds: float = 5,
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
        told = {
            "url": agent,
            "skill": "take_over",
            "attempts": attempts,
            "timeout_seconds": seconds,
        }
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
