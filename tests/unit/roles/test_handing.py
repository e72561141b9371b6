"""Handoffs that an agent is told of: the journal, attempts, and what is said where it fails."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from tests.unit.roles.bench import (
    NOW,
    Clock,
    Counted,
    FakeLane,
    action,
    catalog,
    events,
    intake,
    publisher,
    record,
)
from turnstream.core.ports import HandoffNotice, HandoffReceipt
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.core.servers import RemoteAgent
from turnstream.roles.execute import ExecuteHandler
from turnstream.roles.journal import Execution
from turnstream.stream import Handled, TimerDue

ACTIONS = "conversation.actions"
RETENTION = 900_000
SESSION = 30.0
TAKEN = HandoffReceipt(taken=True)
DOWN = HandoffReceipt(taken=False, fault="nobody there", retryable=True)
UNFIT = HandoffReceipt(taken=False, fault="no such skill")


class ScriptedAgent:
    """An agent that replies as told."""

    def __init__(self, *receipts: HandoffReceipt, during: Callable[[], object] = tuple) -> None:
        self.receipts = list(receipts)
        self.notices: list[HandoffNotice] = []
        self.during = during

    async def tell(self, notice: HandoffNotice) -> HandoffReceipt:
        """Give the next receipt."""
        self.notices.append(notice)
        self.during()
        return self.receipts.pop(0)

    async def close(self) -> None:
        """Nothing to release."""


class Bench:
    """An executor whose one queue with an agent has this one."""

    def __init__(self, *receipts: HandoffReceipt) -> None:
        plain = catalog()
        self.queue = plain.default_queue
        agent = RemoteAgent(url="http://127.0.0.1:1", skill="take_over", attempts=3)
        queue = plain.queues[self.queue].model_copy(update={"agent": agent})
        made = plain.model_copy(update={"queues": {**plain.queues, self.queue: queue}})
        self.agent = ScriptedAgent(*receipts)
        self.counted = Counted(made)
        self.clock = Clock(0.0)
        self.lane: FakeLane[Execution] = FakeLane(self.clock)
        self.handler = ExecuteHandler(
            intake=intake(),
            publisher=publisher("execute"),
            ruleset=Ruleset(catalog=made, decision_version="d", presentation_version="p"),
            tools={},
            agents={self.queue: self.agent},
            metrics=self.counted.metrics,
            max_record_bytes=262_144,
            retention_ms=RETENTION,
            session_seconds=SESSION,
            now_ms=lambda: NOW + int(self.clock.now * 1000),
        )

    def handoff(self, **changes: Any) -> ActionEvent:
        """A handoff to its queue."""
        payload = {
            "queue": self.queue,
            "cause": "user_request",
            "summary": "user_request",
            "text": "A person will reply.",
            "locale": "en",
        }
        return action("handoff", payload | changes)

    async def run(self, event: ActionEvent, state: Execution | None = None) -> Handled[Execution]:
        """Handle one action from admission to its end."""
        source = record(event, 7, topic=ACTIONS)
        _, admitted = self.handler.admit(source)
        outcome = self.handler.handle(source, admitted, state, self.lane)
        return await outcome if isawaitable(outcome) else outcome

    def told(self) -> tuple[float, float]:
        """Handoffs that were taken, and those that were not."""
        taken, not_taken = (
            self.counted.value("agents_told_total", result=one) for one in ("taken", "not_taken")
        )
        return taken, not_taken


def started(bench: Bench, attempts: int = 1) -> Execution:
    """What a handoff that was begun leaves in the journal."""
    return Execution(
        action_id="a-1",
        tool=f"queue:{bench.queue}",
        phase="started",
        attempts=attempts,
        updated_at=NOW,
        expires_at=NOW + RETENTION,
    )


async def test_an_agent_is_told_once() -> None:
    """STARTED is committed before; nothing is published, and the action met again does nothing."""
    bench = Bench(TAKEN)
    before: list[int] = []
    bench.agent.during = lambda: before.append(len(bench.lane.committed))

    handled = await bench.run(bench.handoff())
    again = await bench.run(bench.handoff(), handled.state)

    assert [1] == before
    assert [(b"c-1/a-1", started(bench), [])] == bench.lane.committed
    (notice,) = bench.agent.notices
    assert ("a-1", "c-1", "user_request") == (
        notice.message_id,
        notice.conversation_id,
        notice.data["cause"],
    )
    assert handled.state is not None
    assert ("done", {ACTIONS: 7}) == (handled.state.phase, handled.state.watermarks)
    assert again.state is not None
    assert [] == [*events(handled), *events(again)]
    assert (1, 0) == bench.told()


async def test_a_handoff_to_people_alone_is_none_of_its_business() -> None:
    """No journal, no message."""
    bench = Bench()

    handled = await bench.run(bench.handoff(queue="others"))

    assert handled.state is None
    assert [] == bench.lane.committed


async def test_an_agent_that_is_away_is_tried_again() -> None:
    """Each attempt is on record before it is made, and its message has the same id."""
    bench = Bench(DOWN, TAKEN)

    handled = await bench.run(bench.handoff())

    assert handled.state is not None
    assert 2 == handled.state.attempts
    assert [1, 2] == [state.attempts for _, state, _ in bench.lane.committed]
    assert {"a-1"} == {one.message_id for one in bench.agent.notices}
    assert 1 == len(bench.lane.rests)
    assert (1, 0) == bench.told()


@pytest.mark.parametrize(("receipts", "tried"), [((DOWN,) * 3, 3), ((UNFIT,), 1)])
async def test_people_have_it_where_the_agent_does_not_take_it(
    receipts: tuple[HandoffReceipt, ...], tried: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends, and says so."""
    bench = Bench(*receipts)

    handled = await bench.run(bench.handoff())

    assert handled.state is not None
    assert ("done", tried) == (handled.state.phase, handled.state.attempts)
    assert (0, 1) == bench.told()
    assert receipts[0].fault in capsys.readouterr().out


async def test_one_that_was_cut_off_is_made_again() -> None:
    """The agent knows by the id that it is the same."""
    bench = Bench(TAKEN)

    handled = await bench.run(bench.handoff(), started(bench, attempts=2))

    assert handled.state is not None
    assert ("done", 3) == (handled.state.phase, handled.state.attempts)


async def test_one_that_is_too_old_is_not_told() -> None:
    """Its record may be gone: it could be a second time."""
    bench = Bench()
    bench.clock.now = RETENTION / 1000

    handled = await bench.run(bench.handoff())

    assert [] == bench.agent.notices
    assert handled.state is not None
    assert (0, 1) == bench.told()


async def test_one_that_became_too_old_while_it_was_written_down_is_not_told() -> None:
    """The commit may wait for the brokers for minutes."""
    bench = Bench(TAKEN)

    async def long() -> None:
        bench.clock.now += RETENTION / 1000

    bench.lane.meanwhile = long
    handled = await bench.run(bench.handoff())

    assert [] == bench.agent.notices
    assert handled.state is not None
    assert ("done", 0) == (handled.state.phase, handled.state.attempts)
    assert (0, 1) == bench.told()


async def test_an_agent_whose_reply_ends_the_process_is_not_told_at_every_start() -> None:
    """Each start goes on from the journal, which counts; in the end people have it alone."""
    bench = Bench(TAKEN)
    state: Execution | None = None

    def killed() -> None:
        raise RuntimeError("killed")

    bench.agent.during = killed
    for _ in range(6):
        with pytest.raises(RuntimeError, match="killed"):
            await bench.run(bench.handoff(), state)
        state = bench.lane.committed[-1][1]

    handled = await bench.run(bench.handoff(), state)

    assert 6 == len(bench.agent.notices)
    assert handled.state is not None
    assert ("done", 6) == (handled.state.phase, handled.state.attempts)
    assert (0, 1) == bench.told()


@pytest.mark.parametrize(("before", "tried"), [(1, 3), (3, 3), (5, 1)])
async def test_after_a_restart_an_agent_is_tried_as_often_as_the_bound_allows(
    before: int, tried: int
) -> None:
    """Three attempts, as of one that was not cut off, and six with all restarts."""
    bench = Bench(*[DOWN] * tried)

    await bench.run(bench.handoff(), started(bench, attempts=before))

    assert tried == len(bench.agent.notices)


async def test_what_is_given_up_is_said() -> None:
    """By the handler, by a flood, and where the action never came back."""
    bench = Bench()
    event = bench.handoff()
    source = record(event, 7, topic=ACTIONS)

    given_up = bench.handler.abandon(
        source, event, started(bench), attempts=3, error=RuntimeError()
    )
    flooded = bench.handler.flood(source, event, None)
    passed = bench.handler.flood(source, event, given_up.state)
    bench.handler.timer(b"c-1/a-1", TimerDue(f"queue:{bench.queue}", "lost", NOW))

    assert (0, 3) == bench.told()
    assert ["done", "done", "done"] == [
        one.state.phase for one in (given_up, flooded, passed) if one.state is not None
    ]
