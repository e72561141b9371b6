"""Calls to tools as the executor makes them: watched, counted, left alone when nobody answers."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from turnstream.core.definitions import Tool
from turnstream.core.ports import Reconciliation, ToolBinding, ToolCall, ToolReply
from turnstream.metrics import Metrics
from turnstream.roles.alterations import Alterations, AlteredError
from turnstream.roles.breaker import BreakerState, CircuitBreaker
from turnstream.roles.journal import Execution
from turnstream.stream import LaneContext, failpoints
from turnstream.stream.backoff import backoff
from turnstream.tools.errors import (
    ARGUMENTS_ALTERED,
    INVALID_ARGUMENT,
    MISCONFIGURED,
    SCHEMA_CHANGED,
    TIMEOUT,
    UNAVAILABLE,
)

log = structlog.get_logger(__name__)

_NOBODY_THERE: Final = frozenset({TIMEOUT, UNAVAILABLE})
"""What counts against a tool; any other reply shows that somebody is there."""

_NEVER_SENT: Final = frozenset({INVALID_ARGUMENT, MISCONFIGURED, SCHEMA_CHANGED, ARGUMENTS_ALTERED})
"""What says nothing of the tool: the call did not leave this process."""


def repeatable(tool: Tool) -> bool:
    """Whether a second call with the same key does no harm."""
    return tool.effect == "read" or tool.idempotent


def pause(tool: Tool, attempt: int, *, reply: ToolReply, seed: str) -> float | None:
    """Seconds to wait after a failed attempt.

    Args:
        tool: the tool.
        attempt: the number of the attempt that failed, from 1.
        reply: how it failed.
        seed: names the call, so that its waits are the same wherever it is made.

    Returns:
        The policy's wait, after the time that the other side wants to be left alone. None when that
        is longer than the policy allows: to call earlier would be no help.
    """
    asked = reply.retry_after_seconds or 0.0
    if asked > tool.retry.max_retry_after_seconds:
        return None
    return asked + _backoff(tool, attempt, seed=seed)


def _backoff(tool: Tool, attempt: int, *, seed: str) -> float:
    policy = tool.retry
    return backoff(
        attempt, first=policy.backoff_seconds, longest=policy.max_backoff_seconds, seed=seed
    )


class ToolCalls:
    """The tools of a process."""

    def __init__(
        self,
        bindings: Mapping[str, ToolBinding],
        *,
        definitions: Mapping[str, Tool],
        metrics: Metrics,
        alterations: Alterations,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with every breaker closed.

        Args:
            bindings: tool name to its binding.
            definitions: tool name to its definition.
            metrics: where calls are counted and breakers shown.
            alterations: compares what is sent and used with what was asked for.
            clock: a clock that never goes back, in seconds.
        """
        self._bindings = bindings
        self._definitions = definitions
        self._metrics = metrics
        self._alterations = alterations
        self._breakers = {
            name: CircuitBreaker(
                failures=definitions[name].breaker.failures,
                cool_down_seconds=definitions[name].breaker.cool_down_seconds,
                now=clock,
            )
            for name in bindings
            if name in definitions
        }
        metrics.watch_tools(self.breaker_states)

    def __contains__(self, name: object) -> bool:
        """Whether a tool can be called."""
        return name in self._breakers

    def breaker_states(self) -> Mapping[str, BreakerState]:
        """Tool name to the state of its breaker; any thread may ask."""
        return {name: breaker.state for name, breaker in self._breakers.items()}

    def allow(self, name: str) -> bool:
        """Whether a tool may be called now; half open, who is allowed makes the one probe."""
        return self._breakers[name].allows()

    def left_alone(self, name: str) -> bool:
        """Whether a tool is left alone; unlike `allow`, asking takes no probe."""
        return self._breakers[name].state == "open"

    def reconciles(self, name: str) -> bool:
        """Whether a tool can be asked what became of a call."""
        return name in self._breakers and self._bindings[name].reconciles

    async def attempt(self, call: ToolCall) -> ToolReply:
        """Make one attempt at a call."""
        begun = time.perf_counter()
        work = self._bindings[call.tool].call(self._alterations.watched(call))
        if failpoints.armed is not None:
            work = failpoints.armed.during("during_call", work)
        try:
            reply = await work
        except AlteredError as altered:
            reply = self._alterations.unsent(call, altered)
        self._metrics.tool_attempted(call.tool, seconds=time.perf_counter() - begun)
        if reply.error_code == SCHEMA_CHANGED:
            self._metrics.tool_schema_changed(call.tool)
            log.error(
                "a tool is not what the catalog says", tool=call.tool, how=reply.error_message
            )
        self._note(call.tool, reply)
        if reply.error_code == ARGUMENTS_ALTERED:
            return reply
        return self._alterations.after(call, reply, tool=self._definitions[call.tool])

    async def reconcile(
        self, call: ToolCall, *, tool: Tool, lane: LaneContext[Execution]
    ) -> Reconciliation:
        """Ask what became of a call, as often as the tool's policy allows attempts."""
        await failpoints.reach("before_reconcile")
        attempt = 1
        while True:
            work = self._bindings[call.tool].reconcile(call)
            if failpoints.armed is not None:
                work = failpoints.armed.during("during_reconcile", work)
            found = await work
            if found.verdict != "unknown" or not found.retryable or attempt >= tool.retry.attempts:
                break
            await lane.rest(_backoff(tool, attempt, seed=f"{call.idempotency_key}/reconcile"))
            attempt += 1
        await failpoints.reach("after_reconcile")
        self._metrics.tool_reconciled(call.tool, verdict=found.verdict)
        log.warning("asked what became of a call", tool=call.tool, verdict=found.verdict)
        return found

    def _note(self, name: str, reply: ToolReply) -> None:
        """Tell the breaker how a call went."""
        if reply.error_code in _NEVER_SENT:
            return
        breaker = self._breakers[name]
        former = breaker.state
        if reply.error_code in _NOBODY_THERE:
            breaker.failed()
        else:
            breaker.succeeded()
        if breaker.state != former:
            log.warning("breaker of a tool", tool=name, state=breaker.state, before=former)
