"""What a model is told of a call that it asked for: one stable form for every tool and provider.

::

    {"toolCallId": "call_8f3a", "name": "searchInvoices", "ok": true, "result": {"count": 2}}
    {"toolCallId": "call_8f3b", "name": "searchInvoices", "ok": false,
     "error": {"code": "invalid_arguments", "message": "...", "path": "/status", "keyword": "enum",
               "retryable": true}}

The result holds the properties of the tool's result schema and nothing else of the reply.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from turnstream.core.bounds import ID_CHARACTERS
from turnstream.core.evolution import dataclass

INVALID: Final = "invalid_arguments"
"""The arguments did not pass a gate."""

UNKNOWN_TOOL: Final = "unknown_tool"

NOT_MADE: Final = "not_made"
"""The call may be sound, but something beside it kept it from being made."""

NOT_CONFIRMED: Final = "not_confirmed"
"""The customer was asked whether it may be made, and said no."""

NOT_ANSWERED: Final = "not_answered"
"""The customer was asked, and wrote something else."""

AWAITED: Final = "awaited"
"""The call has been made, and its result is not there yet."""

SUPERSEDED: Final = "superseded"
"""The customer has corrected a value since: the result must not be used."""

FAILED: Final = "tool_error"
"""The tool said no, and gave no code for it."""


@dataclass(frozen=True, slots=True)
class CallFault:
    """Why a call has no result."""

    code: str
    message: str
    """For the model: names of the catalog, no customer's words."""
    path: str | None = None
    """JSON pointer into the arguments."""
    keyword: str | None = None
    """The keyword of JSON Schema that failed, or `parse`, `provenance`, `rule`."""
    retryable: bool = False
    """Whether another call may succeed."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The outcome of one call. Exactly one of `result` and `error` is set."""

    call_id: str
    name: str
    result: Mapping[str, JsonValue] | None = None
    error: CallFault | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """The form that a model reads."""
        told: dict[str, JsonValue] = {
            "toolCallId": self.call_id,
            "name": self.name,
            "ok": self.error is None,
        }
        if self.error is None:
            told["result"] = dict(self.result or {})
            return told
        error: dict[str, JsonValue] = {"code": self.error.code, "message": self.error.message}
        if self.error.path is not None:
            error["path"] = self.error.path
        if self.error.keyword is not None:
            error["keyword"] = self.error.keyword
        error["retryable"] = self.error.retryable
        told["error"] = error
        return told


def are_usable(ids: Sequence[str]) -> bool:
    """Whether call ids can be told apart, shown and stored; adapters see to it that they can."""
    return len(set(ids)) == len(ids) and all(
        0 < len(one) <= ID_CHARACTERS and one.isprintable() for one in ids
    )
