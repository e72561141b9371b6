"""A streamed reply of watsonx's, put together: the same form as one that came whole.

Calls are told apart by their index alone. A server that streams two of them under one index has
glued them: name and arguments are then none that pass a gate, and nothing half-read is run.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_TEXTS: Final = ("content", "refusal", "reasoning_content")
"""Keys of a message that come in pieces."""


def put_together(chunks: Iterable[Any]) -> dict[str, Any]:
    """The reply that chunks make; without a `finish_reason` it broke off.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: the chunks have another form.
    """
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    reply: dict[str, Any] = {"usage": None}
    finish = None
    for chunk in chunks:
        reply["model_id"] = chunk.get("model_id") or reply.get("model_id")
        reply["usage"] = chunk.get("usage") or reply["usage"]
        for choice in chunk.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta") or {}
            for key in _TEXTS:
                if delta.get(key) is not None:
                    message[key] = message.get(key, "") + delta[key]
            for piece in delta.get("tool_calls") or ():
                _add(piece, calls.setdefault(piece["index"], {"function": {"name": ""}}))
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**reply, "choices": [{"message": message, "finish_reason": finish}]}


def _add(piece: Mapping[str, Any], call: dict[str, Any]) -> None:
    if piece.get("id"):
        call["id"] = piece["id"]
    given = piece.get("function") or {}
    function = call["function"]
    function["name"] += given.get("name") or ""
    if given.get("arguments") is not None:
        function["arguments"] = function.get("arguments", "") + given["arguments"]
