"""Every adapter with its provider's server: what a conversation needs to run through it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import httpx
from pydantic import TypeAdapter

from tests.agents import TOOLS, agent_rules
from tests.driving import Driver
from tests.providers.anthropic_messages import AnthropicServer
from tests.providers.bedrock import BedrockServer
from tests.providers.custom import PATH, CustomServer
from tests.providers.gemini import GeminiServer
from tests.providers.openai_chat import AzureChatServer, ChatServer, VllmServer
from tests.providers.openai_responses import AzureResponsesServer, ResponsesServer
from tests.providers.script import Scripted
from tests.providers.server import ProviderServer
from tests.providers.watsonx import WatsonxServer
from turnstream.config.connectors import ConnectorSettings, WatsonxSettings
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.ruleset import Ruleset
from turnstream.models.agent_model import AgentModel
from turnstream.models.connectors import agent_model, wire_of

KEY_VARIABLE: Final = "TESTS_PROVIDER_KEY"

SETTINGS: Final[TypeAdapter[ConnectorSettings]] = TypeAdapter(ConnectorSettings)

AMOUNT: Final = {"type": "number", "minimum": 0.01, "maximum": 100}
REFUND: Final[dict[str, Any]] = deepcopy(TOOLS["create_refund"])
REFUND["input_schema"]["properties"]["amount"] = AMOUNT

RULES: Final = agent_rules(thresholds={}, tools={**TOOLS, "create_refund": REFUND})
"""A model's replies have no probability, so nothing demands one here; and no tool has a keyword
that one of the providers does not know."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter of ours, and the server that it speaks to."""

    name: str
    server: Callable[..., ProviderServer]
    section: Callable[[str], dict[str, Any]]
    """The configuration for the server's address."""
    streams: bool = True
    native: bool = True
    objects: bool = False
    """Whether the provider sends arguments as objects."""

    def settings(self, url: str, **changes: Any) -> ConnectorSettings:
        """The section of a decider."""
        given = {"api_key": f"env:{KEY_VARIABLE}", "timeout_seconds": 5, **self.section(url)}
        if given["kind"] == "bedrock":
            del given["api_key"]
        return SETTINGS.validate_python({**given, **changes})


ADAPTERS: Final = (
    Adapter(
        "openai_chat",
        ChatServer,
        lambda url: {"kind": "openai_chat", "model": "gpt-4o", "base_url": f"{url}/v1"},
    ),
    Adapter(
        "openai_responses",
        ResponsesServer,
        lambda url: {"kind": "openai_responses", "model": "gpt-5", "base_url": f"{url}/v1"},
        streams=False,
    ),
    Adapter(
        "azure_openai",
        AzureChatServer,
        lambda url: {
            "kind": "azure_openai",
            "model": "dep-1",
            "base_url": url,
            "api_version": "2025-04-01-preview",
        },
    ),
    Adapter(
        "azure_openai v1",
        lambda *steps: AzureChatServer(*steps, v1=True),
        lambda url: {"kind": "azure_openai", "model": "dep-1", "base_url": f"{url}/openai/v1"},
    ),
    Adapter(
        "azure_openai responses",
        AzureResponsesServer,
        lambda url: {
            "kind": "azure_openai",
            "api": "responses",
            "model": "dep-1",
            "base_url": url,
            "api_version": "2025-04-01-preview",
        },
        streams=False,
    ),
    Adapter(
        "vllm",
        VllmServer,
        lambda url: {"kind": "vllm", "model": "Qwen/Qwen3-32B", "base_url": f"{url}/v1"},
    ),
    Adapter(
        "openai_compatible",
        ChatServer,
        lambda url: {
            "kind": "openai_compatible",
            "model": "gpt-4o",
            "base_url": f"{url}/v1",
            "native_tools": True,
        },
    ),
    Adapter(
        "anthropic",
        AnthropicServer,
        lambda url: {"kind": "anthropic", "model": "claude-opus-4-8", "base_url": url},
        objects=True,
    ),
    Adapter(
        "gemini",
        GeminiServer,
        lambda url: {"kind": "gemini", "model": "gemini-3-pro-preview", "base_url": url},
        objects=True,
    ),
    Adapter(
        "bedrock",
        BedrockServer,
        lambda url: {
            "kind": "bedrock",
            "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "base_url": url,
            "region": "us-east-1",
            "access_key_id": f"env:{KEY_VARIABLE}",
            "secret_access_key": f"env:{KEY_VARIABLE}",
            "native_tools": True,
        },
        objects=True,
    ),
    Adapter(
        "custom",
        CustomServer,
        lambda url: {
            "kind": "custom",
            "model": "mine",
            "base_url": f"{url}{PATH}",
            "native_tools": True,
        },
    ),
    Adapter(
        "watsonx",
        WatsonxServer,
        # The library takes no other URL; what it sends is led to the server.
        lambda _: {
            "kind": "watsonx",
            "model": "ibm/granite-4-h-small",
            "base_url": "https://eu-de.ml.cloud.ibm.com",
            "project_id": "p-1",
            "native_tools": True,
        },
    ),
)
"""All of them."""


class _Led(httpx.BaseTransport):
    """Leads every request to a server of ours."""

    def __init__(self, url: str) -> None:
        self._url = httpx.URL(url)
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = self._url.join(request.url.raw_path.decode())
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def _made(settings: ConnectorSettings, url: str, rules: Ruleset) -> AgentModel:
    if not isinstance(settings, WatsonxSettings):
        return agent_model(settings, catalog=rules.catalog, decision_version="d1")
    from turnstream.models.watsonx_models import Bounded, WatsonxTransport

    def clients() -> tuple[httpx.Client, httpx.AsyncClient]:
        bounded = Bounded(_Led(url), settings.max_reply_bytes)
        return httpx.Client(transport=bounded, timeout=settings.timeout_seconds), (
            httpx.AsyncClient()
        )

    return AgentModel(
        WatsonxTransport(settings, clients=clients),
        catalog=rules.catalog,
        decision_version="d1",
        wire=wire_of(settings),
        native_tools=settings.native_tools,
    )


@dataclass
class Talk:
    """A conversation that a model behind a server decides."""

    server: ProviderServer
    model: AgentModel
    driver: Driver
    run: Callable[[Any], Any]

    def propose(self, request: DecisionRequest) -> Proposal:
        """One proposal."""
        proposal: Proposal = self.run(self.model.propose(request))
        return proposal


@contextmanager
def talking(
    adapter: Adapter, *steps: Scripted, rules: Ruleset = RULES, **changes: Any
) -> Iterator[Talk]:
    """A server with a script, its adapter, and a conversation between the two.

    The environment must hold the key; see `provider_key`.
    """
    loop = asyncio.new_event_loop()
    try:
        with adapter.server(*steps) as server:
            settings = adapter.settings(server.url, **changes)
            model = _made(settings, server.url, rules)
            talk = Talk(server, model, Driver(rules), loop.run_until_complete)
            talk.driver.decide = talk.propose
            try:
                yield talk
            finally:
                loop.run_until_complete(model.close())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
