"""An agent model's reply as it is kept for the next request.

A provider wants its reply back as it was, reasoning included. Three things in it may be such that
no provider takes them: ids that are no ids or that tell no calls apart, names that no tool can
have, arguments that are no JSON or of any length. In the copy that is kept these are put in order;
the gates see arguments and names as they came.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic_core import to_json

from turnstream.core.bounds import shortened
from turnstream.core.envelope import NOT_MADE, CallFault, Envelope
from turnstream.core.json_arguments import Unparsed, parsed
from turnstream.core.ports import LoopTurn, ProposedCall
from turnstream.models.transport import KeptCall, ModelCall, ModelReply, RawArguments, Replied

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""What every provider takes as the id of a call."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""What every provider takes as the name of a tool."""

_NO_NAME: Final = "unknown_tool"

_SHOWN: Final = 200
"""Characters of unreadable arguments that the model is shown again: enough to see what was wrong,
too few to carry a megabyte from prompt to prompt."""

_TEXT: Final = 2_000
"""Characters up to which a text that holds such arguments is kept whole, sound calls included."""

_UNREADABLE: Final = "unreadable_arguments"

_TOLD_BYTES: Final = 32_768
"""What a request may tell of the runtime's data that is kept with its reply: all passages and most
values. More of it, kept with each of eight replies, would leave the checkpoint no room for them."""


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid")

    form: str
    style: str
    calls: list[tuple[str, str]]
    reply: JsonValue
    note: str | None = None
    hash: str = ""
    told: dict[str, JsonValue] = {}


@dataclass(frozen=True, slots=True)
class Origin:
    """The request that a reply was given to; see `agent_turns`."""

    hash: str = ""
    """Of all that stood before the reply."""
    told: Mapping[str, JsonValue] = field(default_factory=dict)
    """What it told, at its end, of the runtime's data."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An earlier reply, as it can be told now."""

    replied: Replied | None
    """The reply and its results; None where it cannot be sent back."""
    note: str | None
    """What was wrong with it."""
    origin: Origin = Origin()

    @property
    def beside(self) -> str | None:
        """What was wrong with it, where its results do not say so."""
        return None if self.replied is not None and self.replied.results else self.note


def with_own_ids(calls: Sequence[ModelCall], *, taken: Iterable[str]) -> tuple[ProposedCall, ...]:
    """Calls with ids that tell them apart, from those of earlier replies too."""
    used = set(taken)
    found: list[ProposedCall] = []
    for call in calls:
        call_id = call.call_id or ""
        if not _ID.fullmatch(call_id) or call_id in used:
            number = len(used) + 1
            while f"call_{number}" in used or any(
                other.call_id == f"call_{number}" for other in calls
            ):
                number += 1
            call_id = f"call_{number}"
        used.add(call_id)
        found.append(ProposedCall(call_id, call.tool, _as_text_or_object(call.arguments)))
    return tuple(found)


def kept(
    reply: ModelReply,
    calls: Sequence[ProposedCall],
    *,
    form: str,
    style: str,
    origin: Origin,
    note: str | None = None,
) -> JsonValue:
    """What is stored of a reply that may be sent back."""
    if len(to_json(origin.told)) > _TOLD_BYTES:
        # Its request could not be told again, so it cannot be sent back: its results are told.
        return dropped(note, form=form, style=style)
    # In ReAct calls are text: of the reply itself there are none, but results have ids.
    own = [_sendable(call) for call in calls]
    long = len(reply.text) > _TEXT and any(_is_unreadable(call) for call in calls)
    text = shortened(reply.text, _SHOWN) if style == "react" and (note or long) else None
    return _Kept(
        form=form,
        style=style,
        calls=[(one.call_id, one.tool) for one in own],
        reply=reply.keep(own if style == "native" else (), text),
        note=note,
        hash=origin.hash,
        told=dict(origin.told),
    ).model_dump(mode="json")


def dropped(note: str | None, *, form: str, style: str) -> JsonValue:
    """What is stored of a reply that no provider would take back: one that was cut off, say."""
    return _Kept(form=form, style=style, calls=[], reply=None, note=note).model_dump(mode="json")


def remembered(turn: LoopTurn, *, form: str, style: str) -> Remembered:
    """Read a stored reply."""
    try:
        stored = _Kept.model_validate(turn.reply)
    except ValidationError:
        return Remembered(None, turn.fault)
    note = stored.note or turn.fault
    if stored.form != form or stored.style != style or stored.reply is None:
        # Another model or another way of asking: its results are told, its own words are not.
        return Remembered(None, note)
    known = {one.call_id: one for one in turn.envelopes}
    fault = CallFault(NOT_MADE, note or "it was not made", retryable=True)
    results = tuple(
        replace(known[call_id], name=name)
        if call_id in known
        # A step of ours by which nothing was called.
        else Envelope(call_id, name, error=fault)
        for call_id, name in stored.calls
    )
    origin = Origin(stored.hash, stored.told)
    return Remembered(Replied(stored.reply, results), note, origin)


def _is_unreadable(call: ProposedCall) -> bool:
    return isinstance(parsed(call.arguments), Unparsed)


def _sendable(call: ProposedCall) -> KeptCall:
    name = call.tool if _NAME.fullmatch(call.tool) else _NO_NAME
    given = call.arguments
    if _is_unreadable(call):
        raw = given if isinstance(given, str) else json.dumps(given, default=str)
        return KeptCall(call.call_id, name, {_UNREADABLE: shortened(raw, _SHOWN)})
    if given is None or (isinstance(given, str) and not given.strip()):
        return KeptCall(call.call_id, name, {})
    return KeptCall(call.call_id, name, given)


def _as_text_or_object(arguments: RawArguments) -> str | Mapping[str, JsonValue] | None:
    if arguments is None or isinstance(arguments, str | Mapping):
        return arguments
    # An array or a number: the gates say so of its text.
    return json.dumps(arguments, default=str)
