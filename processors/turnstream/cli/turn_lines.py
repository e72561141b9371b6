"""Lines of JSON as events: what a line may be, and what is filled in."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from turnstream.config.yaml_lines import allowed_keys
from turnstream.roles.writing import MODELS, Written

M = TypeVar("M", bound=BaseModel)

_BRANCH: Final = "literal["
"""How the name of a union's branch begins where a validation error tells places."""

LONGEST_LINE_BYTES: Final = 4 * 1024 * 1024
"""A file of another kind may be one line of any size, which would fill the memory. The largest
record, 1 MiB, has at most some three times that as JSON, where every character is escaped."""

_FAULTS: Final = 3
"""Faults named per line: a line of another shape breaks every field at once."""


class BadLine(Exception):
    """A line is no event; the message says why, without repeating what a customer wrote."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an input."""

    content: bytes | None
    """Without its end; None when it is too long, and was not kept."""
    size: int
    """Bytes, with its end."""


@dataclass(slots=True)
class LineSplitter:
    """Puts lines together from chunks; holds the unfinished one, up to a limit."""

    limit: int = LONGEST_LINE_BYTES
    """Longest line that is kept, bytes."""
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Give the lines that end in the next chunk."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._line(line_end=1)
        self._add(rest)

    def end(self) -> Iterator[Line]:
        """Give the last line if nothing ended it."""
        if self._size:
            yield self._line(line_end=0)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self.limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self, *, line_end: int) -> Line:
        content = b"".join(self._parts) if self._size <= self.limit else None
        line = Line(content, self._size + line_end)
        self._parts.clear()
        self._size = 0
        return line


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    user_message: str = Field(min_length=1)


class _ApiCall(BaseModel):
    """What a caller of the API channel sends, as to any node that asks something."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_id: str = Field(min_length=1)
    payload: _Payload


_IDS: Final = {"turn": "turn_id", "control": "control_id", "live-action": "live_action_id"}


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads the lines of one input."""

    event: str
    """`turn`, `control` or `live-action`."""
    channel: str | None = None
    """Channel of turns that name none."""
    no_channel: str = "Field required"
    """Why there is no `channel`, for the error of such a turn."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def read(self, line: bytes, *, number: int) -> Written:
        """The event of a line.

        A turn without a time happened now. An event without an id gets one that depends on its
        conversation, its line number, its time and its content only: a file whose turns have their
        times can be sent twice, and the second time counts as a repetition.

        Args:
            line: One JSON object.
            number: Its position, counted from 1.

        Raises:
            BadLine: It is none of the accepted shapes.
        """
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
        if not isinstance(given, dict):
            raise BadLine("expected a JSON object")
        if self.event == "turn" and "session_id" in given:
            given = _turn_of(_validated(_ApiCall, given))
        given.setdefault("occurred_at", self.now_ms())
        if self.event == "turn":
            given.setdefault("role", "customer")
            if self.channel is not None:
                given.setdefault("channel_id", self.channel)
        given.setdefault(_IDS[self.event], _line_id(given, number=number))
        return _validated(MODELS[self.event], given, no_channel=self.no_channel)


def _turn_of(call: _ApiCall) -> dict[str, object]:
    return {"conversation_id": call.session_id, "text": call.payload.user_message}


def _line_id(given: dict[str, object], *, number: int) -> str:
    content = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    return f"line-{number}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"


def _validated(model: type[M], given: dict[str, object], *, no_channel: str = "") -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        named = [
            f"{'.'.join(map(str, _place(one))) or 'line'}: {_in_words(one, model, no_channel)}"
            for one in faults
            if not _of_a_reader(one)
        ]
        more = [f"and {len(named) - _FAULTS} more"] if len(named) > _FAULTS else []
        raise BadLine("; ".join([*named[:_FAULTS], *more])) from None


def _place(fault: ErrorDetails) -> tuple[int | str, ...]:
    """Where the line is wrong, without the branch of a union that was tried."""
    return tuple(part for part in fault["loc"] if not str(part).startswith(_BRANCH))


def _of_a_reader(fault: ErrorDetails) -> bool:
    """Whether it asks for `unrecognized`, which readers see and nobody writes."""
    return fault["loc"][-1:] == (f"{_BRANCH}'unrecognized']",)


def _in_words(fault: ErrorDetails, model: type[BaseModel], no_channel: str) -> str:
    if fault["type"] == "extra_forbidden":
        return f"unknown key; expected one of {', '.join(allowed_keys(model, fault['loc'][:-1]))}"
    if fault["type"] == "literal_error":
        return fault["msg"].replace("Input should be", "expected")
    if fault["loc"] == ("occurred_at",):
        return "expected milliseconds since 1970 UTC, as 1767225600000"
    if fault["loc"] == ("channel_id",) and fault["type"] == "missing":
        return no_channel
    return fault["msg"]
