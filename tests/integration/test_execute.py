"""The executor on a real broker, killed and paused in the middle of a write."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import refunds, small_shop
from tests.integration.deployed import Deployed, deployed, now_ms, until, written
from tests.unit.roles.bench import action
from turnstream.core.events import ToolResult
from turnstream.core.publications import ActionEvent
from turnstream.stream.failpoints import VARIABLE
from turnstream.stream.role import EXIT_FAILED

ASKED = {"reconcile": "tests.refunds:refund_by_key"}


@pytest.fixture(autouse=True)
def _ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Gives every process of the test the same ledger."""
    monkeypatch.setenv(refunds.LEDGER, str(tmp_path / "ledger"))
    monkeypatch.delenv(VARIABLE, raising=False)


def catalog(folder: Path, *, seconds: float = 3, binding: dict[str, str] | None = None) -> str:
    """Write a catalog with the refund among its tools; its name."""
    tool = refunds.TOOL | {
        "binding": refunds.TOOL["binding"] | (binding or {}),
        "timeout_seconds": seconds,
    }
    tools = small_shop.CATALOG["tools"] | {"refund": tool}
    path = folder / "refunds.yaml"
    path.write_text(yaml.safe_dump(small_shop.CATALOG | {"tools": tools}, sort_keys=False))
    return path.name


def refund(order_id: str, *, conversation_id: str, **batch: Any) -> ActionEvent:
    """A decided refund."""
    payload = {
        "tool_call_id": f"refund-{order_id}",
        "tool": "refund",
        "arguments_json": f'{{"order_id":"{order_id}"}}',
        "provenance": {"order_id": "message"},
        "effect": "write",
        "deadline_at": now_ms() + 60_000,
    }
    changes = {
        "action_id": f"refund-{order_id}",
        "conversation_id": conversation_id,
        "decided_at": now_ms(),
    }
    return action("call_tool", payload, **changes, **batch)


def batch(*order_ids: str, conversation_id: str) -> list[ActionEvent]:
    """Refunds that were decided as one: the calls of one reply of a model."""
    return [
        refund(
            order_id,
            conversation_id=conversation_id,
            decision_id=f"decision-{order_ids[0]}",
            batch_index=index,
            batch_size=len(order_ids),
        )
        for index, order_id in enumerate(order_ids)
    ]


async def hung(on: Deployed, calls: int = 1) -> None:
    """Wait until so many calls hang."""

    async def so_many() -> bool:
        return len(refunds.hanging().read_text().splitlines()) == calls

    await until(so_many, on.roles[-1].text)


async def results(on: Deployed, count: int) -> list[ToolResult]:
    """Wait for so many results; give all that there are."""
    found: list[ToolResult] = []

    async def enough() -> bool:
        found[:] = await on.events(ToolResult)
        return len(found) >= count

    await until(enough, lambda: "\n".join(role.text()[-3000:] for role in on.roles))
    return found


@pytest.mark.parametrize(
    ("order", "binding", "outcome", "attempts"),
    [
        ("A-lost", {}, "outcome_unknown", 1),
        ("A-lost", ASKED, "done", 1),
        ("A-slow", ASKED, "done", 2),
    ],
    ids=["nobody knows", "it was done", "it was not done"],
)
async def test_killed_between_started_and_done(  # noqa: PLR0917 - pytest passes by name
    order: str,
    binding: dict[str, str],
    outcome: str,
    attempts: int,
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    """The next owner never refunds twice, and the conversation always gets one result."""
    name = catalog(tmp_path, binding=binding)
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        killed = await on.start("execute")
        refunds.hanging().touch()
        await on.send(refund(order, conversation_id="c-1"))
        await hung(on)
        killed.process.kill()
        await killed.process.wait()
        refunds.hanging().unlink()
        last = await on.start("execute")
        (result,) = await results(on, 1)

        assert (True, outcome, attempts) == (result.final, result.outcome, result.attempts)
        assert f"refund-{order}" == result.action_id
        assert [f"refund-{order}"] == refunds.done()

        # What follows goes on as if nothing had been.
        await on.send(refund("A-2", conversation_id="c-1"))
        assert ["done"] == [one.outcome for one in await results(on, 2)][1:]
        assert 0 == await last.stopped()
        assert [] == await on.letters("conversation.actions")


async def test_calls_of_one_reply_run_at_the_same_time(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Each is called while the other is, and a kill in the middle of both leaves neither unsaid.

    Nobody knows what became of a write that was begun, so none is called a second time: not the one
    that was carried out, and not the one that was not.
    """
    # Far above what two threads need to meet: one after the other would end in a time-out.
    name = catalog(tmp_path, seconds=12)
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        killed = await on.start("execute")
        for one in batch("A-pair-1", "A-pair-2", conversation_id="c-1"):
            await on.send(one)
        ended = await results(on, 2)

        assert {"refund-A-pair-1": "done", "refund-A-pair-2": "done"} == {
            one.action_id: one.outcome for one in ended
        }

        refunds.hanging().touch()
        for one in batch("A-slow-3", "A-lost-4", conversation_id="c-1"):
            await on.send(one)
        await hung(on, 2)
        killed.process.kill()
        await killed.process.wait()
        refunds.hanging().unlink()
        last = await on.start("execute")
        after = [one for one in await results(on, 4) if one not in ended]

        unknown = (True, "outcome_unknown", 1)
        assert {"refund-A-slow-3": unknown, "refund-A-lost-4": unknown} == {
            one.action_id: (one.final, one.outcome, one.attempts) for one in after
        }
        assert 0 == await last.stopped()
        assert ["refund-A-lost-4", "refund-A-pair-1", "refund-A-pair-2"] == sorted(refunds.done())
        assert 4 == len(await on.events(ToolResult))
        assert [] == await on.letters("conversation.actions")


async def test_a_woken_executor_sends_nothing(
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Suspended between STARTED and the call, past its session, it ends instead of calling."""
    name = catalog(tmp_path, binding=ASKED)
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, catalog=name) as on:
        monkeypatch.setenv(VARIABLE, "after_started=stop")
        zombie = await on.start("execute")
        monkeypatch.delenv(VARIABLE)
        await on.send(refund("A-1", conversation_id="c-1"))

        stat = Path("/proc", str(zombie.process.pid), "stat")

        async def suspended() -> bool:
            return stat.read_text().rpartition(")")[2].split()[0] == "T"  # noqa: ASYNC240 - no disk

        await until(suspended, zombie.text)
        await on.start("execute")
        (result,) = await results(on, 1)

        assert ("done", 2) == (result.outcome, result.attempts)

        os.kill(zombie.process.pid, signal.SIGCONT)

        assert EXIT_FAILED == await zombie.exit_status()
        assert ["refund-A-1"] == refunds.done()
        assert 1 == len(await on.events(ToolResult))
        assert "nothing may be done outside" in zombie.text()


async def test_a_full_journal_takes_no_new_calls(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """At the bound a partition waits: no call is lost and none forgotten; others go on.

    What a killed owner had begun does not close it: nothing but its own actions can end that.
    """
    bounds = {"journal_max_entries": 2, "journal_retention_seconds": 1}
    name = catalog(tmp_path)
    async with deployed(
        kafka_bootstrap, topic_prefix, tmp_path, catalog=name, execute=bounds
    ) as on:
        killed = await on.start("execute")
        busy, quiet = on.key_on(0), on.key_on(1)
        refunds.hanging().touch()
        for number in range(2):
            await on.send(refund(f"A-lost-{number}", conversation_id=busy))
        await hung(on, 2)
        killed.process.kill()
        await killed.process.wait()
        refunds.hanging().unlink()
        execute = await on.start("execute")

        assert {"outcome_unknown"} == {one.outcome for one in await results(on, 2)}

        async def full() -> bool:
            return await execute.sample("partition_full", partition="0") == 1

        await until(full, execute.text)
        await on.send(refund("A-waits", conversation_id=busy))
        await on.send(refund("A-goes", conversation_id=quiet))
        ended = await results(on, 3)

        async def paused() -> bool:
            return await execute.sample("partition_paused", partition="0") == 1

        await until(paused, execute.text)
        assert "nothing new is taken" in execute.text()
        assert {"refund-A-lost-0", "refund-A-lost-1", "refund-A-goes"} == {
            one.action_id for one in ended
        }
        assert 0 == await execute.stopped()

        # A wider bound is enough to go on.
        written(tmp_path, kafka_bootstrap, topic_prefix, catalog=name, execute={})
        await on.start("execute")
        assert "refund-A-waits" in {one.action_id for one in await results(on, 4)}
