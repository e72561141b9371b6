"""What can go wrong with a call, in codes that a decider and a dashboard can know beforehand.

A tool's own business errors are the catalog's. Messages are written here or in the catalog, never
by the other side: a reply may hold secrets, or a text that speaks to a model.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.definitions import Tool
from turnstream.core.errors import TurnstreamError
from turnstream.core.ports import ToolReply

TOOL_ERROR: Final = "tool_error"
"""The tool refused the call for a reason that the catalog does not list."""
UNAVAILABLE: Final = "unavailable"
"""The tool could not be reached or is overloaded."""
TIMEOUT: Final = "timeout"
"""No reply within the tool's time-out."""
INVALID_RESULT: Final = "invalid_result"
"""The tool replied with something that its result schema does not allow."""
INVALID_ARGUMENT: Final = "invalid_argument"
"""An argument cannot be put where the binding wants it."""
MISCONFIGURED: Final = "misconfigured"
"""The call could not be made at all: a secret is missing."""
SCHEMA_CHANGED: Final = "schema_changed"
"""The server does not list the tool with the catalog's input schema; nothing was called."""
ARGUMENTS_ALTERED: Final = "arguments_altered"
"""What was sent, or what the tool says it used, is not what the call asked for: a fault of ours."""

_OWN: Final = frozenset(
    {
        TOOL_ERROR,
        UNAVAILABLE,
        TIMEOUT,
        INVALID_RESULT,
        INVALID_ARGUMENT,
        MISCONFIGURED,
        SCHEMA_CHANGED,
        ARGUMENTS_ALTERED,
    }
)
"""Said here and not by a tool, even where a catalog lists one of them as a tool's."""


class BindingError(TurnstreamError):
    """A tool cannot be bound; whoever edits the catalog or the configuration must act."""


class ToolFailure(Exception):
    """Raised by a Python tool to say that it did nothing, and why.

    Args:
        code: one of the tool's `errors` in the catalog.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotExecuted(Exception):
    """Raised by a Python tool's `reconcile`: no call with this key has had an effect, or will.

    The call may then be made again. Raise anything else when that is not certain.
    """


class Unsent(Exception):
    """The call must not go out; carries what says so past what may happen to calls that do."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


def announce(
    sending: Callable[[Mapping[str, JsonValue]], None] | None, carried: Mapping[str, JsonValue]
) -> None:
    """Say that a call's first byte is about to go out.

    Args:
        sending: the call's, to be told.
        carried: the arguments in what is about to leave.

    Raises:
        Unsent: it must not; the binding raises its `why`.
    """
    if sending is None:
        return
    try:
        sending(carried)
    except Exception as error:
        raise Unsent(error) from error


def is_declared(tool: Tool, code: str | None) -> bool:
    """Whether a code is one by which the tool itself says that nothing was done, nor will be."""
    return code in tool.errors and code not in _OWN


def refused(tool: Tool, code: str, *, otherwise: str, body_hash: str | None = None) -> ToolReply:
    """The reply for a business error: its catalog entry, or the generic one.

    Args:
        tool: the tool's definition.
        code: the code that the other side gave.
        otherwise: our words for a code that the catalog does not list.
        body_hash: SHA-256 of what was sent.
    """
    rule = tool.errors.get(code)
    if rule is None:
        return ToolReply(
            result=None, error_code=TOOL_ERROR, error_message=otherwise, body_hash=body_hash
        )
    return ToolReply(
        result=None, error_code=code, error_message=rule.description, body_hash=body_hash
    )


def failed(
    code: str,
    message: str,
    *,
    retryable: bool = False,
    outcome_unknown: bool = False,
    body_hash: str | None = None,
    retry_after_seconds: float | None = None,
) -> ToolReply:
    """The reply for a failure that is not the business's.

    Args:
        code: one of the codes of this module.
        message: our words.
        retryable: another attempt may succeed.
        outcome_unknown: the call may have had its effect.
        body_hash: SHA-256 of what was sent.
        retry_after_seconds: how long the other side wants to be left alone.
    """
    return ToolReply(
        result=None,
        error_code=code,
        error_message=message,
        retryable=retryable,
        outcome_unknown=outcome_unknown,
        body_hash=body_hash,
        retry_after_seconds=retry_after_seconds,
    )
