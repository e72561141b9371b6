"""Anthropic's Messages, whole and streamed.

https://docs.anthropic.com/en/api/messages
"""

import json
import re
from typing import Any, Final

from anthropic.types import message_create_params

from tests.providers.schemas import answered, judged, strict_validator, tool_names
from tests.providers.script import (
    ABSENT,
    AUTO,
    Failure,
    Heard,
    Reply,
    Said,
    SaidCall,
    with_raw,
)
from tests.providers.server import ProviderServer, as_events, as_json, require

_WHOLE: Final = strict_validator(message_create_params.MessageCreateParamsNonStreaming)
_STREAMED: Final = strict_validator(message_create_params.MessageCreateParamsStreaming)

_SAMPLING: Final = ("temperature", "top_p", "top_k")
"""Documented, but not in the SDK's types any more."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]+")

_NAME_CHARACTERS: Final = 128
"""Longest name of a tool."""

_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
}


class AnthropicServer(ProviderServer):
    """api.anthropic.com, as far as Messages go."""

    model = "claude-opus-4-8"

    def __init__(self, *steps: Any, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.given: dict[str, list[dict[str, Any]]] = {}
        """Id of a call to the thinking of its reply."""

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        require((heard.method, heard.path) == ("POST", "/v1/messages"), "the path", heard.path)
        bearer = heard.headers.get("authorization", "").removeprefix("Bearer ")
        require(self.key in (heard.headers.get("x-api-key"), bearer), "the key", "none that fits")
        require("anthropic-version" in heard.headers, "the API version", "no anthropic-version")
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        plain = {key: value for key, value in body.items() if key not in _SAMPLING}
        judged(_STREAMED if self.streams(heard) else _WHOLE, json.dumps(plain).encode())
        for key in _SAMPLING:
            value = body.get(key, 0)
            require(
                isinstance(value, int | float) and not isinstance(value, bool), "numbers", value
            )
        tools = body.get("tools")
        require(tools is None or tools, "tools are left out where there are none", tools)
        tool_names([one["name"] for one in tools or ()], longest=_NAME_CHARACTERS)
        for one in tools or ():
            top = one["input_schema"]
            require(top.get("type") == "object", "schemas are objects at the top", top)
            mixed = {"oneOf", "allOf", "anyOf"} & set(top)
            require(not mixed, "schemas are objects at the top", sorted(mixed))
        require(tools or "tool_choice" not in body, "tool_choice only where there are tools", body)
        self._check_thinking(body)
        self._check_messages(body["messages"], has_tools=bool(tools))

    def _check_thinking(self, body: dict[str, Any]) -> None:
        thinking = body.get("thinking") or {}
        if thinking.get("type") != "enabled":
            return
        budget = thinking["budget_tokens"]
        require(1_024 <= budget < body["max_tokens"], "room for thinking", budget)
        require(body.get("temperature", 1) == 1, "thinking takes no temperature", body)
        require("top_k" not in body, "thinking takes no top_k", body)

    def _check_messages(self, messages: list[dict[str, Any]], *, has_tools: bool) -> None:
        require(messages, "a conversation has messages", messages)
        require(messages[0]["role"] == "user", "the first word is the user's", messages[0])
        ids: list[str] = []
        asked: list[str] = []
        for at, message in enumerate(messages):
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            require(blocks, "content is not empty", message)
            for block in blocks:
                empty = block["type"] == "text" and not block["text"].strip()
                require(not empty, "content is not empty", message)
                calls = block["type"] in ("tool_use", "tool_result")
                require(has_tools or not calls, "calls only where there are tools", block)
            given = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
            kinds = [one["type"] for one in blocks]
            require(
                "tool_result" not in kinds[len(given) :], "results come first in a message", kinds
            )
            require(not given or message["role"] == "user", "results come from the user", message)
            answered(asked, given, f"message {at}")
            asked = []
            for block in blocks:
                if block["type"] != "tool_use":
                    continue
                require(message["role"] == "assistant", "calls come from the model", block)
                require(isinstance(block["input"], dict), "arguments are objects", block)
                require(_ID.fullmatch(block["id"]), "characters of ids", block["id"])
                tool_names([block["name"]], longest=_NAME_CHARACTERS)
                self._check_given(block["id"], blocks)
                asked.append(block["id"])
            ids += asked
        require(len(set(ids)) == len(ids), "ids of calls are unique", ids)
        answered(asked, [], "at the end")
        require(messages[-1]["role"] == "user", "the last word is not the model's", messages[-1])

    def _check_given(self, call_id: str, blocks: list[dict[str, Any]]) -> None:
        """A reply's thinking stands before its calls, signatures and all."""
        given = self.given.get(call_id, [])
        start = [
            {key: value for key, value in one.items() if key != "cache_control"}
            for one in blocks[: len(given)]
        ]
        require(start == given, "reasoning comes back unchanged", f"{given}, not {start}")

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error of Anthropic's; it names no parameter."""
        error = {"type": _KINDS.get(status, "api_error"), "message": message}
        return as_json({"type": "error", "error": error}, status, request_id="req_1")

    def blocks(self, said: Said) -> list[dict[str, Any]]:
        """The content of a reply; the inputs of calls are marks."""
        blocks: list[dict[str, Any]] = []
        if said.reasoning is not None:
            blocks += thinking_blocks(said.reasoning)
        if said.text is not None:
            blocks.append({"type": "text", "text": said.text})
        for one in said.calls:
            call_id = f"toolu_{next(self.ids):024d}" if one.call_id is AUTO else one.call_id
            block = {"type": "tool_use", "id": call_id, "name": one.name}
            if one.arguments is not ABSENT:
                block["input"] = _mark(len(blocks))
            blocks.append(block)
            if said.reasoning is not None and isinstance(call_id, str):
                self.given[call_id] = thinking_blocks(said.reasoning)
        return blocks

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A message, or its events."""
        blocks = self.blocks(said)
        message = self._message(blocks, finish(said), said.tokens)
        calls = [(at, one) for at, one in enumerate(blocks) if one["type"] == "tool_use"]
        if self.streams(heard):
            return as_events(*self._events(message, said), names=True)
        inputs = {_mark(at): one.embedded() for (at, _), one in zip(calls, said.calls, strict=True)}
        return as_json(with_raw(message, inputs), request_id=f"req_{len(self.heard)}")

    def _message(
        self, blocks: list[dict[str, Any]], ending: str | None, tokens: tuple[int, int]
    ) -> dict[str, Any]:
        return {
            "id": f"msg_{len(self.heard):024d}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": blocks,
            "stop_reason": ending,
            "stop_sequence": None,
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
        }

    def _events(self, message: dict[str, Any], said: Said) -> list[dict[str, Any]]:
        start = {**message, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        calls = iter(said.calls)
        for at, block in enumerate(message["content"]):
            empty, deltas = _begun(block, calls)
            events.append({"type": "content_block_start", "index": at, "content_block": empty})
            events += [
                {"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas
            ]
            events.append({"type": "content_block_stop", "index": at})
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": said.tokens[1]}
        events.append({"type": "message_delta", "delta": delta, "usage": usage})
        events.append({"type": "message_stop"})
        events.insert(1, {"type": "ping"})
        return events

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No stop, or an error in its place."""
        message = self._message(self.blocks(failure.said), None, failure.said.tokens)
        events = self._events(message, failure.said)[:-3]
        if failure.kind == "stream_error":
            error = {"type": "overloaded_error", "message": "Overloaded"}
            events = [*events[:3], {"type": "error", "error": error}]
        return as_events(*events, names=True)


def thinking_blocks(text: str) -> list[dict[str, Any]]:
    """Signed thinking, and some that only the provider can read."""
    return [
        {"type": "thinking", "thinking": text, "signature": f"Eu{text.encode().hex()}=="},
        {"type": "redacted_thinking", "data": f"Em{text.encode().hex()}=="},
    ]


def finish(said: Said) -> str:
    """Anthropic's word for how a reply ended."""
    match said.finish:
        case "length":
            return "max_tokens"
        case "filter" | "refusal":
            return "refusal"
        case "stop":
            return "tool_use" if said.calls else "end_turn"
        case "calls":
            return "tool_use"


def _mark(at: int) -> str:
    return f"@input {at}@"


def _begun(block: dict[str, Any], calls: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block without its content, and its content in parts."""
    match block["type"]:
        case "text":
            half = len(block["text"]) // 2
            parts = (block["text"][:half], block["text"][half:])
            return {**block, "text": ""}, [{"type": "text_delta", "text": one} for one in parts]
        case "thinking":
            return {**block, "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use":
            one: SaidCall = next(calls)
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": part} for part in ("", *one.parts())
            ]
        case _:
            return block, []
