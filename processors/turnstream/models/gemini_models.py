"""Google's Gemini API.

Its library gives a whole reply up when the arguments of one call are no object, sound calls beside
it included. So such arguments are put into one before it sees them, and taken out again for the
gates, which tell the model what was wrong.
"""

import json
from typing import Any, Final

from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from turnstream.config.connectors import GeminiSettings
from turnstream.models.provider_http import NO_KEY, provider_client
from turnstream.models.pydantic_ai_models import PydanticAITransport, Way
from turnstream.models.secrets_of_models import key_of

_PROFILE: Final[dict[str, Any]] = {
    "json_schema_transformer": None,
    "may_tokenize_special_tokens_in_content": False,
}


_AS_IT_CAME: Final = "turnstream:as-it-came"
"""The one property of an object that stands for arguments that were none."""

_DATA: Final = b"data:"


def mended(body: bytes) -> bytes:
    """A body, whole or a stream of events, in which all arguments are objects."""
    if body.lstrip()[:5] != _DATA:
        return _mended_document(body)
    return b"\n".join(_mended_line(line) for line in body.split(b"\n"))


def _mended_line(line: bytes) -> bytes:
    if not line.startswith(_DATA):
        return line
    text = line.removeprefix(_DATA)
    document = _mended_document(text)
    return line if document is text else _DATA + b" " + document


def _mended_document(text: bytes) -> bytes:
    try:
        document = json.loads(text)
        calls = [
            part["functionCall"]
            for candidate in document["candidates"]
            for part in candidate["content"]["parts"]
            if "functionCall" in part
        ]
        broken = [
            call
            for call in calls
            if call.get("args") is not None and not isinstance(call["args"], dict)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text  # no reply with calls: the library's to judge
    if not broken:
        return text
    for call in broken:
        given = call["args"]
        call["args"] = {_AS_IT_CAME: given if isinstance(given, str) else json.dumps(given)}
    return json.dumps(document).encode()


def as_it_came(arguments: Any) -> Any:
    """Arguments as the provider sent them."""
    if isinstance(arguments, dict) and arguments.keys() == {_AS_IT_CAME}:
        return arguments[_AS_IT_CAME]
    return arguments


def gemini_transport(settings: GeminiSettings) -> PydanticAITransport:
    """Speak to the model of a section."""
    client = provider_client(
        settings.api_key,
        timeout_seconds=settings.timeout_seconds,
        max_reply_bytes=settings.max_reply_bytes,
        mended=mended,
    )
    provider = GoogleProvider(
        api_key=NO_KEY, base_url=settings.base_url.rstrip("/"), http_client=client
    )
    given = settings.settings.model_dump(exclude_unset=True, exclude_none=True)
    if "stop" in given:
        given["stop_sequences"] = given.pop("stop")
    thinking: dict[str, Any] = {}
    if "thinking_budget_tokens" in given:
        thinking["thinking_budget"] = given.pop("thinking_budget_tokens")
    if "thinking_level" in given:
        thinking["thinking_level"] = given.pop("thinking_level").upper()
    if thinking:
        given["google_thinking_config"] = thinking
    profile: Any = _PROFILE
    return PydanticAITransport(
        Way(
            form="gemini/generate_content",
            place=settings.base_url,
            model=GoogleModel(settings.model, provider=provider, profile=profile),
            name=settings.model,
            settings={**given, "max_tokens": settings.max_tokens},
            timeout_seconds=settings.timeout_seconds,
            stream=settings.stream,
            objects=True,
            arguments=as_it_came,
            check_key=lambda: key_of(settings.api_key),
            close=client.aclose,
        )
    )
