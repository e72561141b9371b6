"""OpenAI's Responses, whole replies alone, and Azure's.

https://platform.openai.com/docs/api-reference/responses
"""

import json
from typing import Any, Final

from openai.types.responses import response_create_params

from tests.providers.openai_chat import azure_address, azure_key
from tests.providers.schemas import (
    answered,
    judged,
    object_text,
    strict_schema,
    strict_validator,
    tool_names,
)
from tests.providers.script import AUTO, Heard, Reply, Said
from tests.providers.server import ProviderServer, as_json, require, wrong

_WHOLE: Final = strict_validator(response_create_params.ResponseCreateParamsNonStreaming)

_ID_CHARACTERS: Final = 64
"""Longest id of a call that is taken back."""

_STATEFUL: Final = ("previous_response_id", "conversation")
"""What would go on from a state that the provider keeps."""


class ResponsesServer(ProviderServer):
    """api.openai.com, as far as Responses go, for clients that keep everything themselves."""

    path = "/v1/responses"
    model = "gpt-5-2025-08-07"

    def __init__(self, *steps: Any, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.given: dict[str, list[dict[str, Any]]] = {}
        """Call id to the reasoning items of its reply."""

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        self.check_address(heard)
        self.check_key(heard)
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        require(not self.streams(heard), "Responses are whole, never streamed", "stream")
        judged(_WHOLE, heard.body)
        require(body.get("store") is False, "nothing is stored", f"store: {body.get('store')}")
        for key in _STATEFUL:
            require(body.get(key) is None, "nothing is stored", f"{key}: {body.get(key)}")
        included = body.get("include") or []
        require(
            "reasoning.encrypted_content" in included,
            "encrypted reasoning is asked for",
            f"include: {included}",
        )
        self._check_tools(body)
        items = body.get("input")
        if isinstance(items, list):
            self._check_items(items)

    def check_address(self, heard: Heard) -> None:
        """Judge the path."""
        require((heard.method, heard.path) == ("POST", self.path), "the path", heard.path)

    def check_key(self, heard: Heard) -> None:
        """Judge the key."""
        said = heard.headers.get("authorization")
        require(said == f"Bearer {self.key}", "the key", f"authorization: {said}")

    def _check_tools(self, body: dict[str, Any]) -> None:
        tools = body.get("tools") or []
        tool_names([one["name"] for one in tools])
        for key in ("tool_choice", "parallel_tool_calls"):
            require(tools or key not in body, f"{key} only where there are tools", body.get(key))
        for one in tools:
            if one["strict"]:
                strict_schema(one["parameters"])

    def _check_items(self, items: list[dict[str, Any]]) -> None:
        require(items, "a conversation has messages", items)
        asked: list[str] = []
        given: list[str] = []
        for at, item in enumerate(items):
            kind = item.get("type", "message")
            if kind == "item_reference":
                wrong("nothing is stored", item)
            if kind == "reasoning":
                following = items[at + 1].get("type", "message") if at + 1 < len(items) else "none"
                ours = at + 1 < len(items) and items[at + 1].get("role") in (None, "assistant")
                require(
                    following in ("reasoning", "message", "function_call") and ours,
                    "reasoning is followed by what it led to",
                    f"item {at}: {following}",
                )
            if kind == "function_call":
                require(
                    0 < len(item["call_id"]) <= _ID_CHARACTERS, "length of ids", item["call_id"]
                )
                tool_names([item["name"]])
                object_text(item["arguments"], item["call_id"])
                self._check_reasoning(item["call_id"], items[:at])
                asked.append(item["call_id"])
            if kind == "function_call_output":
                require(item.get("call_id") in asked, "each result has its call", item)
                given.append(item["call_id"])
            if kind == "message" and item.get("role") == "user":
                answered(asked, given, f"before item {at}")
        answered(asked, given, "at the end")
        last = items[-1]
        spoken = last.get("role") == "assistant" or last.get("type") == "function_call"
        require(not spoken, "the last word is not the model's", last)

    def _check_reasoning(self, call_id: str, before: list[dict[str, Any]]) -> None:
        """The reasoning that led to a call stands before it, as it was given."""
        texts = [json.dumps(one, sort_keys=True) for one in before]
        for one in self.given.get(call_id, ()):
            require(
                json.dumps(one, sort_keys=True) in texts,
                "reasoning comes back unchanged",
                f"{one['id']} before {call_id}",
            )

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error of OpenAI's."""
        error: dict[str, Any] = {"message": message, "type": "invalid_request_error"}
        if kind:
            error |= {"param": param, "code": kind}
        return as_json({"error": error}, status, x_request_id="req_1")

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A response."""
        number = len(self.heard)
        output: list[dict[str, Any]] = []
        if said.reasoning is not None:
            output += reasoning_items(said.reasoning, number)
        if said.text is not None:
            part: dict[str, Any] = {"type": "output_text", "text": said.text, "annotations": []}
            if said.finish == "refusal":
                part = {"type": "refusal", "refusal": said.text}
            output.append(
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        for one in said.calls:
            call_id = f"call_{next(self.ids):024d}" if one.call_id is AUTO else one.call_id
            item = {"id": f"fc_{number}_{len(output)}", "type": "function_call", "name": one.name}
            output.append({**item, "call_id": call_id, "status": "completed"})
            if isinstance(one.arguments, str) or one.arguments is None:
                output[-1]["arguments"] = one.arguments
            if said.reasoning is not None and isinstance(call_id, str):
                self.given[call_id] = reasoning_items(said.reasoning, number)
        reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(said.finish)
        read, written = said.tokens
        return as_json(
            {
                "id": f"resp_{number}",
                "object": "response",
                "created_at": 1_700_000_000,
                "status": "incomplete" if reason else "completed",
                "incomplete_details": {"reason": reason} if reason else None,
                "error": None,
                "instructions": None,
                "metadata": {},
                "model": self.model,
                "output": output,
                "parallel_tool_calls": True,
                "temperature": 1.0,
                "tool_choice": "auto",
                "tools": heard.json.get("tools") or [],
                "top_p": 1.0,
                "usage": {
                    "input_tokens": read,
                    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": written,
                    "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": read + written,
                },
            },
            x_request_id=f"req_{number}",
        )


class AzureResponsesServer(ResponsesServer):
    """Azure OpenAI: the deployment is the model; the older address has a version in its query."""

    def __init__(
        self, *steps: Any, deployment: str = "dep-1", v1: bool = False, **how: Any
    ) -> None:
        super().__init__(*steps, **how)
        self.deployment = deployment
        self.v1 = v1

    def check_address(self, heard: Heard) -> None:
        """Judge the path and the version."""
        if self.v1:
            azure_address(heard, "responses", None)
        else:
            require((heard.method, heard.path) == ("POST", "/openai/responses"), "the path", heard)
            require("api-version" in heard.query, "the API version", "none")
        require(heard.json.get("model") == self.deployment, "the deployment", heard.json)

    def check_key(self, heard: Heard) -> None:
        """Judge the key."""
        azure_key(heard, self.key, bearer=self.v1)


def reasoning_items(text: str, number: int) -> list[dict[str, Any]]:
    """Two items: one with its text encrypted alone, one with summaries besides."""
    sealed = f"gAAAA{text.encode().hex()}=="
    return [
        {"id": f"rs_{number}_1", "type": "reasoning", "summary": [], "encrypted_content": sealed},
        {
            "id": f"rs_{number}_2",
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": "Thought of the order."},
                {"type": "summary_text", "text": "And of its date."},
            ],
            "encrypted_content": sealed + "2",
        },
    ]
