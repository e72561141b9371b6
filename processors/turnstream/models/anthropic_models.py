"""Anthropic's Messages."""

import json
from typing import Any, Final

from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from turnstream.config.connectors import AnthropicSettings
from turnstream.core.ports import ReplyUnusable
from turnstream.models.provider_http import NO_KEY, provider_client
from turnstream.models.pydantic_ai_models import PydanticAITransport, Way
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import OUT_OF_FORM

_PROFILE: Final[dict[str, Any]] = {
    "json_schema_transformer": None,
    # With these, parameters are dropped and `max_tokens` lowered without a word.
    "anthropic_disallows_sampling_settings": False,
    "anthropic_max_output_tokens": None,
    # With it, a request whose reasoning is refused is made again without it, and nobody is told.
    "anthropic_binds_thinking_blocks": False,
    "may_tokenize_special_tokens_in_content": False,
}

_WORDS: Final = {"stop": "stop_sequences", "effort": "anthropic_effort"}
"""Our keys to Pydantic AI's, where they differ."""


_BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""What is asked for. Any other could be a call, and the library passes some over."""

_DATA: Final = b"data:"


def known_alone(body: bytes) -> bytes:
    """A body, whole or a stream of events, unless a block of it is not known.

    Raises:
        DeciderUnavailable: one is not.
    """
    if body.lstrip()[:1] == b"{":
        _check(body)
    else:
        for line in body.splitlines():
            if line.startswith(_DATA):
                _check(line.removeprefix(_DATA))
    return body


def _check(text: bytes) -> None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return  # the library's to judge
    if not isinstance(said, dict):
        return
    content = said.get("content")
    blocks = [*(content if isinstance(content, list) else ()), said.get("content_block")]
    for block in blocks:
        if isinstance(block, dict) and block.get("type") not in _BLOCKS:
            raise ReplyUnusable(f"{OUT_OF_FORM} (content.type)")


def anthropic_transport(settings: AnthropicSettings) -> PydanticAITransport:
    """Speak to the model of a section."""
    client = provider_client(
        settings.api_key,
        timeout_seconds=settings.timeout_seconds,
        max_reply_bytes=settings.max_reply_bytes,
        mended=known_alone,
    )
    provider = AnthropicProvider(
        base_url=settings.base_url.rstrip("/"), api_key=NO_KEY, http_client=client
    )
    given = settings.settings.model_dump(exclude_unset=True, exclude_none=True)
    budget = given.pop("thinking_budget_tokens", None)
    words = {_WORDS.get(key, key): value for key, value in given.items()}
    words |= {"max_retries": 0, "max_tokens": settings.max_tokens}
    if budget is not None:
        words["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
    profile: Any = _PROFILE
    return PydanticAITransport(
        Way(
            form="anthropic/messages",
            place=settings.base_url,
            model=AnthropicModel(settings.model, provider=provider, profile=profile),
            name=settings.model,
            settings=words,
            timeout_seconds=settings.timeout_seconds,
            stream=settings.stream,
            marks_failures=True,
            check_key=lambda: key_of(settings.api_key),
            close=client.aclose,
        )
    )
