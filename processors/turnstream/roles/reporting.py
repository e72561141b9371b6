"""What is said of a call: its journal record and its result, always together."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, cast

import orjson

from turnstream.core.carried import hash_of
from turnstream.core.definitions import Tool
from turnstream.core.events import ToolError, ToolOutcome, ToolResult
from turnstream.core.ports import ToolReply
from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.roles.journal import Execution, expires_at
from turnstream.roles.publishing import Publisher
from turnstream.stream import Handled, Publication, Record
from turnstream.tools.errors import is_declared

_ENVELOPE_BYTES: Final = 16_384
"""Left for everything but the result in an event: a result that fills the limit would be refused by
the role that waits for it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended, or one attempt at it."""

    outcome: ToolOutcome
    attempts: int
    error: ToolError | None = None
    result: bytes | None = None
    """JSON text."""
    reply: ToolReply | None = None


class Reporter:
    """Turns the end of a call, or of an attempt at it, into what is committed."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        max_record_bytes: int,
        retention_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            publisher: encodes results.
            max_record_bytes: largest value that readers of results accept.
            retention_ms: how long the journal remembers a call.
            now_ms: the wall clock.
        """
        self._publisher = publisher
        self._max_result_bytes = max_record_bytes - _ENVELOPE_BYTES
        self._retention_ms = retention_ms
        self._now_ms = now_ms

    def judged(self, tool: Tool, reply: ToolReply, *, attempt: int, perhaps_done: bool) -> Ended:
        """What a reply means for the call as a whole.

        Args:
            tool: the tool's definition.
            reply: what the latest attempt led to.
            attempt: its number, from 1.
            perhaps_done: whether this attempt, or one before it, may have had its effect.
        """
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
        # Of the attempts before it only a reply speaks that was given to the key: an error that the
        # tool declares. A gateway, a missing secret, `still at work` know nothing of them.
        unknown = reply.outcome_unknown or (
            perhaps_done and not is_declared(tool, reply.error_code)
        )
        return Ended(
            "outcome_unknown" if unknown else "failed", attempts=attempt, error=error, reply=reply
        )

    def started(self, action: ActionEvent, attempts: int) -> Execution:
        """The record of a call that is about to be made."""
        call = cast("CallPayload", action.call)
        return Execution(
            action_id=action.action_id,
            tool=call.tool,
            phase="started",
            attempts=attempts,
            updated_at=self._now_ms(),
            expires_at=expires_at(action, call, retention_ms=self._retention_ms),
        )

    def failed(self, record: Record, action: ActionEvent, ended: Ended) -> Publication:
        """The result of an attempt that another one follows."""
        return self._published(record, action, replace(ended, outcome="failed"), final=False)

    def ended(self, record: Record, action: ActionEvent, ended: Ended) -> Handled[Execution]:
        """The last record of the journal and the final result, committed together."""
        call = cast("CallPayload", action.call)
        state = Execution(
            action_id=action.action_id,
            tool=call.tool,
            phase="outcome_unknown" if ended.outcome == "outcome_unknown" else "done",
            attempts=ended.attempts,
            updated_at=self._now_ms(),
            expires_at=expires_at(action, call, retention_ms=self._retention_ms),
            result_hash=_sha256(ended.result) if ended.result is not None else None,
            watermarks={record.topic: record.offset},
        )
        return Handled(state, (self._published(record, action, ended, final=True),))

    def _published(
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
            arguments_hash=_given_hash(call),
            body_hash=reply.body_hash if reply is not None else None,
            used_hash=reply.used_hash if reply is not None else None,
            occurred_at=self._now_ms(),
        )
        event_id = action.action_id if final else f"{action.action_id}/{ended.attempts}"
        return self._publisher.publication(result, key=record.key, event_id=event_id, record=record)


def passed(state: Execution, record: Record) -> Execution:
    """The record of a call whose action was met again."""
    return replace(state, watermarks={**state.watermarks, record.topic: record.offset})


def _given_hash(call: CallPayload) -> str:
    """The hash of the arguments before code dropped or filled in anything."""
    given = call.model_arguments_json
    if given is None:
        given = call.arguments_json
    try:
        return hash_of(orjson.loads(given))
    except orjson.JSONDecodeError:
        return _sha256(given.encode())  # such a call is refused, and its result says so


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
