"""From a section of the configuration to an agent model: which provider's adapter, lazily imported.

Every provider's library is an extra of its own; whoever does not use one need not have it.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from turnstream.config.connectors import (
    AzureOpenAISettings,
    ConnectorSettings,
    OpenAIChatSettings,
    OpenAICompatibleSettings,
    OpenAIResponsesSettings,
    VllmSettings,
)
from turnstream.core.definitions import Catalog
from turnstream.core.errors import DefinitionError
from turnstream.models.agent_model import AgentModel
from turnstream.models.transport import Transport, Wire

AGENT_MODELS: Final = get_args(ConnectorSettings)
"""The classes of all sections that make an agent model."""

FALLING_BACK: Final = frozenset({"vllm", "custom"})
"""Kinds whose servers may refuse tools for how they were started, which no section can know."""


@dataclass(frozen=True, slots=True)
class _Adapter:
    module: str
    factory: str
    extra: str


_OPENAI: Final = _Adapter("openai_models", "openai_transport", "openai")
_ADAPTERS: Final[Mapping[str, _Adapter]] = {
    "openai_chat": _OPENAI,
    "openai_responses": _OPENAI,
    "azure_openai": _OPENAI,
    "vllm": _OPENAI,
    "openai_compatible": _OPENAI,
    "anthropic": _Adapter("anthropic_models", "anthropic_transport", "anthropic"),
    "gemini": _Adapter("gemini_models", "gemini_transport", "gemini"),
    "bedrock": _Adapter("bedrock_models", "bedrock_transport", "bedrock"),
    "watsonx": _Adapter("watsonx_models", "watsonx_transport", "watsonx"),
    "custom": _Adapter("custom_http", "custom_transport", ""),
}


def wire_of(settings: ConnectorSettings) -> Wire:
    """How the tools of a section's provider are written.

    Only agents with native tools need it; the others' tools are text.
    """
    match settings:
        case OpenAIResponsesSettings():
            return Wire("openai-responses", strict=settings.strict_tools)
        case AzureOpenAISettings() if settings.api == "responses":
            return Wire("openai-responses", strict=settings.strict_tools)
        case (
            OpenAIChatSettings()
            | AzureOpenAISettings()
            | VllmSettings()
            | OpenAICompatibleSettings()
        ):
            return Wire("openai", strict=settings.strict_tools)
    match settings.kind:
        case "gemini":
            return Wire("gemini")
        case "anthropic" | "bedrock":
            return Wire("anthropic")
    return Wire("openai")


def agent_model(
    settings: ConnectorSettings, *, catalog: Catalog, decision_version: str
) -> AgentModel:
    """Make the decider of a section; nothing is connected to.

    Raises:
        DefinitionError: the provider's library is not installed, a tool cannot be shown to the
            model without loss, or the provider has no such region.
    """
    return AgentModel(
        transport_of(settings),
        catalog=catalog,
        decision_version=decision_version,
        wire=wire_of(settings),
        native_tools=settings.native_tools,
        may_fall_back=settings.kind in FALLING_BACK,
        price=settings.price,
    )


def transport_of(settings: ConnectorSettings) -> Transport:
    """Speak to the model of a section.

    Raises:
        DefinitionError: the provider's library is not installed, or has no such region.
    """
    adapter = _ADAPTERS[settings.kind]
    try:
        module = importlib.import_module(f"turnstream.models.{adapter.module}")
    except ImportError as error:
        raise DefinitionError(
            f"kind {settings.kind!r} needs a library that is not installed ({error.name}): "
            f"pip install 'turnstream[{adapter.extra}]'"
        ) from error
    factory: Callable[[Any], Transport] = getattr(module, adapter.factory)
    return factory(settings)
