"""The execute role: calls in, results out, each side effect at most once.

An action's id is the key of its journal record and the idempotency key that the tool gets. The
story of one call:

1. checked once more against the live catalog: known tool, permissions, arguments, deadline;
2. STARTED is committed before the first byte goes out;
3. the call; a failed attempt of a repeatable tool is published before it is tried again;
4. DONE, the result and the source offset are committed together.

A process that dies in between leaves STARTED behind. A read or an idempotent tool is then called
again with the same key. Of any other nobody knows whether it happened: the outcome is
`outcome_unknown`, and it is never called a second time.
"""

import asyncio
import hashlib
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

import orjson
import structlog
from pydantic import JsonValue, TypeAdapter

from turnstream.core.definitions import Tool
from turnstream.core.events import (
    ActionEvent,
    CallPayload,
    Event,
    ToolError,
    ToolOutcome,
    ToolResult,
)
from turnstream.core.ports import ToolBinding, ToolCall, ToolReply
from turnstream.core.ruleset import Ruleset
from turnstream.metrics import Metrics
from turnstream.roles.deployment import Deployment, DeploymentError, StreamRole
from turnstream.roles.intake import Intake
from turnstream.roles.publishing import Publisher
from turnstream.roles.records import RecordFormat
from turnstream.stream import (
    Handled,
    LaneContext,
    Publication,
    Record,
    Rejected,
    StateUnreadable,
    TimerDue,
)
from turnstream.tools import bind_tools

log = structlog.get_logger(__name__)

SOURCES: Final = ("conversation.actions",)
WRITES: Final = ("tool.results",)

RECORD_VERSION: Final = 1

_CLOCK_SLACK_MS: Final = 60_000
"""Kept beyond the deadline: a clock that is set back must not bring an action back to life."""

_ENVELOPE_BYTES: Final = 16_384
"""Left for everything but the result in an event: a result that fills the limit would be refused by
the role that waits for it."""

Phase = Literal["started", "done", "outcome_unknown"]


@dataclass(frozen=True, slots=True)
class Execution:
    """The journal record of one call."""

    action_id: str
    tool: str
    phase: Phase
    attempts: int
    """Calls begun, or about to be."""
    updated_at: int
    """Milliseconds UTC."""
    expires_at: int
    """The action's deadline, milliseconds UTC: from then on it is refused."""
    result_hash: str | None = None
    """SHA-256 of the result as published."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    record_version: int = RECORD_VERSION


_ADAPTER: Final = TypeAdapter(Execution)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended, or one attempt at it."""

    outcome: ToolOutcome
    attempts: int
    error: ToolError | None = None
    result: bytes | None = None
    """JSON text."""
    reply: ToolReply | None = None


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
        now_ms: Callable[[], int],
        sleep: Callable[[float], Coroutine[None, None, None]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes results.
            ruleset: the live catalog and its argument checks.
            tools: tool name to its binding.
            metrics: where calls are counted.
            max_record_bytes: largest value that readers of results accept.
            now_ms: the wall clock.
            sleep: waits between attempts, in seconds.
        """
        self._intake = intake
        self._publisher = publisher
        self._ruleset = ruleset
        self._tools = tools
        self._metrics = metrics
        self._max_result_bytes = max_record_bytes - _ENVELOPE_BYTES
        self._now_ms = now_ms
        self._sleep = sleep

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
            return Handled(self._passed(state, record))
        tool = self._ruleset.catalog.tools.get(call.tool)
        refused = self._refusal(call, tool)
        if state is not None and (refused is not None or tool is None or not _repeatable(tool)):
            return self._interrupted(record, action, tool, attempts=state.attempts)
        if refused is not None or tool is None:
            return self._end(record, action, refused or _unavailable())
        return self._call(record, action, tool=tool, state=state, lane=lane)

    def flood(self, record: Record, event: Event, state: Execution | None) -> Handled[Execution]:
        """Refuse an action that is repeated without end; what it has led to stays as it is."""
        action = cast("ActionEvent", event)
        if action.call is None or state is not None:
            return Handled(state if state is None else self._passed(state, record))
        return self._end(record, action, _denied("flood", "the action was repeated too often"))

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

    # --- before the call ------------------------------------------------------------------------

    def _refusal(self, call: CallPayload, tool: Tool | None) -> Ended | None:
        """Why a decided call must not be made now; the decision may be old, the catalog newer."""
        if tool is None or call.tool not in self._tools:
            return _unavailable()
        if call.deadline_at <= self._now_ms():
            # Its journal record may be gone: whether it ran can no longer be known.
            return _denied("expired", "the deadline had passed before the call could start")
        lacking = [one for one in tool.required_permissions if one not in call.permissions]
        if lacking:
            return _denied("missing_permission", f"the session lacks {', '.join(lacking)}")
        if tool.data_scope == "own" and not call.subject_id:
            return _denied("missing_subject", "the session names no authenticated customer")
        return self._argument_fault(call)

    def _argument_fault(self, call: CallPayload) -> Ended | None:
        arguments = _arguments(call)
        if arguments is None:
            error = ToolError(code="invalid_argument", message="the arguments are not an object")
            return Ended("denied", attempts=0, error=error)
        check = self._ruleset.checks.get(call.tool)
        fault = check(arguments) if check is not None else None
        if fault is None:
            return None
        error = ToolError(
            code="invalid_argument", message=fault.message, path=fault.path, keyword=fault.keyword
        )
        return Ended("denied", attempts=0, error=error)

    # --- the call -------------------------------------------------------------------------------

    async def _call(
        self,
        record: Record,
        action: ActionEvent,
        *,
        tool: Tool,
        state: Execution | None,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        call = cast("CallPayload", action.call)
        key = record.key + b"/" + action.action_id.encode()
        attempt = 1 if state is None else state.attempts
        # An attempt that was cut off may have had its effect, like one that timed out.
        perhaps_done = state is not None and tool.effect == "write"
        if state is None:
            await lane.commit(key, self._started(action, call, attempt))
        while True:
            reply = await self._attempt(action, call)
            perhaps_done = perhaps_done or reply.outcome_unknown
            ended = self._judged(tool, reply, attempt=attempt, perhaps_done=perhaps_done)
            wait = _backoff(tool, action.action_id, attempt)
            again = (
                reply.retryable
                and _repeatable(tool)
                and attempt < tool.retry.attempts
                and self._now_ms() + wait * 1000 < call.deadline_at
            )
            if not again:
                return self._end(record, action, ended)
            failed = self._result(record, action, replace(ended, outcome="failed"), final=False)
            attempt += 1
            await lane.commit(key, self._started(action, call, attempt), (failed,))
            self._metrics.tool_retried(call.tool)
            await self._sleep(wait)

    async def _attempt(self, action: ActionEvent, call: CallPayload) -> ToolReply:
        begun = time.perf_counter()
        reply = await self._tools[call.tool].call(
            ToolCall(
                tool=call.tool,
                arguments=_arguments(call) or {},
                idempotency_key=action.action_id,
                subject_id=call.subject_id,
                conversation_id=action.conversation_id,
            )
        )
        self._metrics.tool_attempted(call.tool, seconds=time.perf_counter() - begun)
        return reply

    def _judged(self, tool: Tool, reply: ToolReply, *, attempt: int, perhaps_done: bool) -> Ended:
        """What a reply means for the call as a whole."""
        if reply.error_code is None:
            result = orjson.dumps(dict(reply.result or {}))
            if len(result) <= self._max_result_bytes:
                return Ended("done", attempts=attempt, result=result, reply=reply)
            reply = replace(
                reply,
                error_code="invalid_result",
                error_message=f"the result is longer than {self._max_result_bytes} bytes of JSON",
                outcome_unknown=tool.effect == "write",
            )
        error = ToolError(
            code=reply.error_code or "",
            message=reply.error_message,
            retryable=reply.retryable,
        )
        # A definite reply to the same key also speaks for the attempts before it.
        unknown = reply.outcome_unknown or (reply.retryable and perhaps_done)
        return Ended(
            "outcome_unknown" if unknown else "failed", attempts=attempt, error=error, reply=reply
        )

    # --- after the call -------------------------------------------------------------------------

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
                tool=call.tool if call.tool in self._tools else None,
                outcome=ended.outcome,
                error=ended.error.code if ended.error is not None else None,
                attempts=ended.attempts,
            )
        state = Execution(
            action_id=action.action_id,
            tool=call.tool,
            phase="outcome_unknown" if ended.outcome == "outcome_unknown" else "done",
            attempts=ended.attempts,
            updated_at=self._now_ms(),
            expires_at=call.deadline_at,
            result_hash=_sha256(ended.result) if ended.result is not None else None,
            watermarks={record.topic: record.offset},
        )
        return Handled(state, (self._result(record, action, ended, final=True),))

    def _result(
        self, record: Record, action: ActionEvent, ended: Ended, *, final: bool
    ) -> Publication:
        call = cast("CallPayload", action.call)
        reply = ended.reply
        result = ToolResult(
            action_id=action.action_id,
            conversation_id=action.conversation_id,
            tool_call_id=call.tool_call_id,
            name=call.tool,
            ok=ended.outcome == "done",
            final=final,
            result_json=ended.result.decode() if ended.result is not None else None,
            error=ended.error,
            outcome=ended.outcome,
            attempts=ended.attempts,
            versions=action.versions,
            arguments_hash=_sha256(call.arguments_json.encode()),
            body_hash=reply.body_hash if reply is not None else None,
            used_hash=reply.used_hash if reply is not None else None,
            occurred_at=self._now_ms(),
        )
        event_id = action.action_id if final else f"{action.action_id}/{ended.attempts}"
        return self._publisher.publication(result, key=record.key, event_id=event_id, record=record)

    def _started(self, action: ActionEvent, call: CallPayload, attempts: int) -> Execution:
        return Execution(
            action_id=action.action_id,
            tool=call.tool,
            phase="started",
            attempts=attempts,
            updated_at=self._now_ms(),
            expires_at=call.deadline_at,
        )

    def _passed(self, state: Execution, record: Record) -> Execution:
        return replace(state, watermarks={**state.watermarks, record.topic: record.offset})


def _repeatable(tool: Tool) -> bool:
    """Whether a second call with the same key does no harm."""
    return tool.effect == "read" or tool.idempotent


def _backoff(tool: Tool, action_id: str, attempt: int) -> float:
    """Seconds to wait after an attempt: doubling, and spread so that calls do not return together.

    Between half of the policy's wait and all of it, by the action's id and not by chance.
    """
    policy = tool.retry
    wait = min(policy.backoff_seconds * 2.0 ** (attempt - 1), policy.max_backoff_seconds)
    return wait * (0.5 + zlib.crc32(f"{action_id}/{attempt}".encode()) / 2**33)


def _arguments(call: CallPayload) -> dict[str, JsonValue] | None:
    try:
        arguments = orjson.loads(call.arguments_json)
    except orjson.JSONDecodeError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _unavailable() -> Ended:
    error = ToolError(code="tool_unavailable", message="the catalog in use has no such tool")
    return Ended("failed", attempts=0, error=error)


def _denied(code: str, message: str) -> Ended:
    return Ended("denied", attempts=0, error=ToolError(code=code, message=message))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def journal_format() -> RecordFormat[Execution]:
    """How executions are stored: until the action itself is refused as expired.

    So the same action, however it comes back - a replay, a mirrored topic -, is never called twice.
    """
    return RecordFormat(_ADAPTER, version=RECORD_VERSION, closed=lambda _: False, timers=_expiry)


def _expiry(state: Execution) -> Sequence[TimerDue]:
    if state.phase == "started":
        return ()
    return (TimerDue("expiry", "expiry", state.expires_at + _CLOCK_SLACK_MS),)


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
            now_ms=deployment.now_ms,
        ),
        state_format=journal_format(),
        sources=SOURCES,
        writes=WRITES,
        rejects=frozenset(SOURCES),
        close=close,
    )
