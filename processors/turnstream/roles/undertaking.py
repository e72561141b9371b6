"""A call on its way: from the record that it is about to be made to its end, whatever happens.

Everything of a call that goes over a network or into the journal is here; what must not be
undertaken at all, :mod:`turnstream.roles.execute` and the gate have said before.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import structlog
from pydantic import JsonValue

from turnstream.core.definitions import Tool
from turnstream.core.events import ToolError, ToolOutcome
from turnstream.core.ports import ToolCall, ToolReply
from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.metrics import Metrics
from turnstream.roles.calling import ToolCalls, pause, repeatable
from turnstream.roles.gate import Gate, arguments_of, left_alone
from turnstream.roles.journal import Execution
from turnstream.roles.publishing import traceparent_of
from turnstream.roles.raw_sink import RawSink
from turnstream.roles.reporting import Ended, Reporter
from turnstream.stream import Handled, LaneContext, Record, failpoints
from turnstream.tools.errors import ARGUMENTS_ALTERED

log = structlog.get_logger(__name__)


class Undertakings:
    """Makes decided calls, and finds out about those that nobody has a reply of."""

    def __init__(
        self,
        calls: ToolCalls,
        *,
        gate: Gate,
        reports: Reporter,
        metrics: Metrics,
        session_seconds: float,
        now_ms: Callable[[], int],
        raw: RawSink | None = None,
    ) -> None:
        """Prepare.

        Args:
            calls: the tools.
            gate: says whether a call may still be made.
            reports: turns ends into what is committed.
            metrics: where calls are counted.
            session_seconds: silence of the group's coordinator after which no process begins
                anything outside Kafka.
            now_ms: the wall clock.
            raw: where replies go that are no results; nowhere when None.
        """
        self._calls = calls
        self._gate = gate
        self._reports = reports
        self._metrics = metrics
        self._session_seconds = session_seconds
        self._now_ms = now_ms
        self._raw = raw

    async def begin(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool,
        attempt: int,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """Write down that the call is about to be made, then make it if it still may be made."""
        await failpoints.reach("before_started")
        await lane.commit(_key(record, action), self._reports.started(action, attempt))
        await failpoints.reach("after_started")
        # The brokers may have been away for minutes meanwhile. Nothing has gone out yet.
        refused = self._refusal(action, tool)
        if refused is not None:
            return self.end(record, action, replace(refused, attempts=attempt - 1))
        return await self.go_on(
            record, action, tool=tool, attempt=attempt, perhaps_done=False, lane=lane
        )

    async def go_on(
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
            reply = await self._attempt(record, action, call, tool=tool, lane=lane)
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
            await failpoints.reach("before_restarted")
            await lane.commit(
                _key(record, action), self._reports.started(action, attempt), (failed,)
            )
            await failpoints.reach("after_restarted")
            await lane.rest(wait)
            # The commit and the wait may have been long, and others have called meanwhile.
            if self._gate.refusal(action, call, tool) or not self._calls.allow(call.tool):
                return await self._concluded(record, action, ended, tool=tool, lane=lane)
            self._metrics.tool_retried(call.tool)

    def _refusal(self, action: ActionEvent, tool: Tool) -> Ended | None:
        """Why a call that was allowed must not be made any more."""
        call = cast("CallPayload", action.call)
        refused = self._gate.refusal(action, call, tool)
        if refused is None and self._calls.left_alone(call.tool):
            return left_alone()
        return refused

    async def _attempt(
        self,
        record: Record,
        action: ActionEvent,
        call: CallPayload,
        *,
        tool: Tool,
        lane: LaneContext[Execution],
    ) -> ToolReply:
        request = _request(record, action, call)
        if tool.effect == "write":
            lane.ensure_owned()
            request = replace(request, sending=lambda _: lane.ensure_owned())
        reply = await self._calls.attempt(request)
        if reply.raw is not None and self._raw is not None:
            about: dict[str, JsonValue] = {
                "at": self._now_ms(),
                "conversation_id": action.conversation_id,
                "turn_id": action.turn_id,
                "action_id": action.action_id,
                "tool_call_id": call.tool_call_id,
                "tool": call.tool,
                "error": reply.error_code,
            }
            self._raw.put(reply.raw.decode(errors="replace"), about)
        return reply

    # --- calls that nobody has a reply of -------------------------------------------------------

    def settle(
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
            return self.interrupted(record, action, tool, attempts=state.attempts)
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
        # The service may still be at work on it: not found would then be no last word. When it was
        # begun the journal does not tell: its time is that before the commit, by another clock
        # perhaps. A former owner that was replaced early, as a static member may be, begins a write
        # for the rest of its session at most, so all of this is waited for, from now on.
        await lane.rest(self._session_seconds + tool.timeout_seconds)
        found = await self._calls.reconcile(_request(record, action, call), tool=tool, lane=lane)
        attempts = state.attempts
        if found.verdict == "found" and found.reply is not None:
            ended = self._reports.judged(tool, found.reply, attempt=attempts, perhaps_done=True)
            return self.end(record, action, ended)
        if found.verdict == "unknown":
            return self.interrupted(record, action, tool, attempts=attempts)
        if self._gate.refusal(action, call, tool) is None and self._calls.allow(call.tool):
            return await self.begin(record, action, tool=tool, attempt=attempts + 1, lane=lane)
        error = ToolError(code="interrupted", message="the call was begun and had no effect")
        return self.end(record, action, Ended("failed", attempts=attempts, error=error))

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
        # What was carried out in place of an altered call is not the call, whatever the tool finds.
        # One that was altered and did not leave is no reason not to ask about those before it.
        altered = (
            ended.reply is not None
            and ended.reply.error_code == ARGUMENTS_ALTERED
            and ended.reply.outcome_unknown
        )
        unknown = ended.outcome == "outcome_unknown" and not altered
        if unknown and self._calls.reconciles(call.tool):
            found = await self._calls.reconcile(
                _request(record, action, call), tool=tool, lane=lane
            )
            # Not found means little so soon after a call that may still be under way.
            if found.reply is not None:
                sent = ended.reply.body_hash if ended.reply is not None else None
                reply = replace(found.reply, body_hash=sent)
                ended = self._reports.judged(tool, reply, attempt=ended.attempts, perhaps_done=True)
        return self.end(record, action, ended)

    def interrupted(
        self, record: Record, action: ActionEvent, tool: Tool | None, *, attempts: int
    ) -> Handled[Execution]:
        """End a call that was begun and whose reply nobody has."""
        message = "the call was begun and its reply is not known"
        error = ToolError(code="interrupted", message=message)
        ended = Ended(_unheard_of(tool), attempts=attempts, error=error)
        return self.end(record, action, ended)

    def lost(self, name: str, tool: Tool | None) -> None:
        """Report a call that was begun, whose reply nobody has and whose action is gone."""
        self._metrics.tool_called(name, outcome=_unheard_of(tool))
        log.error(
            "a call was begun and its action never came back: nobody was told how it ended",
            tool=name if name in self._calls else None,
            error="interrupted",
        )

    def end(self, record: Record, action: ActionEvent, ended: Ended) -> Handled[Execution]:
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


def _unheard_of(tool: Tool | None) -> ToolOutcome:
    """How a call ended whose reply nobody has: of a read it does not matter."""
    return "failed" if tool is not None and tool.effect == "read" else "outcome_unknown"


def _key(record: Record, action: ActionEvent) -> bytes:
    """The key of an action's journal record."""
    return cast("bytes", record.key) + b"/" + action.action_id.encode()


def _request(record: Record, action: ActionEvent, call: CallPayload) -> ToolCall:
    trace = traceparent_of(record)
    return ToolCall(
        tool=call.tool,
        arguments=arguments_of(call) or {},
        idempotency_key=action.action_id,
        subject_id=call.subject_id,
        conversation_id=action.conversation_id,
        traceparent=trace.decode(errors="replace") if trace is not None else None,
    )
