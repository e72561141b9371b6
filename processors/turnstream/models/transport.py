"""What an agent model is asked and what it says, in one form for every provider.

:class:`turnstream.models.agent_model.AgentModel` writes a :class:`Prompt` and reads a
:class:`ModelReply`; a :class:`Transport` takes the one to a provider and brings the other back. A
transport knows nothing of catalogs and conversations, and the agent model nothing of wires.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from pydantic import JsonValue, ValidationError

from turnstream.core.envelope import Envelope
from turnstream.core.ports import DeciderRefused, DeciderUnavailable, ReplyUnusable
from turnstream.core.surfaces import SurfaceName
from turnstream.models.refusals import words_of
from turnstream.plain_http import behind, why_broken

Finish = Literal["stop", "tool_calls", "length", "refused", "malformed", "unknown"]
"""How a reply ended: well, or with calls; cut off at the token limit; refused by the model or a
filter of its provider; with a call that the provider itself could not read; in a way that has no
meaning here."""

LONGEST_REST_SECONDS: Final = 300.0
"""Longest wish of a provider to be left alone (Retry-After) that is handed on: a wrong header must
not silence a decider for a day."""

OUT_OF_FORM: Final = "a reply that is not in the documented form"

NO_JSON: Final = "no JSON"

UNREADABLE: Final = "a reply that cannot be read"

_SLIPS: Final = (ValueError, LookupError, TypeError, AttributeError)
"""What reading a body of no known form ends in."""

RawArguments = str | Mapping[str, Any] | Sequence[Any] | int | float | bool | None
"""A call's arguments as they came: text, or what a provider has parsed, which may be anything.

None and blank text are a call without arguments: the tool's schema judges them as ``{}``, so where
it requires something the call is not made, and the model is told.
"""


@dataclass(frozen=True, slots=True)
class ToolForm:
    """A tool as it is given to a provider."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """JSON Schema in the words of the provider; goes out as it is."""
    strict: bool
    """Whether the provider is to keep to it, where that can be said."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Replied:
    """An earlier reply of the model, to be sent back unchanged, and the results of its calls."""

    kept: JsonValue
    """What :attr:`ModelReply.keep` made of it."""
    results: tuple[Envelope, ...] = ()
    """One for each of its calls, in their order."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request, without its tools."""

    system: str
    turns: tuple[Said | Replied, ...]
    """Never two texts of the same role in a row; a user's text or results last."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call as the provider gave it."""

    call_id: str | None
    tool: str
    arguments: RawArguments


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A call as it is kept for the next request: such that the provider takes it back."""

    call_id: str
    tool: str
    arguments: str | Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply took."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """The list price in US dollars, where one is known."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole reply; streamed ones are put together first."""

    text: str
    calls: tuple[ModelCall, ...]
    finish: Finish
    keep: Callable[[Sequence[KeptCall], str | None], JsonValue]
    """Makes JSON of the reply for the conversation's state, reasoning and its signatures included.

    The calls take the place of its own, in their order; the text, if one is given, that of its own
    texts. Only what no provider takes back differs in them.
    """
    model: str = ""
    """The model as the provider names it."""
    usage: Usage = field(default_factory=Usage)
    notes: Mapping[str, JsonValue] = field(default_factory=dict)
    """For the diagnostics: short, no customer text."""
    requests: int = 1
    """Requests that it took: more where one was made again without a parameter."""


class Unreadable(DeciderUnavailable):
    """There was a reply, it was paid for, and it cannot be read."""

    def __init__(self, problem: str, usage: Usage) -> None:
        """Say what happened and what it took."""
        super().__init__(problem, problem=problem)
        self.usage = usage


class Transport(Protocol):
    """Takes prompts to one model of one provider."""

    @property
    def form(self) -> str:
        """Provider and wire."""
        ...

    @property
    def place(self) -> str:
        """Where the model is, an address or a region.

        What `keep` made of a reply is sent back to the same form, place and model only: reasoning
        is signed or encrypted for them.
        """
        ...

    @property
    def model(self) -> str:
        """The configured name of the model."""
        ...

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once.

        Raises:
            ToolsRefused: it does not take tools.
            DeciderRefused: it does not take our requests.
            DeciderUnavailable: there is no reply, or none that can be read.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class ToolsRefused(DeciderRefused):
    """The provider says in so many words that the model takes no tools."""


def unavailable(problem: str, *, retry_after_seconds: float | None = None) -> DeciderUnavailable:
    """A passing failure, its provider's wish to be left alone within bounds.

    Args:
        problem: also for the log: nothing of the conversation, the reply or a secret.
        retry_after_seconds: the provider's wish.
    """
    wanted = retry_after_seconds
    if wanted is not None:
        wanted = min(max(wanted, 0.0), LONGEST_REST_SECONDS) if wanted == wanted else None  # noqa: PLR0124 - NaN
    return DeciderUnavailable(problem, retry_after_seconds=wanted, problem=problem)


def out_of_form(error: ValidationError) -> ReplyUnusable:
    """A reply that is not as its provider documents it; the first place is named, no value.

    A key that the form does not have was written by a model, so it is not named either.
    """
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path, said = first["loc"], ""
    if first["type"] == "json_invalid":
        path, said = (), NO_JSON
    elif first["type"] == "extra_forbidden":
        path, said = path[:-1], "an unknown key"
    place = ": ".join([*words_of(".".join(str(part) for part in path)), *filter(None, [said])])
    return ReplyUnusable(f"{OUT_OF_FORM} ({place})" if place else OUT_OF_FORM)


def unread(error: Exception, *, replied: bool = False) -> DeciderUnavailable:
    """A reply that a library failed on, in a way that is not its own word for anything.

    A slip on what was read tells of a reply that came; of anything else nobody knows whether one
    did, and with the system's own error behind it none did.

    Args:
        error: the library's.
        replied: whether one is known to have come.
    """
    slips: list[Exception] = [one for one in behind(error) if isinstance(one, _SLIPS)]
    if (slips or replied) and not any(isinstance(one, OSError) for one in behind(error)):
        return ReplyUnusable(f"{UNREADABLE} ({type((slips or [error])[0]).__name__})")
    return unavailable(f"{UNREADABLE} ({why_broken(error)})")


@dataclass(frozen=True, slots=True)
class Wire:
    """How a provider's tools are to be written."""

    surface: SurfaceName
    strict: bool = False
