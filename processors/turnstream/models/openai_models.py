"""OpenAI, Azure OpenAI, vLLM and compatible servers.

Every call of a section goes to one API: `openai_responses` and `azure_openai` with `api: responses`
to Responses, all others to Chat Completions. Nothing about a model or a request changes that.

Responses are read whole and stored nowhere (`store: false`); output items, encrypted reasoning
among them, are kept with the conversation and sent back.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import httpx2
from openai.types import chat, responses
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
    OpenAIStreamedResponse,
)
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.vllm import VLLMProvider

from turnstream.config.connectors import (
    AzureOpenAISettings,
    OpenAIChatSettings,
    OpenAICompatibleSettings,
    OpenAIResponsesSettings,
    VllmSettings,
)
from turnstream.core.ports import ReplyUnusable
from turnstream.models.provider_http import NO_KEY, provider_client
from turnstream.models.pydantic_ai_models import PydanticAITransport, Way
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import OUT_OF_FORM

OpenAISettings = (
    OpenAIChatSettings
    | OpenAIResponsesSettings
    | AzureOpenAISettings
    | VllmSettings
    | OpenAICompatibleSettings
)

_WORDS: Final = {
    "stop": "stop_sequences",
    "reasoning_effort": "openai_reasoning_effort",
    "reasoning_summary": "openai_reasoning_summary",
    "verbosity": "openai_text_verbosity",
    "service_tier": "openai_service_tier",
}
"""Our keys to Pydantic AI's, where they differ."""

_PROFILE: Final[dict[str, Any]] = {
    # Schemas are in OpenAI's words already; a second conversion loses keywords.
    "json_schema_transformer": None,
    # With it, parameters that a reasoning model does not take are dropped without a word.
    "openai_supports_reasoning": False,
    "openai_chat_streaming_requires_finish_reason": True,
    # Text goes out as it was written. OpenAI's own models read no control tokens in it.
    "may_tokenize_special_tokens_in_content": False,
    # The library tells reasoning from text by these, in streams otherwise than in whole replies. No
    # text has them, so all of it comes to our own rule (`reasoning_text`).
    "thinking_tags": ("<turnstream:no-reasoning>", "</turnstream:no-reasoning>"),
}
_RESPONSES_PROFILE: Final[dict[str, Any]] = {
    **_PROFILE,
    "openai_supports_encrypted_reasoning_content": True,
    "openai_supports_phase": True,
}
_VLLM_PROFILE: Final[dict[str, Any]] = {
    **_PROFILE,
    # An open model's chat template would take a customer's "<|im_start|>" for its own.
    "may_tokenize_special_tokens_in_content": True,
}


_KNOWN_ITEMS: Final = frozenset({"message", "reasoning", "function_call"})
"""Output items that are asked for; any other could be a call, and the library drops some."""


class _ChatModel(OpenAIChatModel):
    """Lets a malformed call through to the gates, which tell it from the sound ones beside it."""

    def _validate_completion(self, response: chat.ChatCompletion) -> Any:
        choices: Any = response.choices or ()
        _check(choices, [getattr(choice, "message", None) for choice in choices])
        for choice in choices:
            for call in choice.message.tool_calls or ():
                function: Any = getattr(call, "function", None)
                if function is None:
                    continue
                given = getattr(function, "arguments", None)
                if not isinstance(given, str):
                    function.arguments = "" if given is None else json.dumps(given)
                if call.id is None:
                    call.id = ""
        return super()._validate_completion(response)

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _ChatStream


class _ChatStream(OpenAIStreamedResponse):
    """Refuses a chunk of which the library would read a part alone."""

    async def _validate_response(self) -> AsyncIterator[chat.ChatCompletionChunk]:
        async for chunk in super()._validate_response():
            choices: Any = chunk.choices or ()
            _check(choices, [getattr(choice, "delta", None) for choice in choices])
            yield chunk


class _ResponsesModel(OpenAIResponsesModel):
    """Refuses an output item that the library would pass over."""

    def _process_response(
        self,
        response: responses.Response,
        model_settings: OpenAIResponsesModelSettings,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        for at, item in enumerate(response.output or ()):
            if item.type not in _KNOWN_ITEMS:
                raise ReplyUnusable(f"{OUT_OF_FORM} (output.{at}.type)")
        return super()._process_response(response, model_settings, model_request_parameters)


def _check(choices: Sequence[Any], messages: Sequence[Any]) -> None:
    """Refuse several choices, which a stream would mix, and calls in another form than ours."""
    if len(choices) > 1 or any(getattr(one, "index", 0) not in (0, None) for one in choices):
        raise ReplyUnusable(f"{OUT_OF_FORM} (choices)")
    for message in messages:
        if getattr(message, "function_call", None):
            raise ReplyUnusable(f"{OUT_OF_FORM} (function_call)")
        for call in getattr(message, "tool_calls", None) or ():
            if getattr(call, "type", None) not in ("function", "", None):
                raise ReplyUnusable(f"{OUT_OF_FORM} (tool_calls.type)")


def openai_transport(settings: OpenAISettings) -> PydanticAITransport:
    """Speak to the model of a section."""
    client = provider_client(
        settings.api_key,
        timeout_seconds=settings.timeout_seconds,
        max_reply_bytes=settings.max_reply_bytes,
    )
    given = settings.settings.model_dump(exclude_unset=True, exclude_none=True)
    words = {_WORDS.get(key, key): value for key, value in given.items()}
    words |= {"max_retries": 0, "max_tokens": settings.max_tokens}
    responses = _speaks_responses(settings)
    if responses:
        words["openai_store"] = False
    wire = "responses" if responses else "chat"
    return PydanticAITransport(
        Way(
            form=f"{settings.kind}/{wire}",
            place=settings.base_url,
            model=_model(settings, client, responses=responses),
            name=settings.model,
            settings=words,
            timeout_seconds=settings.timeout_seconds,
            stream=getattr(settings, "stream", False),
            retries_top_p=settings.kind in ("openai_chat", "openai_responses", "azure_openai"),
            check_key=lambda: key_of(settings.api_key),
            close=client.aclose,
        )
    )


def _speaks_responses(settings: OpenAISettings) -> bool:
    if isinstance(settings, AzureOpenAISettings):
        return settings.api == "responses"
    return isinstance(settings, OpenAIResponsesSettings)


def _model(
    settings: OpenAISettings, client: httpx2.AsyncClient, *, responses: bool
) -> OpenAIChatModel | OpenAIResponsesModel:
    url = settings.base_url.rstrip("/")
    profile: Any = _RESPONSES_PROFILE if responses else _PROFILE
    provider: OpenAIProvider | AzureProvider | VLLMProvider | OpenAICompatibleProvider
    match settings:
        case AzureOpenAISettings():
            provider = AzureProvider(
                azure_endpoint=url,
                api_version=settings.api_version,
                api_key=NO_KEY,
                http_client=client,
            )
        case VllmSettings():
            provider = VLLMProvider(base_url=url, api_key=NO_KEY, http_client=client)
            profile = _VLLM_PROFILE
        case OpenAICompatibleSettings():
            provider = OpenAICompatibleProvider(
                "openai_compatible", base_url=url, api_key=NO_KEY, http_client=client
            )
        case _:
            provider = OpenAIProvider(base_url=url, api_key=NO_KEY, http_client=client)
    if responses:
        return _ResponsesModel(settings.model, provider=provider, profile=profile)
    return _ChatModel(settings.model, provider=provider, profile=profile)
