"""The execute role: calls in, results out, each side effect at most once.

An action's id is the key of its journal record and the idempotency key that the tool gets. The
story of one call:

1. checked once more against the live catalog: known tool, permissions, arguments, age;
2. STARTED is committed before the first byte goes out;
3. the call, unless it has become too late meanwhile, and if it is a write only while this process
   owns the partition for certain; a failed attempt of a repeatable tool is published before it is
   tried again;
4. DONE, the result and the source offset are committed together.

A process that dies in between leaves STARTED behind. A read or an idempotent tool is then called
again with the same key. Any other is asked what became of the call, if it can be: one that was
carried out ends with its result, one that was not may be made again with the same key. Where nobody
knows, the outcome is `outcome_unknown`, and it is never called a second time.

A handoff to a queue that has an agent is told to it, see :mod:`turnstream.roles.handing`.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from turnstream.catalog.write_timeouts import writes_beyond
from turnstream.core.events import Event, ToolError
from turnstream.core.ports import HandoffAgent, ToolBinding
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.metrics import Metrics
from turnstream.roles.alterations import Alterations
from turnstream.roles.calling import ToolCalls, repeatable
from turnstream.roles.deployment import Deployment, DeploymentError, StreamRole
from turnstream.roles.gate import Gate, denied, left_alone, unavailable
from turnstream.roles.handing import Handoffs
from turnstream.roles.intake import Intake
from turnstream.roles.journal import LOST, Execution, journal_format
from turnstream.roles.publishing import Publisher
from turnstream.roles.raw_sink import RawSink
from turnstream.roles.reporting import Ended, Reporter, passed
from turnstream.roles.undertaking import Undertakings
from turnstream.stream import (
    Handled,
    LaneContext,
    Record,
    Rejected,
    StateUnreadable,
    TimerDue,
)
from turnstream.tools import bind_tools
from turnstream.tools.binding import optional

SOURCES: Final = ("conversation.actions",)
WRITES: Final = ("tool.results",)


class ExecuteHandler:
    """Makes the calls that were decided."""

    def __init__(
        self,
        *,
        intake: Intake,
        publisher: Publisher,
        ruleset: Ruleset,
        tools: Mapping[str, ToolBinding],
        metrics: Metrics,
        max_record_bytes: int,
        retention_ms: int,
        session_seconds: float,
        now_ms: Callable[[], int],
        agents: Mapping[str, HandoffAgent] | None = None,
        raw: RawSink | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes results.
            ruleset: the live catalog and its argument checks.
            tools: tool name to its binding.
            metrics: where calls are counted.
            max_record_bytes: largest value that readers of results accept.
            retention_ms: how long the journal remembers a call.
            session_seconds: silence of the group's coordinator after which no process begins
                anything outside Kafka.
            now_ms: the wall clock.
            agents: queue to the agent that is told of its handoffs.
            raw: where replies go that are no results; nowhere when None.
            clock: a clock that never goes back, in seconds.
        """
        self._intake = intake
        self._ruleset = ruleset
        alterations = Alterations(ruleset, metrics=metrics)
        self._calls = ToolCalls(
            tools,
            definitions=ruleset.catalog.tools,
            metrics=metrics,
            alterations=alterations,
            clock=clock,
        )
        self._gate = Gate(
            ruleset,
            callable_tools=self._calls,
            alterations=alterations,
            retention_ms=retention_ms,
            now_ms=now_ms,
        )
        self._undertakings = Undertakings(
            self._calls,
            gate=self._gate,
            reports=Reporter(
                publisher,
                max_record_bytes=max_record_bytes,
                retention_ms=retention_ms,
                now_ms=now_ms,
            ),
            metrics=metrics,
            session_seconds=session_seconds,
            now_ms=now_ms,
            raw=raw,
        )

        self._handoffs = Handoffs(
            agents or {},
            catalog=ruleset.catalog,
            metrics=metrics,
            retention_ms=retention_ms,
            now_ms=now_ms,
        )

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check an action; its state key is `conversation_id/action_id`."""
        key, event = self._intake.admit(record)
        action = cast("ActionEvent", event)
        if not action.action_id or "/" in action.action_id:
            raise Rejected(
                "invalid",
                "an action_id must not be empty or contain '/'",
                by_this_role_alone=True,
            )
        return key + b"/" + action.action_id.encode(), event

    def handle(
        self,
        record: Record,
        event: Event,
        state: Execution | None,
        lane: LaneContext[Execution],
    ) -> Handled[Execution] | Awaitable[Handled[Execution]]:
        """Make the call of an action that has one."""
        action = cast("ActionEvent", event)
        call = action.call
        if self._handoffs.concerns(action):
            return self._handoffs.hand(record, action, state=state, lane=lane)
        if call is None:
            return _passed_over(record, state)
        if state is not None and state.phase != "started":
            # The same action under another offset: its result was committed with this record.
            return Handled(passed(state, record))
        tool = self._ruleset.catalog.tools.get(call.tool)
        refused = self._gate.refusal(action, call, tool)
        again = tool is not None and repeatable(tool)
        if refused is None and (state is None or again) and not self._calls.allow(call.tool):
            refused = left_alone()
        if state is not None and (refused is not None or not again):
            return self._undertakings.settle(record, action, tool=tool, state=state, lane=lane)
        if refused is not None or tool is None:
            return self._undertakings.end(record, action, refused or unavailable())
        if state is None:
            return self._undertakings.begin(record, action, tool=tool, attempt=1, lane=lane)
        # An attempt that was cut off may have had its effect, like one that timed out.
        perhaps_done = tool.effect == "write"
        return self._undertakings.go_on(
            record, action, tool=tool, attempt=state.attempts, perhaps_done=perhaps_done, lane=lane
        )

    def flood(self, record: Record, event: Event, state: Execution | None) -> Handled[Execution]:
        """Refuse an action that is repeated without end; what it has led to stays as it is."""
        action = cast("ActionEvent", event)
        call = action.call
        if self._handoffs.concerns(action):
            return self._handoffs.interrupted(record, action, state=state)
        if state is not None and state.phase == "started" and call is not None:
            # Begun before a crash, and this record may be all that is left of it.
            tool = self._ruleset.catalog.tools.get(call.tool)
            return self._undertakings.interrupted(record, action, tool, attempts=state.attempts)
        if call is None or state is not None:
            return _passed_over(record, state)
        refused = denied("flood", "the action was repeated too often")
        return self._undertakings.end(record, action, refused)

    def abandon(
        self,
        record: Record,
        event: Event,
        state: Execution | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Execution]:
        """Say that a call could not be made, or that nobody knows whether it was."""
        action = cast("ActionEvent", event)
        call = action.call
        if self._handoffs.concerns(action):
            return self._handoffs.interrupted(record, action, state=state)
        if call is None:
            return _passed_over(record, state)
        begun = state.attempts if state is not None else 0
        if state is not None or isinstance(error, StateUnreadable):
            # A journal record exists: the call was begun, whether the record can be read or not.
            tool = self._ruleset.catalog.tools.get(call.tool)
            return self._undertakings.interrupted(record, action, tool, attempts=begun)
        failure = ToolError(code="handler_failed", message="the call could not be made")
        return self._undertakings.end(record, action, Ended("failed", attempts=0, error=failure))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> None:
        """Give a record up: past its deadline the action is refused without it."""
        if timer.kind == LOST:
            name = timer.timer_id
            if self._handoffs.lost(name):
                return
            self._undertakings.lost(name, self._ruleset.catalog.tools.get(name))


def _passed_over(record: Record, state: Execution | None) -> Handled[Execution]:
    """Nothing is to be done here; a record under the same id stays as it is."""
    return Handled(None if state is None else passed(state, record))


def check_write_timeouts(ruleset: Ruleset, *, grace_seconds: float) -> None:
    """Refuse write tools that a stop could not wait for: their outcome would often be unknown.

    Raises:
        DeploymentError: a write tool's time-out is not below the grace.
    """
    for place, message in writes_beyond(ruleset.catalog, grace_seconds=grace_seconds):
        raise DeploymentError(f"{'.'.join(map(str, place))} {message}")


def _agents(deployment: Deployment) -> Mapping[str, HandoffAgent]:
    """The agents of the catalog's queues.

    Raises:
        BindingError: one cannot be bound, or the extra for agents is not installed.
    """
    if all(queue.agent is None for queue in deployment.catalog.queues.values()):
        return {}
    module = optional("turnstream.tools.a2a", extra="a2a", place="queues")
    bound = module.bind_agents(
        deployment.catalog,
        environment=os.environ,
        egress_allow=deployment.settings.execute.egress_allow,
    )
    return cast("Mapping[str, HandoffAgent]", bound)


def build(deployment: Deployment) -> StreamRole[Execution, Event]:
    """The execute role of a deployment.

    Raises:
        BindingError: a tool cannot be bound.
        DeploymentError: a write tool's time-out is not below the grace.
    """
    settings = deployment.settings
    retention_ms = int(settings.execute.journal_retention_seconds * 1000)
    check_write_timeouts(deployment.ruleset, grace_seconds=settings.stream.grace_seconds)
    tools = bind_tools(
        deployment.catalog,
        environment=os.environ,
        egress_allow=settings.execute.egress_allow,
    )
    agents = _agents(deployment)
    raw = deployment.raw_sink("execute")

    async def close() -> None:
        for binding in tools.values():
            await binding.close()
        for agent in agents.values():
            await agent.close()
        if raw is not None:
            await asyncio.to_thread(raw.close)

    return StreamRole(
        name="execute",
        handler=ExecuteHandler(
            intake=deployment.intake(SOURCES, role="execute"),
            publisher=deployment.publisher("execute"),
            ruleset=deployment.ruleset,
            tools=tools,
            agents=agents,
            raw=raw,
            metrics=deployment.metrics,
            max_record_bytes=settings.stream.max_record_bytes,
            retention_ms=retention_ms,
            session_seconds=settings.stream.session_timeout_seconds,
            now_ms=deployment.now_ms,
        ),
        state_format=journal_format(retention_ms=retention_ms),
        sources=SOURCES,
        writes=WRITES,
        rejects=frozenset(SOURCES),
        max_keys_per_partition=settings.execute.journal_max_entries,
        close=close,
    )
