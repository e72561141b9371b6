"""OpenAI's Chat Completions, whole and streamed, and two servers that resemble it: vLLM and Azure.

https://platform.openai.com/docs/api-reference/chat
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
https://learn.microsoft.com/azure/ai-foundry/openai/reference
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from openai.types.chat import completion_create_params

from tests.providers.schemas import (
    answered,
    judged,
    object_text,
    strict_schema,
    strict_validator,
    tool_names,
)
from tests.providers.script import ABSENT, AUTO, Failure, Heard, Reply, Said, SaidCall
from tests.providers.server import ProviderServer, as_events, as_json, require

_WHOLE: Final = strict_validator(completion_create_params.CompletionCreateParamsNonStreaming)
_STREAMED: Final = strict_validator(completion_create_params.CompletionCreateParamsStreaming)

_ID_CHARACTERS: Final = 40
"""Longest id of a call that OpenAI takes back."""

_REASONING: Final = ("reasoning_content", "reasoning")
"""Keys of a model's message in which servers show reasoning; OpenAI has none."""

_CREATED: Final = 1_700_000_000

_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")


class ChatServer(ProviderServer):
    """api.openai.com, as far as Chat Completions go."""

    path = "/v1/chat/completions"
    model = "gpt-4o-2024-11-20"
    id_characters = _ID_CHARACTERS

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        self.check_address(heard)
        self.check_key(heard)
        require(isinstance(heard.json, dict), "the body is a JSON object", heard.body[:200])
        self.check_body(heard)
        body = heard.json
        require(
            "stream_options" not in body or self.streams(heard),
            "stream_options only where there is a stream",
            body.get("stream_options"),
        )
        check_tools(body)
        check_messages(body["messages"], longest_id=self.id_characters)

    def check_address(self, heard: Heard) -> None:
        """Judge the path."""
        require((heard.method, heard.path) == ("POST", self.path), "the path", heard.path)
        require(not heard.query, "the path", heard.query)

    def check_key(self, heard: Heard) -> None:
        """Judge the key."""
        said = heard.headers.get("authorization")
        require(said == f"Bearer {self.key}", "the key", f"authorization: {said}")

    def check_body(self, heard: Heard) -> None:
        """Judge by the SDK's types."""
        judged(_STREAMED if self.streams(heard) else _WHOLE, heard.body)

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error of OpenAI's."""
        error: dict[str, Any] = {"message": message, "type": "invalid_request_error"}
        if kind:
            error |= {"param": param, "code": kind}
        return as_json({"error": error}, status, x_request_id="req_1")

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A completion, or its chunks."""
        calls = [(self.call_id(one), one) for one in said.calls]
        if self.streams(heard):
            return as_events(*self.chunks(said, calls, heard), done=True)
        message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
        if said.finish == "refusal":
            message |= {"content": None, "refusal": said.text}
        if said.reasoning is not None:
            message |= self.reasoning(said.reasoning)
        if calls:
            message["tool_calls"] = [_whole_call(one, call_id) for call_id, one in calls]
        read, written = said.tokens
        choice = {"index": 0, "message": message, "finish_reason": finish(said), "logprobs": None}
        return as_json(
            {
                "id": f"chatcmpl-{len(self.heard)}",
                "object": "chat.completion",
                "created": _CREATED,
                "model": self.model,
                "choices": [choice],
                "usage": _usage(read, written),
            },
            x_request_id=f"req_{len(self.heard)}",
        )

    def chunks(
        self, said: Said, calls: Sequence[tuple[Any, SaidCall]], heard: Heard
    ) -> list[dict[str, Any]]:
        """The same in parts: role, reasoning, text, calls, finish, and usage where asked for."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if said.reasoning is not None and (shown := self.reasoning(said.reasoning)):
            deltas.append(shown)
        if said.text is not None:
            spot = "refusal" if said.finish == "refusal" else "content"
            half = len(said.text) // 2
            deltas += [{spot: said.text[:half]}, {spot: said.text[half:]}]
        for at, (call_id, one) in enumerate(calls):
            head = {"index": at, **_whole_call(one, call_id)}
            parts = one.parts()
            if parts:
                head["function"] = {**head["function"], "arguments": parts[0]}
            deltas.append({"tool_calls": [head]})
            deltas += [
                {"tool_calls": [{"index": at, "function": {"arguments": part}}]}
                for part in parts[1:]
            ]
        chunks = [self._chunk(delta, None) for delta in deltas]
        chunks.append(self._chunk({}, finish(said)))
        if (heard.json.get("stream_options") or {}).get("include_usage"):
            chunks.append({**self._chunk({}, None), "choices": [], "usage": _usage(*said.tokens)})
        return chunks

    def _chunk(self, delta: dict[str, Any], ending: str | None) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{len(self.heard)}",
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": ending}],
        }

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No finish and no [DONE], or an error in their place."""
        calls = [(self.call_id(one), one) for one in failure.said.calls]
        chunks = [
            one
            for one in self.chunks(failure.said, calls, heard)
            if one["choices"] and one["choices"][0]["finish_reason"] is None
        ]
        if failure.kind == "stream_ends":
            return as_events(*chunks)
        error = {"message": "The server had an error.", "type": "server_error", "code": None}
        return as_events(*chunks[:2], {"error": error})

    def reasoning(self, text: str) -> dict[str, Any]:
        """Keys that show reasoning; OpenAI has none here."""
        return {}

    def call_id(self, one: SaidCall) -> Any:
        """An id as the server makes them up, unless the script has one."""
        return f"call_{next(self.ids):024d}" if one.call_id is AUTO else one.call_id


class VllmServer(ChatServer):
    """A vLLM server: more parameters, reasoning in the open, and refusals in its own words."""

    model = "Qwen/Qwen3-32B"
    id_characters = 200
    no_tools = (
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    )

    extras = frozenset(
        """
        add_generation_prompt best_of bad_words chat_template chat_template_kwargs
        continue_final_message echo guided_choice guided_grammar guided_json guided_regex
        ignore_eos include_reasoning length_penalty min_p min_tokens priority prompt_logprobs
        repetition_penalty request_id skip_special_tokens spaces_between_special_tokens
        stop_token_ids structured_outputs top_k truncate_prompt_tokens use_beam_search
        """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
    )
    """Parameters that OpenAI does not have."""

    def check_body(self, heard: Heard) -> None:
        """Judge by OpenAI's types, without what vLLM takes beside them."""
        body = {key: value for key, value in heard.json.items() if key not in self.extras}
        body["messages"] = [
            {
                key: value
                for key, value in message.items()
                if message.get("role") != "assistant"
                or key not in ("reasoning_content", "reasoning")
            }
            for message in body.get("messages", [])
        ]
        judged(_STREAMED if self.streams(heard) else _WHOLE, json.dumps(body).encode())

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error of vLLM's: the code is the status."""
        named = {400: "BadRequestError", 404: "NotFoundError", 401: "Unauthorized"}
        error = {"message": message, "type": named.get(status, "InternalServerError")}
        return as_json({"error": {**error, "param": None, "code": status}}, status)

    def reasoning(self, text: str) -> dict[str, Any]:
        """Reasoning in the open."""
        return {"reasoning_content": text}

    def call_id(self, one: SaidCall) -> Any:
        """As vLLM makes them up."""
        return f"chatcmpl-tool-{next(self.ids):032x}" if one.call_id is AUTO else one.call_id


class AzureChatServer(ChatServer):
    """Azure OpenAI: a deployment in the path, a version in the query, the key in `api-key`."""

    model = "gpt-4o-2024-11-20"

    def __init__(
        self, *steps: Any, deployment: str = "dep-1", v1: bool = False, **how: Any
    ) -> None:
        super().__init__(*steps, **how)
        self.deployment = deployment
        self.v1 = v1
        """The newer address, with the deployment as the model."""

    def check_address(self, heard: Heard) -> None:
        """Judge the path and the version."""
        azure_address(heard, "chat/completions", None if self.v1 else self.deployment)
        if self.v1:
            require(heard.json.get("model") == self.deployment, "the deployment", heard.json)

    def check_key(self, heard: Heard) -> None:
        """Judge the key."""
        azure_key(heard, self.key, bearer=self.v1)

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """As OpenAI, but for the code of an unknown deployment."""
        if kind == "model_not_found":
            said = "The API deployment for this resource does not exist."
            return as_json({"error": {"code": "DeploymentNotFound", "message": said}}, status)
        return super().error(status, kind, message, param=param)


def azure_address(heard: Heard, operation: str, deployment: str | None) -> None:
    """Judge a path of Azure's: with a version for the older, without for `/openai/v1`."""
    spot = "v1" if deployment is None else f"deployments/{deployment}"
    expected = f"/openai/{spot}/{operation}"
    require((heard.method, heard.path) == ("POST", expected), "the path", heard.path)
    version = heard.query.get("api-version", "")
    if deployment is None:
        require(version in ("", "preview", "v1"), "the API version", version)
    else:
        require(_VERSION.fullmatch(version), "the API version", version or "none")


def azure_key(heard: Heard, key: str, *, bearer: bool) -> None:
    """Judge a key of Azure's: in `api-key`; the newer address takes it as a bearer's too."""
    said = heard.headers.get("api-key")
    if said is None and bearer:
        said = heard.headers.get("authorization", "").removeprefix("Bearer ")
    require(said == key, "the key", f"api-key: {said}")


def finish(said: Said) -> str:
    """OpenAI's word for how a reply ended."""
    match said.finish:
        case "length":
            return "length"
        case "filter":
            return "content_filter"
        case _:
            return "tool_calls" if said.calls or said.finish == "calls" else "stop"


def check_tools(body: dict[str, Any]) -> None:
    """Judge tools, and what may be said only with tools."""
    tools = body.get("tools")
    require(tools is None or tools, "tools are left out where there are none", tools)
    for key in ("tool_choice", "parallel_tool_calls"):
        require(tools or key not in body, f"{key} only where there are tools", body.get(key))
    functions = [one["function"] for one in tools or ()]
    tool_names([one["name"] for one in functions])
    for one in functions:
        if one.get("strict"):
            strict_schema(one.get("parameters"))


def check_messages(messages: Sequence[dict[str, Any]], *, longest_id: int) -> None:
    """Judge the order of messages: each call is answered right after, by tool messages alone."""
    require(messages, "a conversation has messages", messages)
    seen: list[str] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        require(message["role"] != "tool", "each result has its call", message)
        asked = [one["id"] for one in message.get("tool_calls") or ()]
        if message["role"] != "assistant" or not asked:
            continue
        for one in message["tool_calls"]:
            require(0 < len(one["id"]) <= longest_id, "length of ids", one["id"])
            tool_names([one["function"]["name"]])
            object_text(one["function"]["arguments"], one["id"])
        given = []
        while at < len(messages) and messages[at]["role"] == "tool":
            given.append(messages[at]["tool_call_id"])
            at += 1
        answered(asked, given, f"message {at}")
        seen += asked
    require(len(set(seen)) == len(seen), "ids of calls are unique", seen)
    require(messages[-1]["role"] != "assistant", "the last word is not the model's", messages[-1])


def _whole_call(one: SaidCall, call_id: Any) -> dict[str, Any]:
    function: dict[str, Any] = {"name": one.name}
    if one.arguments is not ABSENT:
        function["arguments"] = one.arguments
    call: dict[str, Any] = {"type": "function", "function": function}
    return call if call_id is ABSENT else {"id": call_id, **call}


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
