"""Parameters of requests to agent models: the `settings` of their sections, by provider.

Values go to the provider as they are. What it is known to refuse beside something else, or what
would silently win over another key of the section, is refused when the configuration is read.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, model_validator

from turnstream.config.secrets import check_no_references
from turnstream.config.section import Section

Word = Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
"""A value that the provider names; it may know new ones before we do."""

Stops = Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]


def _check_further_keys(name: str, given: dict[str, JsonValue], taken: frozenset[str]) -> None:
    """Refuse what would silently win over a key that the section has, or go out unresolved."""
    found = sorted(taken & given.keys())
    if found:
        raise ValueError(f"{name}: {', '.join(found)} cannot be set there")
    check_no_references(given, name)


class ChatOptions(Section):
    """Parameters of Chat Completions; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    stop: Stops | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Word | None = None
    service_tier: Word | None = None


_CHAT_KEYS: Final = frozenset(
    {
        *("messages", "model", "stream", "stream_options"),
        *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
        *("max_tokens", "max_completion_tokens", "n", "response_format", "store"),
        *ChatOptions.model_fields,
    }
)
"""Keys of a request that are set here or elsewhere, or that change what a reply is."""


class CompatibleOptions(ChatOptions):
    """Parameters of Chat Completions, and those of the server's own."""

    extra_body: dict[str, JsonValue] = Field(default={})
    """Further keys of the request, `chat_template_kwargs` or `top_k` of vLLM for instance. Those
    that have a key of their own in this file, or that change what a reply is, are refused."""

    @model_validator(mode="after")
    def _extra_keys_are_not_ours(self) -> Self:
        _check_further_keys("extra_body", self.extra_body, _CHAT_KEYS)
        return self


class ResponsesOptions(Section):
    """Parameters of Responses; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Word | None = None
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: Word | None = None


class AzureOptions(ChatOptions):
    """Parameters of the API that is spoken; those of the other one are refused."""

    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class AnthropicOptions(Section):
    """Parameters of Messages; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: Stops | None = None
    parallel_tool_calls: bool | None = None
    thinking_budget_tokens: int | None = Field(default=None, ge=1)
    """Tokens for thinking, part of `max_tokens`; without, it is not switched on."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None

    @model_validator(mode="after")
    def _thinking_goes_with_the_rest(self) -> Self:
        if self.thinking_budget_tokens is None:
            return self
        if self.temperature not in (None, 1):
            raise ValueError("temperature: with thinking_budget_tokens the provider takes only 1")
        if self.top_k is not None:
            raise ValueError("top_k: the provider does not take it with thinking_budget_tokens")
        return self


class GeminiOptions(Section):
    """Parameters of generateContent; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: Stops | None = None
    thinking_budget_tokens: int | None = None
    thinking_level: Literal["minimal", "low", "medium", "high"] | None = None

    @model_validator(mode="after")
    def _thinking_is_said_once(self) -> Self:
        if self.thinking_budget_tokens is not None and self.thinking_level is not None:
            raise ValueError("thinking_budget_tokens and thinking_level exclude each other")
        return self


_CONVERSE_KEYS: Final = frozenset(
    {
        *("temperature", "top_p", "topP", "stop", "stop_sequences", "stopSequences"),
        *("max_tokens", "maxTokens", "max_tokens_to_sample", "max_gen_len"),
        *("messages", "system", "inferenceConfig", "stream"),
        *("tools", "tool_choice", "toolConfig"),
    }
)
"""What Converse or the section has a key for, in the words of Converse and of its models."""


class BedrockOptions(Section):
    """Parameters of Converse; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    stop: Stops | None = None
    additional: dict[str, JsonValue] = Field(default={})
    """The model's own parameters (`additionalModelRequestFields`): `top_k`, `thinking`. Those that
    have a key of their own in this file, or that Converse has itself, are refused."""

    @model_validator(mode="after")
    def _additional_keys_are_not_ours(self) -> Self:
        _check_further_keys("additional", self.additional, _CONVERSE_KEYS)
        return self


class WatsonxOptions(Section):
    """Parameters of text/chat; what is not given is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    stop: Stops | None = None
    reasoning_effort: Word | None = None
