"""A model's reply taken apart: what it says, what it calls, or why nothing of it can be used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turnstream.models import react
from turnstream.models.agent_prompt import Style
from turnstream.models.reasoning_text import CALL_IN_TEXT, looks_like_a_call, outspoken
from turnstream.models.transport import ModelCall, ModelReply

WHY_UNUSABLE: Final[Mapping[str, str]] = {
    "length": "the reply was cut off at its greatest length: be brief",
    "malformed": "a call could not be read: write its arguments as one JSON object",
    "unknown": "the reply ended in a way that is not known",
}
"""By the finish of a reply; such a reply is not sent back either."""

_NO_CALL: Final = "the reply ended as one that calls, without a call: call a tool, or answer"

_NO_TOOLS: Final = "calls are made in text alone: write `Action:` and `Action Input:`"


@dataclass(frozen=True, slots=True)
class Taken:
    """A reply, taken apart."""

    text: str
    calls: tuple[ModelCall, ...]
    fault: str | None
    """Why nothing of it can be used."""


def taken_apart(reply: ModelReply, style: Style) -> Taken:
    """Read a reply; its reasoning is left out before anything else is."""
    fault = WHY_UNUSABLE.get(reply.finish)
    if fault is not None:
        return Taken("", (), fault)
    said = outspoken(reply.text)
    if said.fault is not None:
        # Calls beside it may be drafts out of it.
        return Taken("", (), said.fault)
    if style == "native":
        text, calls = said.text, reply.calls
        fault = None if calls or text.strip() else "the reply was empty"
    else:
        spoken = react.read(said.pieces)
        text, calls = spoken.answer or "", spoken.calls
        fault = _NO_TOOLS if reply.calls else spoken.fault
    if not calls and looks_like_a_call(text):
        fault = fault or CALL_IN_TEXT
    if reply.finish == "tool_calls" and not calls:
        # It was lost on its way, and the text may say that it was made.
        fault = fault or _NO_CALL
    return Taken(text, calls, None) if fault is None else Taken("", (), fault)
