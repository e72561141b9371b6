"""Calls of agent models that passed no gate: counted, logged without a word of anybody's, kept raw.

The log has what helps to mend a description or a schema: the tool, the keyword, the place. Names
that the catalog does not know, and values, are a customer's or a model's words: they are in the
restricted sink alone, where there is one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from pydantic import JsonValue

from turnstream.core.carried import declared_part
from turnstream.core.definitions import Tool
from turnstream.core.effects import Input
from turnstream.core.envelope import INVALID, UNKNOWN_TOOL, CallFault, Envelope
from turnstream.core.ports import Proposal, ProposedCall
from turnstream.metrics import Metrics
from turnstream.roles.raw_sink import RawSink

log = structlog.get_logger(__name__)

_UNKNOWN: Final = "unknown"
"""A tool that is none of the catalog's, and an id that is no provider's."""

_ID: Final = re.compile(r"[A-Za-z0-9_.:|-]{1,128}", re.ASCII)
"""Ids as providers make them. Others pass through a model, which may write anything into them."""

_GATES: Final[Mapping[str | None, str]] = {
    "parse": "parse",
    "provenance": "provenance",
    "rule": "rule",
}
"""Keyword of a fault to the gate that names it; the schema's gate has the schema's keywords."""


class Rejections:
    """Takes notice of calls that passed no gate."""

    def __init__(
        self, tools: Mapping[str, Tool], *, metrics: Metrics, raw: RawSink | None = None
    ) -> None:
        """Prepare.

        Args:
            tools: the catalog's.
            metrics: where rejections are counted.
            raw: where the texts go; nowhere when None.
        """
        self._tools = tools
        self._metrics = metrics
        self._raw = raw

    def note(
        self,
        rejected: Sequence[Envelope],
        proposal: Proposal,
        cause: Input,
        *,
        turn_id: str | None,
    ) -> None:
        """Tell of the calls of a proposal that were rejected.

        Args:
            rejected: what the model is told of them.
            proposal: the proposal.
            cause: the input that it was asked for.
            turn_id: of the turn that is worked on.
        """
        calls: Mapping[str, ProposedCall] = {call.call_id: call for call in proposal.calls}
        for one in rejected:
            gate = _gate(one.error)
            if gate is None or one.error is None:
                continue
            call = calls[one.call_id]
            raw = _text(call.arguments)
            self._tell(call, one.error, gate, length=len(raw))
            if self._raw is not None:
                about: dict[str, JsonValue] = {
                    "at": cause.now,
                    "conversation_id": cause.conversation_id,
                    "turn_id": turn_id,
                    "tool_call_id": one.call_id,
                    "tool": one.name,
                    "gate": gate,
                    "keyword": one.error.keyword,
                    "path": one.error.path,
                }
                self._raw.put(raw, about)

    def _tell(self, call: ProposedCall, fault: CallFault, gate: str, *, length: int) -> None:
        tool = self._tools.get(call.tool)
        path = declared_part(fault.path or "", tool.input_schema) if tool is not None else ""
        self._metrics.model_call_rejected(call.tool, gate=gate)
        log.warning(
            "a model's call passed no gate",
            tool_call_id=call.call_id if _ID.fullmatch(call.call_id) else _UNKNOWN,
            tool=call.tool if tool is not None else _UNKNOWN,
            gate=gate,
            keyword=fault.keyword,
            path=path or "/",
            length=length,
        )


def _gate(fault: CallFault | None) -> str | None:
    """The gate that a fault is of; None where the call may be sound and something else was not."""
    if fault is None:
        return None
    if fault.code == UNKNOWN_TOOL:
        return "unknown_tool"
    return _GATES.get(fault.keyword, "schema") if fault.code == INVALID else None


def _text(arguments: str | Mapping[str, JsonValue] | None) -> str:
    """Arguments as a model or its provider wrote them."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    try:
        return json.dumps(arguments, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(type(arguments))
