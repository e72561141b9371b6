"""The last look at a call before it is made: the decision may be old, the catalog newer."""

from collections.abc import Callable, Container

import orjson
from pydantic import JsonValue

from turnstream.core.definitions import Tool
from turnstream.core.events import ToolError
from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.core.ruleset import Ruleset
from turnstream.roles.alterations import Alterations
from turnstream.roles.journal import is_expired
from turnstream.roles.reporting import Ended


class Gate:
    """Checks decided calls against the live catalog."""

    def __init__(
        self,
        ruleset: Ruleset,
        *,
        callable_tools: Container[str],
        alterations: Alterations,
        retention_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            ruleset: the live catalog and its argument checks.
            callable_tools: the names of the tools that are bound.
            alterations: compares a call with what the model asked for.
            retention_ms: how long the journal remembers a call.
            now_ms: the wall clock.
        """
        self._ruleset = ruleset
        self._tools = callable_tools
        self._alterations = alterations
        self._retention_ms = retention_ms
        self._now_ms = now_ms

    def refusal(self, action: ActionEvent, call: CallPayload, tool: Tool | None) -> Ended | None:
        """Why a decided call must not be made now; the decision may be old, the catalog newer."""
        if tool is None or call.tool not in self._tools:
            return unavailable()
        if is_expired(action, call, retention_ms=self._retention_ms, now=self._now_ms()):
            # Its journal record may be gone: whether it ran can no longer be known.
            return denied("expired", "the action was too old before the call could start")
        lacking = [one for one in tool.required_permissions if one not in call.permissions]
        if lacking:
            return denied("missing_permission", f"the session lacks {', '.join(lacking)}")
        if tool.data_scope == "own" and not call.subject_id:
            return denied("missing_subject", "the session names no authenticated customer")
        return self._argument_fault(action, call)

    def _argument_fault(self, action: ActionEvent, call: CallPayload) -> Ended | None:
        arguments = arguments_of(call)
        if arguments is None:
            error = ToolError(code="invalid_argument", message="the arguments are not an object")
            return Ended("denied", attempts=0, error=error)
        check = self._ruleset.checks.get(call.tool)
        fault = check(arguments) if check is not None else None
        if fault is None:
            altered = self._alterations.before(action, call, arguments)
            if altered is None:
                return None
            return denied(altered.error_code or "", altered.error_message)
        error = ToolError(
            code="invalid_argument", message=fault.message, path=fault.path, keyword=fault.keyword
        )
        return Ended("denied", attempts=0, error=error)


def arguments_of(call: CallPayload) -> dict[str, JsonValue] | None:
    """The arguments of a call; None when they are no JSON object."""
    try:
        arguments = orjson.loads(call.arguments_json)
    except orjson.JSONDecodeError:
        return None
    return arguments if isinstance(arguments, dict) else None


def unavailable() -> Ended:
    """The end of a call whose tool does not exist here."""
    error = ToolError(code="tool_unavailable", message="the catalog in use has no such tool")
    return Ended("failed", attempts=0, error=error)


def left_alone() -> Ended:
    """The end of a call whose tool has not answered others."""
    message = "the tool has failed too often in a row and is left alone for a while"
    return Ended("failed", attempts=0, error=ToolError(code="tool_unavailable", message=message))


def denied(code: str, message: str) -> Ended:
    """The end of a call that must not be made."""
    return Ended("denied", attempts=0, error=ToolError(code=code, message=message))
