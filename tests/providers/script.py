"""What a provider's model is to say, told once for all providers."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal


class Omitted(Enum):
    """A key that is left out, which is not the same as null."""

    AUTO = "the server makes up an id, as its provider does"
    ABSENT = "the key is not there"


AUTO: Final = Omitted.AUTO
ABSENT: Final = Omitted.ABSENT


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A call that the model asks for."""

    name: str
    arguments: str | Omitted | None = "{}"
    """JSON text as the model wrote it, which may be broken. Where a provider sends an object, the
    text stands in its place if it is any JSON at all, and as a string if not."""
    call_id: str | Omitted | None = AUTO
    pieces: tuple[str, ...] = ()
    """The parts in which the arguments are streamed; thirds by default."""

    def parts(self) -> tuple[str, ...]:
        """The arguments as they are streamed."""
        if self.pieces:
            return self.pieces
        if not isinstance(self.arguments, str):
            return ()
        third = max(len(self.arguments) // 3, 1)
        return tuple(
            self.arguments[at : at + third] for at in range(0, len(self.arguments), third)
        ) or ("",)

    def embedded(self) -> str:
        """JSON that stands where a provider sends the arguments as an object."""
        if not isinstance(self.arguments, str):
            return "null"
        if not self.arguments.strip():
            return "{}"
        try:
            json.loads(self.arguments)
        except ValueError:
            return json.dumps(self.arguments)
        return self.arguments.replace("\n", " ").replace("\r", " ")  # a line break ends an event


@dataclass(frozen=True, slots=True)
class Said:
    """One reply of the model."""

    text: str | None = None
    calls: tuple[SaidCall, ...] = ()
    reasoning: str | None = None
    """Given away in the provider's opaque form, where it has one; it must come back unchanged."""
    finish: Literal["stop", "length", "filter", "refusal", "calls"] = "stop"
    """`stop` is what the provider says of calls where there are some, `calls` says so without one,
    where the provider has a word for it."""
    tokens: tuple[int, int] = (12, 5)
    """Tokens read and written."""


FailureKind = Literal[
    "rate_limit",
    "server_error",
    "compressed_page",
    "long_page",
    "unauthorised",
    "not_found",
    "top_p",
    "top_p_bare",
    "top_p_value",
    "temperature",
    "tools",
    "bad_schema",
    "silent",
    "cut",
    "bad_json",
    "not_json",
    "redirect",
    "stream_ends",
    "stream_error",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply that is none.

    `silent` never answers, `cut` breaks the connection in the middle, `bad_json` is broken JSON
    with status 200, `not_json` a page with status 502, `compressed_page` and `long_page` pages of a
    proxy with status 503. `stream_ends` stops a stream at an event
    without a finish, `stream_error` says in a stream that something went wrong; whole replies are
    cut or a server error instead. `top_p_bare` says it in words alone, without code and parameter;
    `top_p_value` is a value out of range, which no retry without it may hide.
    """

    kind: FailureKind
    retry_after: str | None = "2"
    """For `rate_limit`: the header."""
    said: Said = field(default_factory=lambda: Said(text="This reply is never whole."))
    """What it is in the middle of, for those that break off."""


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP as it goes out."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    streamed: bool = False
    """In small chunks that respect neither events nor characters."""
    cut: bool = False
    """The connection breaks after half of it."""
    silent: bool = False
    """Nothing goes out until the server is stopped."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    json: Any
    """The body, or None where it is not JSON."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a script with what must hold for its request."""

    reply: Said | Failure | Reply
    expects: Callable[[Heard], bool] | None = None


Scripted = Said | Failure | Reply | Step


def call(name: str, arguments: str | Omitted | None = "{}", **how: Any) -> Said:
    """A reply with one call."""
    reasoning = how.pop("reasoning", None)
    return Said(calls=(SaidCall(name, arguments, **how),), reasoning=reasoning)


def with_raw(body: Any, raw: dict[str, str]) -> bytes:
    """JSON in which each text that is a key of `raw` is replaced by the JSON text there."""
    text = json.dumps(body)
    for mark, value in raw.items():
        text = text.replace(json.dumps(mark), value)
    return text.encode()
