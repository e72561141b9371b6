"""Gemini's generateContent and streamGenerateContent.

https://ai.google.dev/api/generate-content
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

import base64
import json
import re
import warnings
from typing import Any, Final

from google.genai import types
from pydantic import BaseModel, ValidationError

from tests.providers.schemas import SCHEMA_RULE, keys_within, tool_names
from tests.providers.script import ABSENT, AUTO, Failure, Heard, Reply, Said, with_raw
from tests.providers.server import ProviderServer, as_events, as_json, require, wrong

_PATH: Final = re.compile(
    r"/v1(beta)?/models/(?P<model>[\w.-]+):(?P<how>generateContent|streamGenerateContent)"
)

_SNAKE: Final = re.compile(r"_([a-z])")
"""Both ways of writing a key are documented; the service reads either."""

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}


class GeminiServer(ProviderServer):
    """generativelanguage.googleapis.com, as far as content goes. Calls have no ids by default."""

    model = "gemini-3-pro-preview"

    def __init__(self, *steps: Any, ids: bool = False, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.with_ids = ids
        self.given: list[dict[str, Any]] = []
        """Calls that were given with a signature, as parts of content."""

    def streams(self, heard: Heard) -> bool:
        """Whether a request asks for a stream: the path says so."""
        return heard.path.endswith(":streamGenerateContent")

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        require(heard.method == "POST" and _PATH.fullmatch(heard.path), "the path", heard.path)
        query = {"alt": "sse"} if self.streams(heard) else {}
        require(heard.query == query, "the path", heard.query)
        said = heard.headers.get("x-goog-api-key")
        require(said == self.key, "the key", f"x-goog-api-key: {said}")
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        body = {_SNAKE.sub(lambda one: one[1].upper(), key): value for key, value in body.items()}
        keys_within(
            body,
            (
                "contents",
                "tools",
                "toolConfig",
                "systemInstruction",
                "generationConfig",
                "safetySettings",
                "cachedContent",
                "labels",
            ),
            "the body",
        )
        for one in body.get("tools") or ():
            _as_type(types.Tool, one)
        _as_type(types.ToolConfig, body.get("toolConfig") or {})
        _as_type(types.GenerationConfig, body.get("generationConfig") or {})
        if "systemInstruction" in body:
            _as_type(types.Content, body["systemInstruction"])
        contents = [_as_type(types.Content, one) for one in body.get("contents") or ()]
        self._check_tools(body)
        self._check_contents(contents)

    def _check_tools(self, body: dict[str, Any]) -> None:
        declared = [
            one
            for tool in body.get("tools") or ()
            for one in tool.get("functionDeclarations") or tool.get("function_declarations") or ()
        ]
        tool_names([one["name"] for one in declared])
        for one in declared:
            full = "parametersJsonSchema" in one or "parameters_json_schema" in one
            require(not (full and "parameters" in one), "one schema for each tool", one)
        require(declared or not body.get("toolConfig"), "toolConfig only with tools", body)

    def _check_contents(self, contents: list[Any]) -> None:
        require(contents, "a conversation has messages", contents)
        require(contents[0].role in ("user", None), "the first word is the user's", contents[0])
        asked: list[Any] = []
        for at, content in enumerate(contents):
            require(content.role in ("user", "model", None), "roles", content.role)
            parts = content.parts or []
            require(parts, "content is not empty", content)
            for part in parts:
                said = part.model_dump(exclude_none=True)
                require(said, "content is not empty", content)
            given = [part.function_response for part in parts if part.function_response]
            self._check_results(asked, given, at)
            asked = [part.function_call for part in parts if part.function_call]
            if asked:
                require(content.role == "model", "calls come from the model", content)
                tool_names([one.name for one in asked[:1]])
                self._check_given([part for part in parts if part.function_call])
        self._check_results(asked, [], len(contents))
        require(contents[-1].role != "model", "the last word is not the model's", contents[-1].role)

    def _check_results(self, asked: list[Any], given: list[Any], at: int) -> None:
        require(
            len(asked) == len(given),
            "each call is answered",
            f"content {at}: {len(asked)} calls, {len(given)} results",
        )
        for call, result in zip(asked, given, strict=True):
            require(call.name == result.name, "results are in the order of calls", result.name)
            require(call.id == result.id, "each result has its call", f"{call.id}, {result.id}")
            require(isinstance(result.response, dict), "results are objects", result.response)

    def _check_given(self, parts: list[Any]) -> None:
        """A call that was signed comes back with the signature, and nothing else about it."""
        for part in parts:
            for one in self.given:
                call = part.function_call
                if one["name"] != call.name or one["args"] != (call.args or {}):
                    continue
                sealed = base64.b64encode(part.thought_signature or b"").decode()
                require(sealed == one["signature"], "reasoning comes back unchanged", f"{sealed!r}")

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error of Google's."""
        error: dict[str, Any] = {
            "code": status,
            "message": message,
            "status": _STATUSES.get(status, "UNKNOWN"),
        }
        if status == 429:
            info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}
            error["details"] = [info]
        return as_json({"error": error}, status)

    def saying(self, said: Said, heard: Heard) -> Reply:
        """Candidates, whole or in chunks."""
        parts: list[dict[str, Any]] = []
        raw: dict[str, str] = {}
        if said.reasoning is not None:
            parts.append({"text": said.reasoning, "thought": True})
        if said.text is not None:
            parts.append({"text": said.text})
        for at, one in enumerate(said.calls):
            call: dict[str, Any] = {"name": one.name}
            if one.arguments is not ABSENT:
                mark = f"@args {at}@"
                call["args"] = mark
                raw[mark] = one.embedded()
            if one.call_id is AUTO and self.with_ids:
                call["id"] = f"fc-{next(self.ids)}"
            elif isinstance(one.call_id, str) or one.call_id is None:
                call["id"] = one.call_id
            part: dict[str, Any] = {"functionCall": call}
            if said.reasoning is not None and at == 0:  # of parallel calls only the first has one
                part["thoughtSignature"] = signature(said.reasoning)
                args = json.loads(one.embedded()) or {}
                self.given.append(
                    {"name": one.name, "args": args, "signature": part["thoughtSignature"]}
                )
            parts.append(part)
        if not self.streams(heard):
            return as_json(with_raw(self._content(parts, finish(said), said.tokens), raw))
        chunks = [self._content([part], None, None) for part in parts]
        chunks.append(self._content([{"text": ""}], finish(said), said.tokens))
        return as_events(*(with_raw(one, raw) for one in chunks))

    def _content(
        self, parts: list[dict[str, Any]], ending: str | None, tokens: tuple[int, int] | None
    ) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if ending is not None:
            candidate["finishReason"] = ending
        body: dict[str, Any] = {
            "candidates": [candidate],
            "modelVersion": self.model,
            "responseId": f"resp-{len(self.heard)}",
        }
        if tokens is not None:
            read, written = tokens
            body["usageMetadata"] = {
                "promptTokenCount": read,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
            }
        return body

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No finish, or an error in a chunk."""
        text = self._content([{"text": failure.said.text or ""}], None, None)
        if failure.kind == "stream_ends":
            return as_events(text)
        error = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
        return as_events(text, {"error": error})


def malformed() -> Reply:
    """What comes of a call that Gemini itself cannot read: no content, and a finish of its own."""
    candidate = {
        "content": {},
        "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed function call: lookup_order(order_id=",
        "index": 0,
    }
    return as_json({"candidates": [candidate], "modelVersion": GeminiServer.model})


def signature(text: str) -> str:
    """What stands for a thought."""
    return base64.b64encode(f"thought of {text}".encode()).decode()


def finish(said: Said) -> str:
    """Google's word for how a reply ended."""
    match said.finish:
        case "length":
            return "MAX_TOKENS"
        case "filter":
            return "SAFETY"
        case "refusal":
            return "PROHIBITED_CONTENT"
        case "stop" | "calls":
            return "STOP"


def _as_type(shape: type[BaseModel], value: Any) -> Any:
    """A part of the body as the SDK's type; a word that no enumeration has is only warned of."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return shape.model_validate(value)
    except (ValidationError, UserWarning) as error:
        wrong(SCHEMA_RULE, error)
