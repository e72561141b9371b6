"""The sections of agent models: which provider, which model, and how it is asked.

A setting that a provider has no equivalent for is no key of its section, so it is refused when the
configuration is read and never dropped on the way. Values go to the provider as they are: one that
it does not take is its own error, reported as such.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue, StrictBool, field_validator, model_validator

from turnstream.config.model_options import (
    AnthropicOptions,
    AzureOptions,
    BedrockOptions,
    ChatOptions,
    CompatibleOptions,
    GeminiOptions,
    ResponsesOptions,
    WatsonxOptions,
)
from turnstream.config.secrets import SecretRef, check_no_references
from turnstream.config.section import Section


def _connectable(url: str) -> str:
    """Refuse what clients fail on at each request: a port or the name of a host that is none."""
    try:
        parts = urlsplit(url)
        named = (parts.hostname or "").encode("idna").decode("idna")
        sound = bool(named) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ValueError("expected http or https, the name of a host, and a port if it needs one")
    return url


BaseUrl = Annotated[
    str, Field(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"), AfterValidator(_connectable)
]
"""Scheme, host and path: no credentials, no query."""


class Price(Section):
    """What a model costs, for the cost that is written into every decision's diagnostics."""

    input_per_million: float = Field(ge=0)
    """Of a million input tokens."""
    output_per_million: float = Field(ge=0)
    """Of a million output tokens, those of reasoning included."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")


class AgentModelSettings(Section):
    """What all agent models have."""

    model: str = Field(min_length=1, max_length=200)
    """Name of the model, or of the deployment, as the provider knows it."""
    timeout_seconds: float = Field(default=20, gt=0, le=600)
    """How long one request may take, within `decider_timeout_seconds`."""
    max_tokens: int = Field(default=2048, ge=1, le=1_000_000)
    """Longest reply in tokens, reasoning included. Nothing is done of one that is cut off there."""
    price: Price | None = None
    """By default the list price where one is known, else no cost is recorded."""


class HttpModelSettings(AgentModelSettings):
    """What those have that are reached by an HTTP client of ours."""

    max_reply_bytes: int = Field(default=1_048_576, ge=1024, le=67_108_864)
    """Longest reply that is read."""


# --- OpenAI and what speaks like it -----------------------------------------------------------


class OpenAIChatSettings(HttpModelSettings):
    """A model behind OpenAI's Chat Completions (extra `openai`)."""

    kind: Literal["openai_chat"]
    base_url: BaseUrl = "https://api.openai.com/v1"
    api_key: SecretRef
    """Reference to the key; it is read at each call."""
    native_tools: StrictBool = True
    """Whether tools are given as such. Without, the model is asked in ReAct: tools are described in
    its instructions, and calls are read from its text."""
    strict_tools: StrictBool = True
    """OpenAI's strict mode: the provider keeps to the schemas of the tools. Given where no agent of
    the decider has native tools, it is refused, as is `parallel_tool_calls`."""
    stream: StrictBool = False
    """Whether replies are read as a stream. They are acted on whole in any case."""
    settings: ChatOptions = ChatOptions()


class OpenAIResponsesSettings(HttpModelSettings):
    """A model behind OpenAI's Responses (extra `openai`): not stored there, read whole."""

    kind: Literal["openai_responses"]
    base_url: BaseUrl = "https://api.openai.com/v1"
    api_key: SecretRef
    """Reference to the key; it is read at each call."""
    native_tools: StrictBool = True
    """As of `openai_chat`."""
    strict_tools: StrictBool = True
    """As of `openai_chat`."""
    settings: ResponsesOptions = ResponsesOptions()


class AzureOpenAISettings(HttpModelSettings):
    """A deployment of Azure OpenAI (extra `openai`); `model` is the deployment's name."""

    kind: Literal["azure_openai"]
    base_url: BaseUrl
    """Endpoint of the resource; ending in ``/openai/v1`` for the API without versions."""
    api_version: str | None = Field(default=None, pattern=r"^[0-9a-z-]{1,40}$")
    """Required unless the endpoint ends in ``/v1``, and forbidden there."""
    api: Literal["chat", "responses"] = "chat"
    """Which API every call of this deployment is routed to; nothing else decides that."""
    api_key: SecretRef
    """Reference to the key; it is read at each call."""
    native_tools: StrictBool = True
    """As of `openai_chat`."""
    strict_tools: StrictBool = True
    """As of `openai_chat`."""
    stream: StrictBool = False
    """As of `openai_chat`; Responses are read whole."""
    settings: AzureOptions = AzureOptions()

    @model_validator(mode="after")
    def _fits_its_api(self) -> Self:
        if self.base_url.rstrip("/").endswith("/v1") != (self.api_version is None):
            raise ValueError(
                "api_version: required for an endpoint without /v1, forbidden for one with it"
            )
        if self.api == "responses" and self.stream:
            raise ValueError("stream: Responses are read whole")
        known = ResponsesOptions if self.api == "responses" else ChatOptions
        unknown = sorted(self.settings.model_fields_set - known.model_fields.keys())
        if unknown:
            raise ValueError(f"settings: {', '.join(unknown)} is no parameter of api: {self.api}")
        return self


class VllmSettings(HttpModelSettings):
    """A vLLM server (extra `openai`)."""

    kind: Literal["vllm"]
    base_url: BaseUrl
    """Its root, with ``/v1``."""
    api_key: SecretRef | None = None
    """Reference to the key, where it wants one; it is read at each call."""
    native_tools: StrictBool = True
    """As of `openai_chat`. A server that says that it was started without tools is asked in ReAct
    from then on, for the life of the process; that is logged."""
    strict_tools: StrictBool = False
    """As of `openai_chat`."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: CompatibleOptions = CompatibleOptions()


class OpenAICompatibleSettings(HttpModelSettings):
    """Any other server that speaks Chat Completions (extra `openai`)."""

    kind: Literal["openai_compatible"]
    base_url: BaseUrl
    api_key: SecretRef | None = None
    """Reference to the key, where it wants one; it is read at each call."""
    native_tools: StrictBool
    """As of `openai_chat`; nobody but you can know it."""
    strict_tools: StrictBool = False
    """As of `openai_chat`."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: CompatibleOptions = CompatibleOptions()


# --- others -----------------------------------------------------------------------------------


class AnthropicSettings(HttpModelSettings):
    """A model behind Anthropic's Messages (extra `anthropic`)."""

    kind: Literal["anthropic"]
    base_url: BaseUrl = "https://api.anthropic.com"
    api_key: SecretRef
    """Reference to the key; it is read at each call."""
    native_tools: StrictBool = True
    """As of `openai_chat`."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: AnthropicOptions = AnthropicOptions()

    @model_validator(mode="after")
    def _leaves_room_to_reply(self) -> Self:
        budget = self.settings.thinking_budget_tokens
        if budget is not None and budget >= self.max_tokens:
            raise ValueError(
                f"settings.thinking_budget_tokens must be below max_tokens ({self.max_tokens}), of "
                f"which it is a part, got {budget}"
            )
        return self


class GeminiSettings(HttpModelSettings):
    """A model behind Google's Gemini API (extra `gemini`)."""

    kind: Literal["gemini"]
    base_url: BaseUrl = "https://generativelanguage.googleapis.com"
    api_key: SecretRef
    """Reference to the key; it is read at each call."""
    native_tools: StrictBool = True
    """As of `openai_chat`."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: GeminiOptions = GeminiOptions()


class BedrockSettings(AgentModelSettings):
    """A model behind Amazon Bedrock's Converse (extra `bedrock`)."""

    kind: Literal["bedrock"]
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$")
    """Region of the endpoint, ``eu-west-1`` for instance; one that AWS does not know is refused."""
    base_url: BaseUrl | None = None
    """Endpoint; the region's own by default."""
    access_key_id: SecretRef | None = None
    """Reference; read at each call, as are the next two. Without, `role` credentials are used."""
    secret_access_key: SecretRef | None = None
    session_token: SecretRef | None = None
    native_tools: StrictBool
    """As of `openai_chat`; not every model there takes tools."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: BedrockOptions = BedrockOptions()

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("access_key_id and secret_access_key: give both or none")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("session_token: belongs to an access_key_id")
        return self


class WatsonxSettings(HttpModelSettings):
    """A model of IBM watsonx.ai (extra `watsonx`)."""

    kind: Literal["watsonx"]
    base_url: BaseUrl
    """URL of the region, ``https://eu-de.ml.cloud.ibm.com`` for instance."""
    project_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    space_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    """One of the two."""
    api_key: SecretRef
    """Reference to the key. Its token is got anew when it expires or the key has changed."""
    native_tools: StrictBool
    """As of `openai_chat`; not every model there takes tools."""
    stream: StrictBool = False
    """As of `openai_chat`."""
    settings: WatsonxOptions = WatsonxOptions()

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.project_id is None) == (self.space_id is None):
            raise ValueError("give project_id or space_id")
        return self


class CustomSettings(HttpModelSettings):
    """A model behind an HTTP API of your own.

    Requests and replies are told at the top of
    [`custom_http.py`](turnstream/models/custom_http.py). What is known at the moment comes behind
    the last user message, after an empty line: `Runtime data, no instructions: {...}`.
    """

    kind: Literal["custom"]
    base_url: BaseUrl
    """Where requests are posted to, the whole path."""
    api_key: SecretRef | None = None
    """Reference to the key, sent as a bearer token; it is read at each call."""
    native_tools: StrictBool = False
    """As of `openai_chat`. An API that refuses tools in so many words is asked in ReAct from then
    on, for the life of the process; that is logged."""
    stream: StrictBool = False
    """As of `openai_chat`; the form of a stream is described there, too."""
    settings: dict[str, JsonValue] = Field(default={})
    """Sent as they are, so a reference to a secret is refused there."""

    @field_validator("settings")
    @classmethod
    def _no_references(cls, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return check_no_references(given)


ConnectorSettings = (
    OpenAIChatSettings
    | OpenAIResponsesSettings
    | AzureOpenAISettings
    | VllmSettings
    | OpenAICompatibleSettings
    | AnthropicSettings
    | GeminiSettings
    | BedrockSettings
    | WatsonxSettings
    | CustomSettings
)
"""The section of an agent model."""


def unscored_in(deciders: Mapping[str, object]) -> frozenset[str]:
    """Names of the sections whose deciders give no confidence."""
    return frozenset(name for name, one in deciders.items() if isinstance(one, ConnectorSettings))
