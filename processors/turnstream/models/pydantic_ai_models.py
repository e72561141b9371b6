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
from pydantic import JsonValue
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
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_json

from turnstream.core.envelope import Envelope
from turnstream.core.ports import DeciderUnavailable, ReplyUnusable
from turnstream.models.provider_errors import failure_of, refuses_top_p
from turnstream.models.refusals import words_of
from turnstream.models.transport import (
    OUT_OF_FORM,
    Finish,
    KeptCall,
    ModelCall,
    ModelReply,
    Prompt,
    Replied,
    Said,
    ToolForm,
    Unreadable,
    Usage,
)

log = structlog.get_logger(__name__)

_FINISHES: Final[Mapping[str | None, Finish]] = {
    "stop": "stop",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
    "error": "malformed",
}

_TOP_P: Final = "top_p"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a model is spoken to."""

    form: str
    """See `Transport.form`."""
    place: str
    """See `Transport.place`."""
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
    def place(self) -> str:
        """Address or region."""
        return self._way.place

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
                response, requests = await self._asked(messages, parameters)
            return replace(_read(response, self._way), requests=requests)
        except DeciderUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - libraries let anything out on a bad reply
            raise failure_of(error) from None

    async def close(self) -> None:
        """Release connections."""
        if self._way.close is not None:
            await self._way.close()

    async def _asked(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[ModelResponse, int]:
        """A reply, and the requests that it took."""
        # As they are now: others may learn meanwhile that one of them is not known.
        settings = dict(self._settings)
        try:
            return await self._once(messages, parameters, settings), 1
        except ModelHTTPError as error:
            known = self._way.retries_top_p and _TOP_P in settings
            if not known or not refuses_top_p(error):
                raise
        # For the life of the process: the model will not learn the parameter. Requests that were
        # under way are made again as well, and each that is says so.
        self._settings.pop(_TOP_P, None)
        log.warning("model does not know top_p: asked without it", model=self._way.name)
        del settings[_TOP_P]
        return await self._once(messages, parameters, settings), 2

    async def _once(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        settings: Mapping[str, Any],
    ) -> ModelResponse:
        given = cast("ModelSettings", settings)
        if not self._way.stream:
            return await model_request(
                self._way.model,
                messages,
                model_settings=given,
                model_request_parameters=parameters,
            )
        async with model_request_stream(
            self._way.model,
            messages,
            model_settings=given,
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
        if isinstance(turn, Said):
            response: ModelMessage | None = ModelResponse([TextPart(turn.text)])
            results: list[ModelRequestPart] = []
        else:
            response = _restored(turn.kept)
            results = [_result(one, way) for one in turn.results]
        if response is None and isinstance(turn, Replied):
            told = to_json([one.as_json() for one in turn.results]).decode()
            parts.append(UserPromptPart(f"Runtime data, results of your calls: {told}"))
        elif response is not None:
            messages += [ModelRequest(parts), response] if parts else [response]
            parts = results
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


def _restored(kept: JsonValue) -> ModelMessage | None:
    """A reply as it was; None where it cannot be read, as one of another version of the library."""
    try:
        (message,) = ModelMessagesTypeAdapter.validate_json(to_json([kept]))
    except ValueError:
        return None
    return message


def _read(response: ModelResponse, way: Way) -> ModelReply:
    if way.stream and response.finish_reason is None:
        raise Unreadable("a stream that broke off", _usage(response))
    _check(response)
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    details = response.provider_details or {}
    ended = words_of(details.get("finish_reason"), response.finish_reason)

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
        notes={"finish": ended[0] if ended else "unknown"},
    )


def _check(response: ModelResponse) -> None:
    """Refuse texts and names that are none, and parts that are neither text, reasoning nor call.

    A library hands on whatever a stream held.
    """
    texts: dict[str, object] = {"model_name": response.model_name or ""}
    for at, part in enumerate(response.parts):
        if isinstance(part, ToolCallPart):
            texts[f"parts.{at}.tool_name"] = part.tool_name
        elif isinstance(part, TextPart | ThinkingPart):
            texts[f"parts.{at}.content"] = part.content
        else:
            # A call of a form that nobody gave the model, which nothing would be done about: the
            # text beside it may say that it was made.
            raise ReplyUnusable(f"{OUT_OF_FORM} (parts.{at})")
    for path, text in texts.items():
        if not isinstance(text, str):
            raise ReplyUnusable(f"{OUT_OF_FORM} ({path})")


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
    counts = (usage.input_tokens, usage.output_tokens)
    if usage.unmeasured_requests or not any(counts):
        return Usage()
    if not all(isinstance(one, int) for one in counts):
        # A provider's library does not look what a stream gives for a number.
        return Usage()
    try:
        cost = float(response.cost().total_price)
    except Exception:  # noqa: BLE001 - no list price; the tables of prices raise what they like
        cost = None
    return Usage(usage.input_tokens, usage.output_tokens, cost)
