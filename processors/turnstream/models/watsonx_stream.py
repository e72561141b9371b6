"""A streamed reply of watsonx's, put together: the same form as one that came whole.

Calls are told apart by their index alone. A server that streams two of them under one index has
glued them: name and arguments are then none that pass a gate, and nothing half-read is run.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

_TEXTS: Final = ("content", "refusal", "reasoning_content")
"""Keys of a message that come in pieces."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Function(_Part):
    name: str | None = None
    arguments: str | None = None


class _Piece(_Part):
    index: int
    id: str | None = None
    type: Literal["function", ""] | None = None
    function: _Function | None = None


class _Delta(_Part):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Piece] | None = None
    function_call: None = None
    """As in a whole reply: none is read, so none is passed over."""


class _Choice(_Part):
    index: Literal[0] = 0
    """One is asked for; the pieces of another would be mixed into it."""
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(_Part):
    model_id: str | None = None
    choices: list[_Choice] | None = None
    usage: Any = None
    """Judged where whole replies are read."""
    errors: None = None
    """A stream that says what went wrong is no reply, finished or not."""


def put_together(chunks: Iterable[object]) -> dict[str, Any]:
    """The reply that chunks make; without a `finish_reason` it broke off.

    Raises:
        ValidationError: a chunk has another form.
    """
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    reply: dict[str, Any] = {"usage": None}
    finish = None
    for given in chunks:
        chunk = _Chunk.model_validate(given)
        reply["model_id"] = chunk.model_id or reply.get("model_id")
        reply["usage"] = chunk.usage or reply["usage"]
        for choice in chunk.choices or ():
            finish = choice.finish_reason or finish
            delta = choice.delta or _Delta()
            for key in _TEXTS:
                text = getattr(delta, key)
                if text is not None:
                    message[key] = message.get(key, "") + text
            for piece in delta.tool_calls or ():
                _add(piece, calls.setdefault(piece.index, {"function": {"name": ""}}))
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**reply, "choices": [{"message": message, "finish_reason": finish}]}


def _add(piece: _Piece, call: dict[str, Any]) -> None:
    if piece.id:
        call["id"] = piece.id
    given = piece.function or _Function()
    function = call["function"]
    function["name"] += given.name or ""
    if given.arguments is not None:
        function["arguments"] = function.get("arguments", "") + given.arguments
