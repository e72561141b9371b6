"""Handoffs whose queue has an agent: it is told of them, each once as far as it can be.

The conversation is with people from the moment of the handoff, whatever becomes of this. The story
is that of a call: STARTED is committed before the first byte goes out, DONE with the source offset.
An attempt that was cut off is made again with the same message id. The journal counts the attempts:
one whose reply ends the process is not told again at every start. Where the agent cannot be told,
the log and a metric say so, and nothing else changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, cast

import structlog

from turnstream.core.definitions import Catalog
from turnstream.core.ports import HandoffAgent, HandoffNotice
from turnstream.core.publications import ActionEvent, HandoffPayload
from turnstream.core.servers import RemoteAgent
from turnstream.metrics import Metrics
from turnstream.roles.journal import Execution
from turnstream.roles.publishing import traceparent_of
from turnstream.roles.reporting import passed
from turnstream.stream import Handled, LaneContext, Record, failpoints
from turnstream.stream.backoff import backoff

log = structlog.get_logger(__name__)

_QUEUE: Final = "queue:"
"""Begins what a journal record of a handoff has for a tool: no tool's name has a colon."""

_FIRST_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 10.0
"""Waits between two attempts: an agent that restarts is reached, a partition is not held for long.
"""

_CUT_OFF: Final = 3
"""Attempts beyond those of the definition: restarts that have nothing to do with the agent."""

_TOO_OLD: Final = "the handoff was too old to be told"


class Handoffs:
    """Tells the agents of queues."""

    def __init__(
        self,
        agents: Mapping[str, HandoffAgent],
        *,
        catalog: Catalog,
        metrics: Metrics,
        retention_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            agents: queue to its agent.
            catalog: the live catalog.
            metrics: where handoffs are counted.
            retention_ms: how long the journal remembers a handoff.
            now_ms: the wall clock.
        """
        self._agents = agents
        self._catalog = catalog
        self._metrics = metrics
        self._retention_ms = retention_ms
        self._now_ms = now_ms

    def concerns(self, action: ActionEvent) -> bool:
        """Whether an action is a handoff that an agent is told of."""
        return action.handoff is not None and action.handoff.queue in self._agents

    async def hand(
        self,
        record: Record,
        action: ActionEvent,
        *,
        state: Execution | None,
        lane: LaneContext[Execution],
    ) -> Handled[Execution]:
        """Tell the agent of a handoff, unless it has been told."""
        if state is not None and state.phase != "started":
            return Handled(passed(state, record))
        handoff = cast("HandoffPayload", action.handoff)
        attempt = state.attempts if state is not None else 0
        if self._too_old(action):
            return self._ended(record, action, attempt, fault=_TOO_OLD)
        definition = cast("RemoteAgent", self._catalog.queues[handoff.queue].agent)
        last = definition.attempts + min(attempt, _CUT_OFF)
        if attempt >= last:
            return self._ended(record, action, attempt, fault="it was cut off too often")
        while True:
            attempt += 1
            await failpoints.reach("before_started")
            await lane.commit(_key(record, action), self._started(action, attempt))
            await failpoints.reach("after_started")
            # The brokers may have been away for minutes meanwhile. This attempt has not gone out.
            if self._too_old(action):
                return self._ended(record, action, attempt - 1, fault=_TOO_OLD)
            work = self._agents[handoff.queue].tell(_notice(record, action))
            if failpoints.armed is not None:
                work = failpoints.armed.during("during_call", work)
            receipt = await work
            await failpoints.reach("after_call")
            if receipt.taken:
                return self._ended(record, action, attempt, fault=None)
            if not receipt.retryable or attempt >= last:
                return self._ended(record, action, attempt, fault=receipt.fault)
            await lane.rest(
                backoff(
                    attempt,
                    first=_FIRST_SECONDS,
                    longest=_LONGEST_SECONDS,
                    seed=action.action_id,
                )
            )

    def interrupted(
        self, record: Record, action: ActionEvent, *, state: Execution | None
    ) -> Handled[Execution]:
        """Give up what was begun and cannot be gone on with."""
        if state is not None and state.phase != "started":
            return Handled(passed(state, record))
        attempt = state.attempts if state is not None else 0
        return self._ended(record, action, attempt, fault="it could not be told")

    def lost(self, name: str) -> bool:
        """Report a handoff that was begun and whose action is gone; False for a tool's name."""
        if not name.startswith(_QUEUE):
            return False
        self._metrics.agent_told(told=False)
        log.error("nobody knows whether an agent was told of a handoff", queue=name[len(_QUEUE) :])
        return True

    def _too_old(self, action: ActionEvent) -> bool:
        """Whether the journal may have forgotten a handoff: it could be told a second time."""
        return self._now_ms() >= action.decided_at + self._retention_ms

    def _started(self, action: ActionEvent, attempts: int) -> Execution:
        handoff = cast("HandoffPayload", action.handoff)
        return Execution(
            action_id=action.action_id,
            tool=_QUEUE + handoff.queue,
            phase="started",
            attempts=attempts,
            updated_at=self._now_ms(),
            expires_at=action.decided_at + self._retention_ms,
        )

    def _ended(
        self, record: Record, action: ActionEvent, attempts: int, *, fault: str | None
    ) -> Handled[Execution]:
        handoff = cast("HandoffPayload", action.handoff)
        self._metrics.agent_told(told=fault is None)
        if fault is not None:
            log.error(
                "an agent was not told of a handoff: the conversation is with people alone",
                queue=handoff.queue,
                why=fault,
                attempts=attempts,
            )
        state = replace(
            self._started(action, attempts),
            phase="done",
            watermarks={record.topic: record.offset},
        )
        return Handled(state)


def _key(record: Record, action: ActionEvent) -> bytes:
    """The key of an action's journal record."""
    return cast("bytes", record.key) + b"/" + action.action_id.encode()


def _notice(record: Record, action: ActionEvent) -> HandoffNotice:
    handoff = cast("HandoffPayload", action.handoff)
    trace = traceparent_of(record)
    return HandoffNotice(
        message_id=action.action_id,
        conversation_id=action.conversation_id,
        text=handoff.summary,
        data={
            **handoff.model_dump(mode="json"),
            "action_id": action.action_id,
            "conversation_id": action.conversation_id,
            "channel_id": action.channel_id,
            "tenant_id": action.tenant_id,
        },
        traceparent=trace.decode(errors="replace") if trace is not None else None,
    )
