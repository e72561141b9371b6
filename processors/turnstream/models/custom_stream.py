"""A streamed reply of an API of one's own, put together; its form is in `custom_http`.

The reader is strict: what it passed over could be a call, and the text beside it would go out as if
the call had been made. So an event that is not known, a call where none belongs, or anything behind
the end spoils the reply.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import from_json

from turnstream.core.json_texts import written
from turnstream.models.transport import NO_JSON

_BOM: Final = b"\xef\xbb\xbf"
"""May stand before the first event (HTML, 9.2.5), and is no part of it."""

_LINE_END: Final = re.compile(rb"\r\n|\r")

_UNREAD: Final = frozenset({b"", b"event", b"id", b"retry"})
"""Fields of an event stream that mean nothing here; a comment has none."""


class _Piece(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    index: int
    id: str | None = None
    name: str = ""
    arguments: str | None = None


class _Event(BaseModel):
    """What one event says."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str | None = None
    tool_call: _Piece | None = None
    finish: str | None = None
    error: None = None


class _End(_Event):
    """The last one: all keys of a whole reply but its calls, which have come before."""

    model_config = ConfigDict(strict=True, extra="allow")

    tool_calls: Annotated[list[JsonValue], Field(max_length=0)] | None = None


class BrokenStream(ValueError):
    """The stream ended before its end, or said that something went wrong."""


class OutOfForm(ValueError):
    """JSON or events that are not as documented; the text says how, without a word of theirs."""


def put_together(content: bytes) -> dict[str, Any]:
    """The reply that events make.

    Raises:
        BrokenStream: it is not whole.
        OutOfForm: an event is no JSON or stands behind the end, or something else is out of place.
        ValidationError: an event is of another form.
    """
    text: str | None = None
    calls: dict[int, dict[str, Any]] = {}
    end: dict[str, Any] | None = None
    for data in _events(content):
        event = _read(data)
        if end is not None:
            raise OutOfForm("an event behind the end")
        if event.text is not None:
            text = (text or "") + event.text
        if event.tool_call is not None:
            _add(event.tool_call, calls)
        if event.finish is not None:
            end = {**(event.model_extra or {}), "finish": event.finish}
    if end is None:
        raise BrokenStream("no end")
    return {**end, "text": text, "tool_calls": [calls[at] for at in sorted(calls)]}


def _read(data: bytes) -> _Event:
    said = read_json(data)
    if not isinstance(said, dict):
        return _Event.model_validate(said)
    if said.get("error") is not None:
        raise BrokenStream("an error in its middle")
    return (_Event if said.get("finish") is None else _End).model_validate(said)


def read_json(content: bytes) -> JsonValue:
    """JSON that says the same to every reader.

    Raises:
        OutOfForm: it is none, or it can be read in two ways: of two values of a name a reader takes
            one, and the other may be a call.
    """
    try:
        # Refuses halves of characters, which Python's own reader lets through.
        value: JsonValue = from_json(content)
    except ValueError:
        raise OutOfForm(NO_JSON) from None
    try:
        written(content)
    except ValueError as error:
        raise OutOfForm(str(error)) from None
    return value


def _add(piece: _Piece, calls: dict[int, dict[str, Any]]) -> None:
    call = calls.setdefault(piece.index, {"name": "", "id": None, "arguments": None})
    if piece.id and call["id"] and piece.id != call["id"]:
        raise OutOfForm("two calls under one index")
    call["name"] += piece.name
    call["id"] = piece.id or call["id"]
    if piece.arguments is not None:
        call["arguments"] = (call["arguments"] or "") + piece.arguments


def _events(content: bytes) -> Iterator[bytes]:
    """The data of each event.

    Raises:
        OutOfForm: a line is none of an event stream, such as data whose field has no name.
    """
    lines: list[bytes] = []
    for line in [*_LINE_END.sub(b"\n", content.removeprefix(_BOM)).split(b"\n"), b""]:
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field not in _UNREAD:
            raise OutOfForm("a line that is none of an event stream")
        if not line:
            data, lines = b"\n".join(lines), []
            # Data that is empty is no event (HTML, 9.2.6).
            if data:
                yield data
