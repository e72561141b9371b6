"""A streamed reply of an API of one's own, put together; its form is in `custom_http`."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import from_json


class _Piece(BaseModel):
    model_config = ConfigDict(strict=True)

    index: int
    id: str | None = None
    name: str = ""
    arguments: str | None = None


class _Event(BaseModel):
    """What one event says; the last one has all keys of a whole reply but text and calls."""

    model_config = ConfigDict(strict=True, extra="allow")

    text: str | None = None
    tool_call: _Piece | None = None
    finish: str | None = None
    error: JsonValue = None


class BrokenStream(ValueError):
    """The stream ended before its end, or said that something went wrong."""


def put_together(content: bytes) -> dict[str, Any]:
    """The reply that events make.

    Raises:
        BrokenStream: it is not whole.
        ValueError: an event has another form.
    """
    text: str | None = None
    calls: dict[int, dict[str, Any]] = {}
    for data in _events(content):
        event = _Event.model_validate(from_json(data))
        if event.error is not None:
            raise BrokenStream("an error in its middle")
        if event.text is not None:
            text = (text or "") + event.text
        if event.tool_call is not None:
            _add(event.tool_call, calls)
        if event.finish is not None:
            end = {**(event.model_extra or {}), "finish": event.finish}
            return {**end, "text": text, "tool_calls": [calls[at] for at in sorted(calls)]}
    raise BrokenStream("no end")


def _add(piece: _Piece, calls: dict[int, dict[str, Any]]) -> None:
    call = calls.setdefault(piece.index, {"name": "", "id": None, "arguments": None})
    call["name"] += piece.name
    call["id"] = piece.id or call["id"]
    if piece.arguments is not None:
        call["arguments"] = (call["arguments"] or "") + piece.arguments


def _events(content: bytes) -> Iterator[bytes]:
    """The data of each event; other fields of a stream mean nothing here."""
    for event in content.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].lstrip(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
        if lines:
            yield b"\n".join(lines)
