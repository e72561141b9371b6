r"""A model behind an HTTP API of your own.

A request is posted as JSON to the section's `base_url`, with the key as a bearer token::

    {"model": "mine", "system": "...", "max_tokens": 2048, "settings": {},
     "messages": [
       {"role": "user", "content": "Where is my order?"},
       {"role": "assistant", "content": "", "state": null,
        "tool_calls": [{"id": "c1", "name": "get_order", "arguments": {"order_id": "A-1"}}]},
       {"role": "tool", "tool_call_id": "c1", "name": "get_order",
        "content": {"toolCallId": "c1", "name": "get_order", "ok": true, "result": {}}}],
     "tools": [{"name": "get_order", "description": "...", "input_schema": {}}]}

`tools` is there only with `native_tools`, ``"stream": true`` only with `stream`. The reply, status
200::

    {"text": "It was shipped.", "tool_calls": [], "finish": "stop", "model": "mine-2",
     "usage": {"input_tokens": 12, "output_tokens": 5}, "state": null}

`finish` is `stop`, `tool_calls`, `length` or `refused`; with `tool_calls` there must be one. A call
has `id`, `name` and `arguments`, which is an object or JSON text, and nothing else; null is a call
without arguments. Nor has the reply anything else: `state` is whatever you like, sent back
unchanged with it. Only `finish` and one of `text` and `tool_calls` are required. An error has
another status and ``{"error": {"code": ...}}``; the code `tools_not_supported` says that the model
takes no tools. 408, 425, 429 and 5xx pass, and `Retry-After` is kept to.

A streamed reply is of `text/event-stream`, and the data of each event is JSON: a piece of the text,
a piece of a call, or the end, which has what a whole reply has beside them::

    data: {"text": "It was "}
    data: {"tool_call": {"index": 0, "id": "c1", "name": "get_order", "arguments": "{\"order"}}
    data: {"tool_call": {"index": 0, "arguments": "_id\":\"A-1\"}"}}
    data: {"finish": "tool_calls", "model": "mine-2", "usage": {}, "state": null}

Each is followed by an empty line. A stream without an end, or with ``{"error": {}}``, passes for
broken. An event of another form, `tool_calls` in one, and anything behind the end spoil the reply:
they might be calls, and are never passed over.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from turnstream.config.connectors import CustomSettings
from turnstream.core.ports import DeciderRefused, ReplyUnusable
from turnstream.models.custom_stream import BrokenStream, OutOfForm, put_together, read_json
from turnstream.models.refusals import PASSING, REDIRECTS, TAKES_NO_TOOLS, problem
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import (
    OUT_OF_FORM,
    Finish,
    KeptCall,
    ModelCall,
    ModelReply,
    Prompt,
    Replied,
    ToolForm,
    ToolsRefused,
    Usage,
    out_of_form,
    unavailable,
)
from turnstream.plain_http import plain_client, read_up_to, retry_after, why_broken

_STREAM: Final = "text/event-stream"

TOOLS_NOT_SUPPORTED: Final = "tools_not_supported"


class _Call(BaseModel):
    # A name that is not known may be that of its arguments, without which it is another call.
    model_config = ConfigDict(strict=True, extra="forbid")

    id: str | None = None
    name: str
    arguments: Any = None


class _Tokens(BaseModel):
    input_tokens: int | None = Field(default=None, ge=0, le=2**53)
    output_tokens: int | None = Field(default=None, ge=0, le=2**53)


class _Reply(BaseModel):
    # A name that is not known may be that of calls; what is the API's own belongs in `state`.
    model_config = ConfigDict(strict=True, extra="forbid")

    text: str | None = None
    tool_calls: list[_Call] = []
    finish: Literal["stop", "tool_calls", "length", "refused"]
    model: str = ""
    usage: _Tokens = _Tokens()
    state: JsonValue = None


class _Error(BaseModel):
    code: str = ""


class _Failure(BaseModel):
    error: _Error = _Error()


class CustomTransport:
    """Speaks to one API."""

    def __init__(self, settings: CustomSettings) -> None:
        self._settings = settings
        self._client = plain_client()

    @property
    def form(self) -> str:
        """Provider and wire."""
        return "custom/http"

    @property
    def place(self) -> str:
        """Address or region."""
        return self._settings.base_url

    @property
    def model(self) -> str:
        """The configured name."""
        return self._settings.model

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once; see `Transport.reply`."""
        body = to_json(self._request(prompt, tools))
        headers = self._headers()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                response, content = await self._exchange(body, headers)
        except (TimeoutError, httpx.TimeoutException):
            raise TimeoutError("no reply in time") from None
        except httpx.HTTPError as error:
            raise unavailable(f"the connection broke ({why_broken(error)})") from None
        if response.status_code != httpx.codes.OK:
            raise _failure(response, content or b"")
        if content is None:
            raise ReplyUnusable("a reply that is too long, or compressed")
        try:
            if not self._settings.stream:
                return _read(_Reply.model_validate(read_json(content)))
            if not response.headers.get("content-type", "").startswith(_STREAM):
                raise ReplyUnusable("a reply that is no stream")
            return _read(_Reply.model_validate(put_together(content)))
        except BrokenStream as error:
            raise unavailable(f"a stream that broke off ({error})") from None
        except OutOfForm as error:
            raise ReplyUnusable(f"{OUT_OF_FORM} ({error})") from None
        except ValidationError as error:
            raise out_of_form(error) from None

    async def close(self) -> None:
        """Release connections."""
        await self._client.aclose()

    def _request(self, prompt: Prompt, tools: Sequence[ToolForm]) -> dict[str, JsonValue]:
        request: dict[str, JsonValue] = {
            "model": self._settings.model,
            "system": prompt.system,
            "max_tokens": self._settings.max_tokens,
            "settings": dict(self._settings.settings),
            "messages": _messages(prompt),
        }
        if self._settings.stream:
            request["stream"] = True
        if tools:
            request["tools"] = [
                {
                    "name": one.name,
                    "description": one.description,
                    "input_schema": dict(one.parameters),
                }
                for one in tools
            ]
        return request

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": _STREAM if self._settings.stream else "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        key = key_of(self._settings.api_key)
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return headers

    async def _exchange(
        self, body: bytes, headers: dict[str, str]
    ) -> tuple[httpx.Response, bytes | None]:
        timeout = self._settings.timeout_seconds
        async with self._client.stream(
            "POST", self._settings.base_url, headers=headers, content=body, timeout=timeout
        ) as response:
            return response, await read_up_to(response, self._settings.max_reply_bytes)


def custom_transport(settings: CustomSettings) -> CustomTransport:
    """Speak to the model of a section."""
    return CustomTransport(settings)


def _messages(prompt: Prompt) -> list[JsonValue]:
    messages: list[JsonValue] = []
    for turn in prompt.turns:
        if not isinstance(turn, Replied):
            messages.append({"role": turn.role, "content": turn.text})
            continue
        messages.append(turn.kept)
        messages += [
            {
                "role": "tool",
                "tool_call_id": one.call_id,
                "name": one.name,
                "content": one.as_json(),
            }
            for one in turn.results
        ]
    return messages


def _read(reply: _Reply) -> ModelReply:
    finish: Finish = reply.finish

    def keep(calls: Sequence[KeptCall], text: str | None) -> JsonValue:
        kept: list[JsonValue] = [
            {
                "id": one.call_id,
                "name": one.tool,
                "arguments": one.arguments
                if isinstance(one.arguments, str)
                else dict(one.arguments),
            }
            for one in calls
        ]
        said = (reply.text or "") if text is None else text
        return {"role": "assistant", "content": said, "tool_calls": kept, "state": reply.state}

    return ModelReply(
        text=reply.text or "",
        calls=tuple(ModelCall(one.id, one.name, one.arguments) for one in reply.tool_calls),
        finish=finish,
        keep=keep,
        model=reply.model,
        usage=Usage(reply.usage.input_tokens, reply.usage.output_tokens),
        notes={"finish": reply.finish},
    )


def _failure(response: httpx.Response, content: bytes) -> Exception:
    status = response.status_code
    if status in PASSING or response.is_server_error:
        return unavailable(f"status {status}", retry_after_seconds=retry_after(response.headers))
    if response.is_redirect:
        return DeciderRefused(REDIRECTS)
    try:
        code = _Failure.model_validate_json(content).error.code
    except ValidationError:
        code = ""
    if code == TOOLS_NOT_SUPPORTED:
        return ToolsRefused(problem(status, code, what=TAKES_NO_TOOLS))
    return DeciderRefused(problem(status, code))
