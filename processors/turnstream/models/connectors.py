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
    settings: ConnectorSettings, *, catalog: Catalog, decision_version: str, name: str = ""
) -> AgentModel:
    """Make the decider of a section; nothing is connected to.

    Args:
        settings: the section.
        catalog: the loaded catalog.
        decision_version: its content hash.
        name: the section's name, by which agents say whose it is.

    Raises:
        DefinitionError: the provider's library is not installed, a tool cannot be shown to the
            model without loss, the provider has no such region, or a parameter of native tools is
            given where there are none.
    """
    _check_parameters(settings, catalog, name)
    return AgentModel(
        transport_of(settings),
        catalog=catalog,
        decision_version=decision_version,
        wire=wire_of(settings),
        native_tools=settings.native_tools,
        may_fall_back=settings.kind in FALLING_BACK,
        price=settings.price,
    )


def _check_parameters(settings: ConnectorSettings, catalog: Catalog, name: str) -> None:
    """Refuse parameters of native tools that no agent of a decider would have sent."""
    mine = [agent for agent in catalog.agents.values() if agent.decider == name]
    said = [agent.extra.native_tools for agent in mine or catalog.agents.values()]
    if any(settings.native_tools if one is None else one for one in said):
        return
    given = [key for key in ("strict_tools",) if key in settings.model_fields_set]
    if getattr(settings.settings, "parallel_tool_calls", None) is not None:
        given.append("settings.parallel_tool_calls")
    if given:
        raise DefinitionError(
            f"{', '.join(given)}: is about native tools, and no agent of this decider has any; "
            "take it out, or say native_tools: true"
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
