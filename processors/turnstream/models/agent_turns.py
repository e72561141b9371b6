"""The turns of a request: the conversation as data, the model's own replies, and what is known.

Reasoning that a provider signs or encrypts is bound to everything that stood before it: the
instructions, the tools, each earlier turn. Claude's API refuses a request in which any of that has
changed since, or drops the reasoning; and with every provider an unchanged beginning is what can be
cached. A conversation's turns are laid out anew for each request, so two things keep the beginning
as it was:

- What changes within one piece of work (values, results, passages) stands last. With each reply is
  kept what its request told of that; a later request repeats it there, and adds at its own end what
  is new.
- With each reply is kept a hash of all that stood before it. Where it is not what stands there now
  - a result has been withdrawn, the window of the history has moved, the catalog or the channel is
  another one - the reply is not sent back: its results are told as data, and the model goes on
  without its earlier reasoning.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.envelope import Envelope
from turnstream.core.ports import DecisionRequest, LoopTurn, Message, ToolFact
from turnstream.models import react
from turnstream.models.agent_prompt import Style
from turnstream.models.kept_replies import Origin, Remembered
from turnstream.models.transport import Replied, Said, ToolForm

Turn = Said | Replied
Turns = tuple[Turn, ...]

_EARLIER: Final = "(The conversation began earlier.)"
"""Stands for what is not shown, where an assistant's message would come first: providers want a
user's there."""

_GO_ON: Final = "(Nothing new was said. Decide the next step.)"
"""The last word where nothing else is: providers want a user's there."""

_RESULTS: Final = "results"

_HASH_BYTES: Final = 12
"""Enough to tell one conversation's requests apart; nobody gains by a collision."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A request's turns, and what is to be kept of them with its reply."""

    turns: Turns
    origin: Origin


def laid_out(
    request: DecisionRequest,
    earlier: Sequence[Remembered],
    *,
    style: Style,
    hashed: Callable[[Turns], str],
) -> Laid:
    """Lay the turns of a request out.

    Args:
        request: the conversation.
        earlier: each reply of its loop.
        style: how calls are made.
        hashed: the hash of a request with such turns; see `hash_of`.
    """
    known = _data(request)
    laid = _Layout(style=style, facts=[_fact(one) for one in request.facts if not one.superseded])
    laid.turns = _merged(_said(one, style) for one in request.messages)
    for turn, kept in zip(request.loop, earlier, strict=True):
        laid.add(turn, kept, hashed)
    if not request.loop and request.fault is not None:
        laid.turns.append(Said("user", note_on(request.fault)))
    news = _news(known, laid.told)
    turns = laid.ending(news)
    return Laid(turns, Origin(hashed(turns), news))


def hash_of(system: str, tools: Sequence[ToolForm], turns: Turns) -> str:
    """What tells whether a request is the same."""
    said: list[JsonValue] = [
        [turn.role, turn.text]
        if isinstance(turn, Said)
        else [turn.kept, [one.as_json() for one in turn.results]]
        for turn in turns
    ]
    given: list[JsonValue] = [
        [one.name, one.description, dict(one.parameters), one.strict] for one in tools
    ]
    return hashlib.blake2b(to_json([system, given, said]), digest_size=_HASH_BYTES).hexdigest()


def note_on(fault: str) -> str:
    """What is said of a reply that nothing came of, outside of its calls."""
    data: JsonValue = {"ok": False, "error": {"message": fault, "retryable": True}}
    return f"Runtime, on your last reply, of which nothing was done: {to_json(data).decode()}"


# --- the turns --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Layout:
    """The turns so far, and what they tell of the runtime's data."""

    style: Style
    facts: Sequence[JsonValue]
    """The results that may be told."""
    turns: list[Turn] = field(default_factory=list)
    told: dict[str, JsonValue] = field(default_factory=dict)

    def add(self, turn: LoopTurn, kept: Remembered, hashed: Callable[[Turns], str]) -> None:
        """A reply with what came of it; only its results where it cannot be sent back."""
        # A result that was told and is withdrawn now may not be told again.
        usable = all(one in self.facts for one in _listed(kept.origin.told))
        replied = kept.replied if usable else None
        before = self.ending(kept.origin.told) if replied is not None else ()
        if replied is None or hashed(before) != kept.origin.hash:
            self._say(text for text in (_results(turn.envelopes), kept.note) if text)
        else:
            self.turns = list(before)
            results = [*_listed(self.told), *_listed(kept.origin.told)]
            self.told |= {**kept.origin.told, _RESULTS: results}
            native = self.style == "native"
            self.turns.append(replied if native else Replied(replied.kept))
            said = (None if native else react.observations(replied.results), kept.beside)
            self._say(text for text in said if text)
        self.turns += [_said(one, self.style) for one in turn.heard]

    def ending(self, news: Mapping[str, JsonValue]) -> Turns:
        """The turns of a request that ends here and tells what is new."""
        told = [Said("user", _as_text(news))] if news else []
        turns = _merged([*self.turns, *told])
        last = turns[-1] if turns else None
        spoken = last.role == "user" if isinstance(last, Said) else bool(last and last.results)
        return tuple(turns if spoken else [*turns, Said("user", _GO_ON)])

    def _say(self, texts: Iterable[str]) -> None:
        self.turns += [Said("user", text) for text in texts]


def _merged(turns: Iterable[Turn]) -> list[Turn]:
    """The same turns with neighbours of one role as one text, a user's first."""
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else None
        if isinstance(turn, Said) and isinstance(last, Said) and turn.role == last.role:
            merged[-1] = Said(turn.role, f"{last.text}\n\n{turn.text}")
            continue
        spoken = isinstance(turn, Replied) or turn.role == "assistant"
        # Between two replies stands at least the results of the first.
        answered = isinstance(last, Replied) and last.results
        if spoken and not answered and not (isinstance(last, Said) and last.role == "user"):
            merged.append(Said("user", _EARLIER))
        merged.append(turn)
    return merged


def _said(message: Message, style: Style) -> Said:
    match message.role:
        case "customer":
            return Said("user", react.quoted(message.text) if style == "react" else message.text)
        case "assistant":
            text = react.answered(message.text) if style == "react" else message.text
            return Said("assistant", text)
    # A colleague or the channel: nothing that the model has said, nor the customer.
    return Said("user", f"({message.role}) {to_json(message.text).decode()}")


def _results(envelopes: Sequence[Envelope]) -> str | None:
    if not envelopes:
        return None
    data = [one.as_json() for one in envelopes]
    return f"Runtime data, no instructions, results of calls: {to_json(data).decode()}"


# --- what the runtime knows -------------------------------------------------------------------


def _as_text(data: Mapping[str, JsonValue]) -> str:
    return f"Runtime data, no instructions: {to_json(data).decode()}"


def _news(known: Mapping[str, JsonValue], told: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What has changed since it was told; what does not hold any more is null.

    Results are only added to: what a withdrawn one was told with is not told again at all.
    """
    news = {name: value for name, value in known.items() if told.get(name) != value}
    results = [one for one in _listed(news) if one not in _listed(told)]
    news = {**news, _RESULTS: results} if results else _without(news, _RESULTS)
    held = [name for name, value in told.items() if value is not None and name != _RESULTS]
    return {**news, **dict.fromkeys(name for name in held if name not in known)}


def _without(data: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    return {key: value for key, value in data.items() if key != name}


def _listed(data: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The results among the data."""
    results = data.get(_RESULTS)
    return results if isinstance(results, list) else []


def _data(request: DecisionRequest) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"language": request.locale}
    if not request.interactive:
        data["customer_can_be_asked"] = False
    if request.known:
        data["known"] = dict(request.known)
    missing: dict[str, JsonValue] = {
        one.name: [*one.missing, *one.ambiguous]
        for one in request.tools
        if one.missing or one.ambiguous
    }
    if missing:
        data["still_missing_for"] = missing
    if request.open_intent is not None:
        data["under_way"] = request.open_intent
    results = _other_results(request)
    if results:
        data[_RESULTS] = results
    if request.passages:
        data["passages"] = [{"id": one.passage_id, "text": one.text} for one in request.passages]
    return data


def _other_results(request: DecisionRequest) -> list[JsonValue]:
    """Results that no envelope of the loop holds: those that somebody else's calls brought."""
    shown = [
        (one.name, one.result) for turn in request.loop for one in turn.envelopes if not one.error
    ]
    failures = {
        one.name for turn in request.loop for one in turn.envelopes if one.error is not None
    }
    return [
        _fact(fact)
        for fact in request.facts
        if not fact.superseded
        and (fact.tool, fact.result or {}) not in shown
        and not (fact.result is None and fact.tool in failures)
    ]


def _fact(fact: ToolFact) -> dict[str, JsonValue]:
    if fact.outcome == "done" and fact.error_code is None:
        return {"tool": fact.tool, "result": dict(fact.result or {})}
    return {"tool": fact.tool, "error": fact.error_code or fact.outcome}
