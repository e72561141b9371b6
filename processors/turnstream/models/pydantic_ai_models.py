"""Agent models by way of Pydantic AI: one request, one reply, no loop of its own.

Only the layer that speaks a provider's wire is used (`pydantic_ai.direct`). What it would do beyond
that is switched off or checked: it rewrites no schema (ours are in the provider's words already),
retries nothing, drops no parameter, and what it raises becomes one of our errors. A reply is kept
as it stores it, so reasoning goes back with its signature or encryption untouched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import structlog
from pydantic import JsonValue, ValidationError
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_json

from turnstream.core.envelope import Envelope
from turnstream.models.provider_errors import failure_of, refuses_top_p
from turnstream.models.transport import (
    Finish,
    KeptCall,
    ModelCall,
    ModelReply,
    Prompt,
    Replied,
    Said,
    ToolForm,
    Usage,
    unavailable,
)

log = structlog.get_logger(__name__)

_FINISHES: Final[Mapping[str | None, Finish]] = {
    "stop": "stop",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
    "error": "malformed",
}

_FINISH_CHARACTERS: Final = 60
"""Longest word of a provider's own for how a reply ended; it stands in diagnostics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a model is spoken to."""

    form: str
    """See `Transport.form`."""
    model: Model[Any]
    name: str
    """The configured name of the model."""
    settings: Mapping[str, Any]
    """In the words of Pydantic AI."""
    timeout_seconds: float
    stream: bool = False
    retries_top_p: bool = False
    """Whether a request is made again without `top_p` where that is not known."""
    marks_failures: bool = False
    """Whether a result can be marked as a failure beside its text."""
    objects: bool = False
    """Whether results are objects, not texts."""
    arguments: Callable[[Any], Any] = lambda given: given
    """Takes a call's arguments as they came out of what the library reads."""
    check_key: Callable[[], object] | None = None
    """Raises DeciderRefused before a request whose key cannot be read."""
    close: Callable[[], Awaitable[None]] | None = None


class PydanticAITransport:
    """Speaks to one model."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._settings = dict(way.settings)

    @property
    def form(self) -> str:
        """Provider and wire."""
        return self._way.form

    @property
    def model(self) -> str:
        """The configured name."""
        return self._way.name

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once; see `Transport.reply`."""
        if self._way.check_key is not None:
            self._way.check_key()
        messages = _messages(prompt, self._way)
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=one.name,
                    description=one.description,
                    parameters_json_schema=dict(one.parameters),
                    strict=one.strict,
                )
                for one in tools
            ]
        )
        try:
            async with asyncio.timeout(self._way.timeout_seconds):
                response = await self._asked(messages, parameters)
        except Exception as error:  # noqa: BLE001 - libraries let anything out on a bad reply
            raise failure_of(error) from None
        return _read(response, self._way)

    async def close(self) -> None:
        """Release connections."""
        if self._way.close is not None:
            await self._way.close()

    async def _asked(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> ModelResponse:
        try:
            return await self._once(messages, parameters)
        except ModelHTTPError as error:
            known = self._way.retries_top_p and "top_p" in self._settings
            if not known or not refuses_top_p(error):
                raise
        # For the life of the process: the model will not learn the parameter.
        log.warning("model does not know top_p: asked without it", model=self._way.name)
        self._settings.pop("top_p", None)
        return await self._once(messages, parameters)

    async def _once(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> ModelResponse:
        settings = cast("ModelSettings", dict(self._settings))
        if not self._way.stream:
            return await model_request(
                self._way.model,
                messages,
                model_settings=settings,
                model_request_parameters=parameters,
            )
        async with model_request_stream(
            self._way.model,
            messages,
            model_settings=settings,
            model_request_parameters=parameters,
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()


def _messages(prompt: Prompt, way: Way) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    parts: list[ModelRequestPart] = [SystemPromptPart(prompt.system)]
    for turn in prompt.turns:
        if isinstance(turn, Said) and turn.role == "user":
            parts.append(UserPromptPart(turn.text))
            continue
        if parts:
            messages.append(ModelRequest(parts))
            parts = []
        if isinstance(turn, Replied):
            messages.append(_restored(turn.kept))
            parts += [_result(one, way) for one in turn.results]
        else:
            messages.append(ModelResponse([TextPart(turn.text)]))
    if parts:
        messages.append(ModelRequest(parts))
    return messages


def _result(envelope: Envelope, way: Way) -> ToolReturnPart:
    told = envelope.as_json()
    failed = way.marks_failures and envelope.error is not None
    return ToolReturnPart(
        tool_name=envelope.name,
        content=told if way.objects else to_json(told).decode(),
        tool_call_id=envelope.call_id,
        outcome="failed" if failed else "success",
    )


def _restored(kept: JsonValue) -> ModelMessage:
    try:
        (message,) = ModelMessagesTypeAdapter.validate_json(to_json([kept]))
    except (ValidationError, ValueError):
        # Of another version of the library, say. The model is asked as if it had said nothing.
        return ModelResponse([TextPart("...")])
    return message


def _read(response: ModelResponse, way: Way) -> ModelReply:
    if way.stream and response.finish_reason is None:
        raise unavailable("a stream that broke off")
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    details = response.provider_details or {}
    ended = str(details.get("finish_reason") or response.finish_reason)[:_FINISH_CHARACTERS]

    def keep(kept: Sequence[KeptCall], text: str | None) -> JsonValue:
        return _kept(response, kept, text)

    return ModelReply(
        text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
        calls=tuple(
            ModelCall(
                _own_id(one.tool_call_id),
                one.tool_name,
                way.arguments(one.args),
            )
            for one in calls
        ),
        finish=_FINISHES.get(response.finish_reason, "unknown"),
        keep=keep,
        model=response.model_name or "",
        usage=_usage(response),
        notes={"finish": ended if ended.isprintable() else "unknown"},
    )


def _own_id(call_id: object) -> str | None:
    """The provider's id of a call; one that the library made up stands for none."""
    given = isinstance(call_id, str) and not call_id.startswith("pyd_ai_")
    return str(call_id) if given else None


def _kept(response: ModelResponse, calls: Sequence[KeptCall], text: str | None) -> JsonValue:
    waiting = list(calls)
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            if waiting:
                call = waiting.pop(0)
                arguments: Any = call.arguments
                changes: Any = {"tool_name": call.tool, "tool_call_id": call.call_id}
                parts.append(replace(part, args=arguments, **changes))
        elif isinstance(part, TextPart) and text is not None:
            if text:
                parts.append(replace(part, content=text))
            text = ""
        else:
            parts.append(part)
    kept = replace(response, parts=parts)
    (written,) = ModelMessagesTypeAdapter.dump_python([kept], mode="json")
    return cast("JsonValue", {key: value for key, value in written.items() if key != "usage"})


def _usage(response: ModelResponse) -> Usage:
    usage = response.usage
    if usage.unmeasured_requests or not (usage.input_tokens or usage.output_tokens):
        return Usage()
    try:
        cost = float(response.cost().total_price)
    except Exception:  # noqa: BLE001 - no list price; the tables of prices raise what they like
        cost = None
    return Usage(usage.input_tokens, usage.output_tokens, cost)
