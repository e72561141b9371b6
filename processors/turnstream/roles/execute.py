"""The execute role: calls in, results out, each side effect at most once.

An action's id is the key of its journal record and the idempotency key that the tool gets. The
story of one call:

1. checked once more against the live catalog: known tool, permissions, arguments, age;
2. STARTED is committed before the first byte goes out;
3. the call, if it is a write only while this process owns the partition for certain; a failed
   attempt of a repeatable tool is published before it is tried again;
4. DONE, the result and the source offset are committed together.

A process that dies in between leaves STARTED behind. A read or an idempotent tool is then called
again with the same key. Any other is asked what became of the call, if it can be: one that was
carried out ends with its result, one that was not may be made again with the same key. Where nobody
knows, the outcome is `outcome_unknown`, and it is never called a second time.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, cast

import structlog

from turnstream.core.definitions import Tool
from turnstream.core.events import (
    ActionEvent,
    CallPayload,
    Event,
    ToolError,
    ToolOutcome,
)
from turnstream.core.ports import ToolBinding, ToolCall, ToolReply
from turnstream.core.ruleset import Ruleset
from turnstream.metrics import Metrics
from turnstream.roles.calling import ToolCalls, pause, repeatable
from turnstream.roles.deployment import Deployment, DeploymentError, StreamRole
from turnstream.roles.gate import Gate, arguments_of, denied, unavailable
from turnstream.roles.intake import Intake
from turnstream.roles.journal import Execution, journal_format
from turnstream.roles.publishing import Publisher
from turnstream.roles.reporting import Ended, Reporter, passed
from turnstream.stream import (
    Handled,
    LaneContext,
    Record,
    Rejected,
    StateUnreadable,
    TimerDue,
    failpoints,
)
from turnstream.tools import bind_tools

log = structlog.get_logger(__name__)

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
        now_ms: Callable[[], int],
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
            now_ms: the wall clock.
            clock: a clock that never goes back, in seconds.
        """
        self._intake = intake
        self._reports = Reporter(
            publisher,
            max_record_bytes=max_record_bytes,
            retention_ms=retention_ms,
            now_ms=now_ms,
        )
        self._ruleset = ruleset
        self._calls = ToolCalls(
            tools, definitions=ruleset.catalog.tools, metrics=metrics, clock=clock
        )
        self._gate = Gate(
            ruleset, callable_tools=self._calls, retention_ms=retention_ms, now_ms=now_ms
        )
        self._metrics = metrics
        self._now_ms = now_ms

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check an action; its state key is `conversation_id/action_id`."""
        key, event = self._intake.admit(record)
        action = cast("ActionEvent", event)
        if not action.action_id or "/" in action.action_id:
            raise Rejected("invalid", "an action_id must not be empty or contain '/'")
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
        if call is None:
            return Handled(state)
        if state is not None and state.phase != "started":
            # The same action under another offset: its result was committed with this record.
            return Handled(passed(state, record))
        tool = self._ruleset.catalog.tools.get(call.tool)
        refused = self._gate.refusal(action, call, tool)
        again = tool is not None and repeatable(tool)
        if refused is None and (state is None or again) and not self._calls.allow(call.tool):
            refused = _left_alone()
        if state is not None and (refused is not None or not again):
            return self._doubtful(record, action, tool=tool, state=state, lane=lane)
        if refused is not None or tool is None:
            return self._end(record, action, refused or unavailable())
        if state is None:
            return self._begin(record, action, tool=tool, attempt=1, lane=lane)
        # An attempt that was cut off may have had its effect, like one that timed out.
        perhaps_done = tool.effect == "write"
        return self._call(
            record, action, tool=tool, attempt=state.attempts, perhaps_done=perhaps_done, lane=lane
        )

    def flood(self, record: Record, event: Event, state: Execution | None) -> Handled[Execution]:
        """Refuse an action that is repeated without end; what it has led to stays as it is."""
        action = cast("ActionEvent", event)
        if action.call is None or state is not None:
            return Handled(state if state is None else passed(state, record))
        return self._end(record, action, denied("flood", "the action was repeated too often"))

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
        if call is None:
            return Handled(state)
        begun = state.attempts if state is not None else 0
        if state is not None or isinstance(error, StateUnreadable):
            # A journal record exists: the call was begun, whether the record can be read or not.
            tool = self._ruleset.catalog.tools.get(call.tool)
            return self._interrupted(record, action, tool, attempts=begun)
        failure = ToolError(code="handler_failed", message="the call could not be made")
        return self._end(record, action, Ended("failed", attempts=0, error=failure))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> None:
        """Give a record up: past its deadline the action is refused without it."""

    # --- the call -------------------------------------------------------------------------------

    async def _begin(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool,
        attempt: int,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """Write down that the call is about to be made, then make it."""
        await failpoints.reach("before_started")
        await lane.commit(_key(record, action), self._reports.started(action, attempt))
        await failpoints.reach("after_started")
        return await self._call(
            record, action, tool=tool, attempt=attempt, perhaps_done=False, lane=lane
        )

    async def _call(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool,
        attempt: int,
        perhaps_done: bool,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """Make a call that is in the journal, again if it may be repeated."""
        call = cast("CallPayload", action.call)
        while True:
            reply = await self._attempt(action, call, tool=tool, lane=lane)
            await failpoints.reach("after_call")
            perhaps_done = perhaps_done or reply.outcome_unknown
            ended = self._reports.judged(tool, reply, attempt=attempt, perhaps_done=perhaps_done)
            wait = pause(tool, attempt, reply=reply, seed=action.action_id)
            if (
                not reply.retryable
                or not repeatable(tool)
                or attempt >= tool.retry.attempts
                or wait is None
                or self._now_ms() + wait * 1000 >= call.deadline_at
                or self._calls.left_alone(call.tool)
            ):
                return await self._concluded(record, action, ended, tool=tool, lane=lane)
            failed = self._reports.failed(record, action, ended)
            attempt += 1
            await lane.commit(
                _key(record, action), self._reports.started(action, attempt), (failed,)
            )
            await lane.rest(wait)
            # The wait may have been longer than asked for, and others have called meanwhile.
            if self._now_ms() >= call.deadline_at or not self._calls.allow(call.tool):
                return await self._concluded(record, action, ended, tool=tool, lane=lane)
            self._metrics.tool_retried(call.tool)

    async def _attempt(
        self,
        action: ActionEvent,
        call: CallPayload,
        *,
        tool: Tool,
        lane: LaneContext[Execution],
    ) -> ToolReply:
        request = _request(action, call)
        if tool.effect == "write":
            lane.ensure_owned()
            request = replace(request, sending=lane.ensure_owned)
        return await self._calls.attempt(request)

    # --- calls that nobody has a reply of -------------------------------------------------------

    def _doubtful(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool | None,
        state: Execution,
        lane: LaneContext[Execution],
    ) -> Handled[Execution] | Awaitable[Handled[Execution]]:
        """Go on with a call that was begun and must not simply be made again."""
        call = cast("CallPayload", action.call)
        if (
            tool is None
            or tool.effect == "read"
            or not self._calls.reconciles(call.tool)
            or arguments_of(call) is None
        ):
            return self._interrupted(record, action, tool, attempts=state.attempts)
        return self._reconciled(record, action, tool=tool, state=state, lane=lane)

    async def _reconciled(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool,
        state: Execution,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """Ask what became of a call; make it again only if it certainly was not carried out."""
        call = cast("CallPayload", action.call)
        # The service may still be at work on it: not found would then be no last word.
        over_at = state.updated_at + tool.timeout_seconds * 1000
        left = min((over_at - self._now_ms()) / 1000, tool.timeout_seconds)
        if left > 0:
            await lane.rest(left)
        found = await self._calls.reconcile(_request(action, call), tool=tool, lane=lane)
        attempts = state.attempts
        if found.verdict == "found" and found.reply is not None:
            ended = self._reports.judged(tool, found.reply, attempt=attempts, perhaps_done=True)
            return self._end(record, action, ended)
        if found.verdict == "unknown":
            return self._interrupted(record, action, tool, attempts=attempts)
        if self._gate.refusal(action, call, tool) is None and self._calls.allow(call.tool):
            return await self._begin(record, action, tool=tool, attempt=attempts + 1, lane=lane)
        error = ToolError(code="interrupted", message="the call was begun and had no effect")
        return self._end(record, action, Ended("failed", attempts=attempts, error=error))

    async def _concluded(
        self,
        record: Record,
        action: ActionEvent,
        ended: Ended,
        *,
        tool: Tool,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """End a call; where its outcome is unknown, the tool may know."""
        call = cast("CallPayload", action.call)
        if ended.outcome == "outcome_unknown" and self._calls.reconciles(call.tool):
            found = await self._calls.reconcile(_request(action, call), tool=tool, lane=lane)
            # Not found means little so soon after a call that may still be under way.
            if found.reply is not None:
                sent = ended.reply.body_hash if ended.reply is not None else None
                reply = replace(found.reply, body_hash=sent)
                ended = self._reports.judged(tool, reply, attempt=ended.attempts, perhaps_done=True)
        return self._end(record, action, ended)

    def _interrupted(
        self, record: Record, action: ActionEvent, tool: Tool | None, *, attempts: int
    ) -> Handled[Execution]:
        """End a call that was begun and whose reply nobody has."""
        message = "the call was begun and its reply is not known"
        error = ToolError(code="interrupted", message=message)
        reads = tool is not None and tool.effect == "read"
        outcome: ToolOutcome = "failed" if reads else "outcome_unknown"
        return self._end(record, action, Ended(outcome, attempts=attempts, error=error))

    def _end(self, record: Record, action: ActionEvent, ended: Ended) -> Handled[Execution]:
        """The last record of the journal and the final result, committed together."""
        call = cast("CallPayload", action.call)
        self._metrics.tool_called(call.tool, outcome=ended.outcome)
        if ended.outcome != "done":
            log.warning(
                "call ended without a result",
                # A tool's name is the catalog's only if the catalog knows it.
                tool=call.tool if call.tool in self._calls else None,
                outcome=ended.outcome,
                error=ended.error.code if ended.error is not None else None,
                attempts=ended.attempts,
            )
        return self._reports.ended(record, action, ended)


def _key(record: Record, action: ActionEvent) -> bytes:
    """The key of an action's journal record."""
    return cast("bytes", record.key) + b"/" + action.action_id.encode()


def _request(action: ActionEvent, call: CallPayload) -> ToolCall:
    return ToolCall(
        tool=call.tool,
        arguments=arguments_of(call) or {},
        idempotency_key=action.action_id,
        subject_id=call.subject_id,
        conversation_id=action.conversation_id,
    )


def _left_alone() -> Ended:
    message = "the tool has failed too often in a row and is left alone for a while"
    return Ended("failed", attempts=0, error=ToolError(code="tool_unavailable", message=message))


def check_write_timeouts(ruleset: Ruleset, *, grace_seconds: float) -> None:
    """Refuse write tools that a stop could not wait for: their outcome would often be unknown.

    Raises:
        DeploymentError: a write tool's time-out is not below the grace.
    """
    for name, tool in ruleset.catalog.tools.items():
        if tool.effect == "write" and tool.timeout_seconds >= grace_seconds:
            raise DeploymentError(
                f"tools.{name}.timeout_seconds is {tool.timeout_seconds:g} but a write must end "
                f"within stream.grace_seconds ({grace_seconds:g}): lower it, or raise the grace"
            )


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

    async def close() -> None:
        for binding in tools.values():
            await binding.close()

    return StreamRole(
        name="execute",
        handler=ExecuteHandler(
            intake=deployment.intake(SOURCES),
            publisher=deployment.publisher("execute"),
            ruleset=deployment.ruleset,
            tools=tools,
            metrics=deployment.metrics,
            max_record_bytes=settings.stream.max_record_bytes,
            retention_ms=retention_ms,
            now_ms=deployment.now_ms,
        ),
        state_format=journal_format(retention_ms=retention_ms),
        sources=SOURCES,
        writes=WRITES,
        rejects=frozenset(SOURCES),
        max_keys_per_partition=settings.execute.journal_max_entries,
        close=close,
    )
