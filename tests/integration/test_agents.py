"""Agents of queues, told of handoffs by the executor on a real broker.

Agents are processes of the official SDK; the executor is killed while it tells one, and so is the
agent.
"""

import json
from pathlib import Path
from typing import Any

from tests.integration.deployed import Deployed, deployed, until
from tests.integration.served import (
    TRACE,
    catalog,
    free_port,
    handoff,
    lines,
    over_pipes,
    process,
    refund,
    results,
    written,
)
from turnstream.core.events import ToolResult


async def told(on: Deployed, execute: Any, result: str, *, count: int = 1) -> None:
    """Wait until the executor has counted so many handoffs."""

    async def counted() -> bool:
        total: float = await execute.sample("agents_told_total", result=result)
        return total == count

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


async def test_an_agent_killed_while_it_is_told(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """When it is back it is told again, under the same id."""
    port = free_port()
    serving = ("tests.a2a_process", str(tmp_path), str(port))
    name = catalog(tmp_path, agent=f"http://127.0.0.1:{port}", attempts=10)
    (tmp_path / "hang").touch()
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        execute = await on.start("execute")
        async with process(*serving, port=port) as agent:
            await on.send(handoff(1))
            await written(on, tmp_path / "told", 1)
            agent.kill()
            await agent.wait()
        (tmp_path / "hang").unlink()
        async with process(*serving, port=port):
            await told(on, execute, "taken")

            assert ["handoff-1", "handoff-1"] == ids(tmp_path)
            assert 0 == await execute.sample("agents_told_total", result="not_taken")
            assert 0 == await execute.stopped()
            assert [] == await on.letters("conversation.actions")


async def test_an_agent_that_changes(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """People have what it does not take, the log says why, and it is told of what it takes again.

    In turn: it answers with a task that it works on, its skill is gone, the skill takes no data,
    it has moved, it asks for more, it hangs; then it is as it was.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    name = catalog(tmp_path, agent=url, seconds=2, attempts=2, server=over_pipes(tmp_path))
    async with (
        process("tests.a2a_process", str(tmp_path), str(port), port=port),
        deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on,
    ):
        execute = await on.start("execute")
        (tmp_path / "task").write_text("WORKING")
        await on.send(handoff(1))
        await told(on, execute, "taken")

        changes = {
            "skill": ("sing", "the agent's card lists no skill 'take_over'"),
            "modes": ("text/plain", "does not take application/json"),
            "moved": ("http://127.0.0.1:9/", "redirects to another address"),
            "task": ("INPUT_REQUIRED", "the task is input_required"),
            "hang": ("", "no reply within 2 s"),
        }
        for number, (changed, (said, why)) in enumerate(changes.items(), start=2):
            (tmp_path / changed).write_text(said)
            await on.send(handoff(number))
            await told(on, execute, "not_taken", count=number - 1)
            (tmp_path / changed).unlink()
            assert why in execute.text()

        await on.send(handoff(7))
        await told(on, execute, "taken", count=2)
        await on.send(refund("A-1"))

        assert "done" == (await results(on, 1))[0].outcome
        # Only the one who hangs may have heard and is told again.
        assert [f"handoff-{n}" for n in (1, 5, 6, 6, 7)] == ids(tmp_path)
        assert len(changes) == execute.text().count("with people alone")
        assert 0 == await execute.stopped()
        assert [] == await on.letters("conversation.actions")


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
