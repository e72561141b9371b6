"""Tools of MCP servers, called by the executor on a real broker.

Servers are processes of the official SDK; the executor is killed in the middle of a call, and so is
the server.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.deployed import deployed
from tests.integration.served import (
    TRACE,
    catalog,
    free_port,
    lines,
    over_http,
    over_pipes,
    process,
    refund,
    results,
    written,
)
from tests.mcp_process import SCHEMA

ASKED = {"reconcile": {"tool": "refund_by_key"}}


@pytest.mark.parametrize("way", ["http", "stateless", "stdio"])
async def test_a_tool_of_a_server_is_called(
    way: str, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Once, with key and trace; a changed schema is met before a call, and mended by itself."""
    port = free_port()
    server = over_pipes(tmp_path) if way == "stdio" else over_http(port)
    # However long its list is believed: it says nothing by itself.
    server["list_seconds"] = 3600
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


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize(("effect", "outcome"), [("write", "outcome_unknown"), ("read", "done")])
async def test_a_server_killed_in_a_call(  # noqa: PLR0917 - by name
    way: str,
    effect: str,
    outcome: str,
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    """A write may have been done; a read is made again, with the same key, when it is back."""
    port = free_port()
    name = catalog(
        tmp_path,
        server=over_pipes(tmp_path) if way == "stdio" else over_http(port),
        effect=effect,
        retry={"attempts": 10, "backoff_seconds": 0.5},
        breaker={"failures": 100},
    )
    (tmp_path / "hang").touch()
    serving = ("http", str(tmp_path), str(port))
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        execute = await on.start("execute")
        # Over pipes, these are there for nobody: the executor starts its own.
        async with process("tests.mcp_process", *serving, port=port):
            await on.send(refund("A-1"), headers=[("traceparent", TRACE.encode())])
            await written(on, tmp_path / "calls", 1)
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        (tmp_path / "hang").unlink()
        async with process("tests.mcp_process", *serving, port=port):
            (result,) = await results(on, 1)

            made = 1 if effect == "write" else 2
            assert outcome == result.outcome
            assert [f"refund-A-1 A-1 {TRACE}"] * made == lines(tmp_path / "calls")
            assert 0 == await execute.stopped()
            assert [] == await on.letters("conversation.actions")
