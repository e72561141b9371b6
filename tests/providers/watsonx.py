"""watsonx.ai's text/chat, and the exchange of a key for a token.

https://cloud.ibm.com/apidocs/watsonx-ai#text-chat
https://cloud.ibm.com/apidocs/iam-identity-token-api
"""

import base64
import json
import re
import time
from typing import Any, Final
from urllib.parse import parse_qs

from tests.providers.openai_chat import check_messages, check_tools, finish
from tests.providers.schemas import SCHEMA_RULE, keys_within
from tests.providers.script import ABSENT, AUTO, Failure, Heard, Reply, Said
from tests.providers.server import ProviderServer, as_json, require

PATH: Final = "/ml/v1/text/chat"

_GRANT: Final = "urn:ibm:params:oauth:grant-type:apikey"

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

_NUMBERS: Final = ("temperature", "top_p", "frequency_penalty", "presence_penalty")

_KEYS: Final = frozenset(
    """
    model_id project_id space_id messages tools tool_choice tool_choice_option time_limit stop seed
    max_tokens max_completion_tokens n logprobs top_logprobs logit_bias response_format
    temperature top_p frequency_penalty presence_penalty repetition_penalty length_penalty
    include_reasoning reasoning_effort chat_template_kwargs context crypto guided_choice
    guided_grammar guided_json guided_regex
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""What the body may hold."""

_ROLES: Final = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}


class WatsonxServer(ProviderServer):
    """One region, and IBM Cloud's identity service."""

    def __init__(self, *steps: Any, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.tokens: list[str] = []
        """Those given away, newest last."""

    def beside(self, heard: Heard) -> Reply | None:
        """Give a token for the key."""
        if heard.path not in ("/identity/token", "/oidc/token"):
            return None
        form = parse_qs(heard.body.decode())
        require(heard.method == "POST", "the path", heard.method)
        require(form.get("grant_type") == [_GRANT], "the exchange of the key", form)
        require(form.get("apikey") == [self.key], "the key", form.get("apikey"))
        now = int(time.time())
        parts = ({"alg": "none"}, {"iam_id": "tests", "exp": now + 3_600, "n": next(self.ids)})
        coded = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts]
        self.tokens.append(b".".join([*coded, b"c2lnbmVk"]).decode())
        return as_json(
            {
                "access_token": self.tokens[-1],
                "refresh_token": "not_supported",
                "token_type": "Bearer",
                "expires_in": 3_600,
                "expiration": now + 3_600,
                "scope": "ibm openid",
            }
        )

    def streams(self, heard: Heard) -> bool:
        """Whether a request asks for a stream: it goes to another path."""
        return heard.path == f"{PATH}_stream"

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        known = heard.path in (PATH, f"{PATH}_stream")
        require(heard.method == "POST" and known, "the path", heard.path)
        require(_DATE.fullmatch(heard.query.get("version", "")), "the API version", heard.query)
        token = heard.headers.get("authorization", "").removeprefix("Bearer ")
        require(token in self.tokens, "the key", "no token that was given away")
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        keys_within(body, _KEYS, "the body")
        require(isinstance(body.get("model_id"), str), SCHEMA_RULE, "model_id")
        places = [key for key in ("project_id", "space_id") if body.get(key)]
        require(len(places) == 1, "one project or space", places)
        for key in _NUMBERS:
            value = body.get(key, 0)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            require(value is None or number, SCHEMA_RULE, f"{key}: {value}")
        both = "tool_choice" in body and "tool_choice_option" in body
        require(not both, "one choice of tools", body)
        require(
            body.get("tool_choice_option") in (None, "none", "auto", "required"),
            SCHEMA_RULE,
            body.get("tool_choice_option"),
        )
        tools = body.get("tools")
        require(tools or "tool_choice_option" not in body, "a choice only of tools", body)
        for one in tools or ():
            keys_within(one, ("type", "function"), "a tool")
            keys_within(one["function"], ("name", "description", "parameters"), "a function")
        check_tools({key: body[key] for key in ("tools", "tool_choice") if key in body})
        for message in body["messages"]:
            require(message.get("role") in _ROLES, SCHEMA_RULE, message)
            keys_within(message, _ROLES[message["role"]], f"a message of {message['role']}")
            spoken = message["role"] != "tool" or isinstance(message.get("content"), str)
            require(spoken, SCHEMA_RULE, message)
        check_messages(body["messages"], longest_id=200)

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """Errors of watsonx's."""
        errors = [{"code": kind or "invalid_request", "message": message}]
        return as_json({"errors": errors, "trace": "t1", "status_code": status}, status)

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A chat reply: like OpenAI's, but for its names."""
        message: dict[str, Any] = {"role": "assistant"}
        if said.text is not None:
            message["refusal" if said.finish == "refusal" else "content"] = said.text
        if said.calls:
            message["tool_calls"] = []
        for one in said.calls:
            call_id = f"chatcmpl-tool-{next(self.ids):032x}" if one.call_id is AUTO else one.call_id
            function: dict[str, Any] = {"name": one.name}
            if one.arguments is not ABSENT:
                function["arguments"] = one.arguments
            call: dict[str, Any] = {"type": "function", "function": function}
            if call_id is not ABSENT:
                call["id"] = call_id
            message["tool_calls"].append(call)
        read, written = said.tokens
        if self.streams(heard):
            return self._streamed(self._chunks(message, said, heard))
        return as_json(
            {
                "id": f"chat-{len(self.heard)}",
                "model_id": heard.json["model_id"],
                "model": heard.json["model_id"],
                "created": 1_700_000_000,
                "created_at": "2023-11-14T22:13:20.000Z",
                "choices": [{"index": 0, "message": message, "finish_reason": finish(said)}],
                "usage": {
                    "prompt_tokens": read,
                    "completion_tokens": written,
                    "total_tokens": read + written,
                },
            }
        )

    def _chunks(self, message: dict[str, Any], said: Said, heard: Heard) -> list[dict[str, Any]]:
        """The same in parts: role, text, calls, finish, usage."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        for key in ("content", "refusal"):
            text = message.get(key)
            if text is not None:
                half = len(text) // 2
                deltas += [{key: text[:half]}, {key: text[half:]}]
        for at, (call, one) in enumerate(
            zip(message.get("tool_calls", ()), said.calls, strict=True)
        ):
            named = {"name": one.name}
            parts = [{"name": "", "arguments": part} for part in one.parts()]
            deltas.append({"tool_calls": [{"index": at, **call, "function": named}]})
            deltas += [{"tool_calls": [{"index": at, "function": part}]} for part in parts]
        whole = {
            "id": f"chat-{len(self.heard)}",
            "object": "chat.completion.chunk",
            "model_id": heard.json["model_id"],
            "created": 1_700_000_000,
        }
        chunks: list[dict[str, Any]] = [
            {**whole, "choices": [{"index": 0, "delta": one, "finish_reason": None}]}
            for one in deltas
        ]
        ending = {"index": 0, "delta": {"content": ""}, "finish_reason": finish(said)}
        chunks.append({**whole, "choices": [ending]})
        read, written = said.tokens
        usage = {"prompt_tokens": read, "completion_tokens": written}
        usage["total_tokens"] = read + written
        return [*chunks, {**whole, "choices": [], "usage": usage}]

    def _streamed(self, chunks: list[dict[str, Any]], *, failed: bool = False) -> Reply:
        named = [("message", one) for one in chunks]
        if failed:
            named.append(("error", {"errors": [{"code": "x", "message": "No."}]}))
        lines = [
            f"id: {at}\nevent: {name}\ndata: {json.dumps(one)}\n\n"
            for at, (name, one) in enumerate(named, 1)
        ]
        headers = {"content-type": "text/event-stream"}
        return Reply("".join(lines).encode(), headers=headers, streamed=True)

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No finish, or an error in its place."""
        message = {"role": "assistant", "content": failure.said.text}
        chunks = self._chunks(message, failure.said, heard)[:-2]
        return self._streamed(chunks, failed=failure.kind == "stream_error")
