"""Sections of agent models: what they demand, what they refuse, what is made of them."""

import builtins
import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

from tests.agents import agent_rules
from turnstream.config.connectors import ConnectorSettings
from turnstream.core.errors import DefinitionError
from turnstream.models.connectors import agent_model, transport_of, wire_of
from turnstream.models.pydantic_ai_models import PydanticAITransport
from turnstream.models.transport import Wire

SETTINGS: TypeAdapter[ConnectorSettings] = TypeAdapter(ConnectorSettings)

KEY = {"api_key": "env:NO_SUCH_KEY", "model": "m"}
URL = {"base_url": "http://127.0.0.1:9/v1"}

SECTIONS: dict[str, dict[str, Any]] = {
    "openai_chat": {"kind": "openai_chat", **KEY},
    "openai_responses": {"kind": "openai_responses", **KEY},
    "azure_openai": {"kind": "azure_openai", **KEY, **URL},
    "vllm": {"kind": "vllm", **KEY, **URL},
    "openai_compatible": {"kind": "openai_compatible", **KEY, **URL, "native_tools": True},
    "anthropic": {"kind": "anthropic", **KEY},
    "gemini": {"kind": "gemini", **KEY},
    "bedrock": {"kind": "bedrock", "model": "m", "region": "eu-west-1", "native_tools": True},
    "watsonx": {
        "kind": "watsonx",
        **KEY,
        "base_url": "https://eu-de.ml.cloud.ibm.com",
        "project_id": "p",
        "native_tools": True,
    },
    "custom": {"kind": "custom", **KEY, **URL},
}

CHAT = (
    *("max_tokens", "max_completion_tokens", "n", "functions", "function_call", "store"),
    *("response_format", "stream_options", "temperature", "tools"),
)
CONVERSE = ("temperature", "topP", "max_tokens", "tools", "toolConfig", "inferenceConfig")
"""Keys that further parameters must not have: the section or the request has them already."""


def section(kind: str, **changes: Any) -> ConnectorSettings:
    """A section, with keys changed; None takes one out."""
    given = {**SECTIONS[kind], **changes}
    return SETTINGS.validate_python({key: one for key, one in given.items() if one is not None})


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        ("openai_chat", True),
        ("openai_responses", True),
        ("azure_openai", True),
        ("vllm", True),
        ("anthropic", True),
        ("gemini", True),
        ("custom", False),
    ],
)
def test_native_tools_has_the_documented_default(kind: str, native: bool) -> None:
    """Azure OpenAI and vLLM are native by default, an API of one's own is not."""
    assert native is section(kind).native_tools


@pytest.mark.parametrize("kind", ["openai_compatible", "bedrock", "watsonx"])
def test_native_tools_must_be_said_where_nobody_can_know(kind: str) -> None:
    """Which models take tools there is the deployment's to know."""
    with pytest.raises(ValidationError, match="native_tools"):
        section(kind, native_tools=None)


@pytest.mark.parametrize("kind", SECTIONS)
@pytest.mark.parametrize("value", ["true", 1, "yes", {}])
def test_native_tools_is_a_boolean(kind: str, value: object) -> None:
    """Anything else is an error."""
    with pytest.raises(ValidationError, match="native_tools"):
        section(kind, native_tools=value)


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        ("openai_chat", {"top_k": 3}, "top_k"),
        ("openai_responses", {"seed": 1}, "seed"),
        ("openai_responses", {"stop": ["x"]}, "stop"),
        ("anthropic", {"seed": 1}, "seed"),
        ("anthropic", {"reasoning_effort": "low"}, "reasoning_effort"),
        ("gemini", {"logit_bias": {"1": 2}}, "logit_bias"),
        ("bedrock", {"seed": 1}, "seed"),
        ("watsonx", {"top_k": 1}, "top_k"),
        ("vllm", {"extra_body": {"messages": []}}, "messages"),
        ("azure_openai", {"verbosity": "low"}, "verbosity is no parameter of api: chat"),
        *(("vllm", {"extra_body": {key: 2}}, f"{key} cannot be set there") for key in CHAT),
        ("openai_compatible", {"extra_body": {"n": 2, "store": True}}, "n, store cannot"),
        *(("bedrock", {"additional": {key: 2}}, f"{key} cannot be set there") for key in CONVERSE),
        ("custom", {"auth": {"tokens": ["env:MY_TOKEN"]}}, "auth.tokens.0: a reference is sent"),
        ("vllm", {"extra_body": {"a": {"b": "file:key"}}}, "extra_body.a.b: a reference is sent"),
        ("bedrock", {"additional": {"key": "env:KEY"}}, "additional.key: a reference is sent"),
    ],
)
def test_parameter_without_an_equivalent_is_an_error(
    kind: str, settings: dict[str, Any], problem: str
) -> None:
    """It would else be dropped on the way, and nobody would know."""
    with pytest.raises(ValidationError, match=problem):
        section(kind, settings=settings)


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    [
        ("azure_openai", {"base_url": "http://127.0.0.1:9"}, "api_version"),
        ("azure_openai", {"api_version": "2025-01-01"}, "api_version"),
        ("azure_openai", {"api": "responses", "stream": True}, "read whole"),
        ("azure_openai", {"api": "responses", "settings": {"seed": 1}}, "seed is no parameter"),
        ("bedrock", {"access_key_id": "env:A"}, "both or none"),
        ("bedrock", {"session_token": "env:A"}, "belongs to"),
        ("bedrock", {"region": "somewhere"}, "region"),
        ("watsonx", {"space_id": "s"}, "project_id or space_id"),
        ("openai_chat", {"api_key": "sk-1234567890"}, "reference"),
        ("openai_chat", {"base_url": "http://me:pw@host/v1"}, "base_url"),
        *(
            ("vllm", {"base_url": f"http://{place}/v1"}, "the name of a host")
            for place in ("model:80a", "model:99999", "model:0", ":80", "model..internal", "[::1")
        ),
        ("vllm", {"base_url": f"http://{'x' * 64}.internal/v1"}, "the name of a host"),
        ("openai_responses", {"stream": True}, "stream"),
        (
            "anthropic",
            {"max_tokens": 1024, "settings": {"thinking_budget_tokens": 1024}},
            "thinking_budget_tokens must be below max_tokens",
        ),
        (
            "anthropic",
            {"settings": {"thinking_budget_tokens": 1024, "temperature": 0.2}},
            "temperature",
        ),
        ("anthropic", {"settings": {"thinking_budget_tokens": 1024, "top_k": 3}}, "top_k"),
        (
            "gemini",
            {"settings": {"thinking_budget_tokens": 1024, "thinking_level": "low"}},
            "exclude each other",
        ),
        ("gemini", {"timeout_seconds": True}, "a number, got a boolean"),
        ("vllm", {"max_tokens": True}, "a number, got a boolean"),
        ("openai_chat", {"settings": {"temperature": True}}, "a number, got a boolean"),
        ("openai_chat", {"settings": {"logit_bias": {"5": True}}}, "a number, got a boolean"),
    ],
)
def test_what_does_not_fit_together_is_an_error(
    kind: str, changes: dict[str, Any], problem: str
) -> None:
    """A section says what it means, or the configuration is refused."""
    with pytest.raises(ValidationError, match=problem):
        section(kind, **changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("vllm", {"settings": {"extra_body": {"top_k": 3, "chat_template_kwargs": {"a": True}}}}),
        ("bedrock", {"settings": {"additional": {"top_k": 3, "thinking": {"type": "enabled"}}}}),
        ("anthropic", {"settings": {"thinking_budget_tokens": 1024, "temperature": 1}}),
        ("anthropic", {"max_tokens": 1025, "settings": {"thinking_budget_tokens": 1024}}),
        ("anthropic", {"settings": {"temperature": 0.2, "top_k": 3}}),
        ("gemini", {"settings": {"thinking_level": "low"}}),
        ("gemini", {"timeout_seconds": "30"}),
    ],
)
def test_what_fits_together_is_taken(kind: str, changes: dict[str, Any]) -> None:
    """A key that is the model's own, a limit that is kept, a number as a variable holds it."""
    assert kind == section(kind, **changes).kind


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        ("openai_chat", Wire("openai", strict=True)),
        ("openai_responses", Wire("openai-responses", strict=True)),
        ("azure_openai", Wire("openai", strict=True)),
        ("vllm", Wire("openai")),
        ("openai_compatible", Wire("openai")),
        ("anthropic", Wire("anthropic")),
        ("gemini", Wire("gemini")),
        ("bedrock", Wire("anthropic")),
        ("watsonx", Wire("openai")),
        ("custom", Wire("openai")),
    ],
)
def test_every_kind_has_a_wire(kind: str, wire: Wire) -> None:
    """Tools are written in the provider's words."""
    assert wire == wire_of(section(kind))


def test_azure_with_responses_has_the_wire_of_responses() -> None:
    """The API is the section's to choose, nothing else's."""
    assert Wire("openai-responses", strict=True) == wire_of(
        section("azure_openai", api="responses")
    )


OPTIONS: dict[str, tuple[str, type[Any], dict[str, str]]] = {
    "openai_chat": ("ChatOptions", OpenAIChatModel, {"stop": "stop_sequences"}),
    "openai_responses": ("ResponsesOptions", OpenAIResponsesModel, {}),
    "anthropic": ("AnthropicOptions", AnthropicModel, {"stop": "stop_sequences"}),
    "gemini": ("GeminiOptions", GoogleModel, {"stop": "stop_sequences"}),
    "bedrock": ("BedrockOptions", BedrockConverseModel, {"stop": "stop_sequences"}),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_no_parameter_is_one_that_the_library_ignores(kind: str) -> None:
    """What it would drop without a word is no key of the section."""
    _, model, words = OPTIONS[kind]
    settings = section(kind).settings
    names = {words.get(name, name) for name in type(settings).model_fields}  # type: ignore[union-attr]

    assert set() == names & set(model.unsupported_settings)


@pytest.mark.parametrize("kind", SECTIONS)
async def test_making_one_connects_to_nothing(kind: str) -> None:
    """A section becomes a decider without a request, and without its key."""
    made = agent_model(section(kind), catalog=_sayable(), decision_version="d1")
    await made.close()

    assert re.fullmatch(r"agent-2:[a-z_]+/[a-z_]+:m@d1", made.name)


def _sayable() -> Any:
    rules = agent_rules(thresholds={})
    tools = {name: one for name, one in rules.catalog.tools.items() if name != "create_refund"}
    return rules.catalog.model_copy(update={"tools": tools})


def test_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed one is told how."""
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name == "turnstream.models.openai_models":
            raise ModuleNotFoundError(name="openai")
        return real(name, *args)

    monkeypatch.setattr("importlib.import_module", without)

    with pytest.raises(DefinitionError, match=r"turnstream\[openai\]"):
        transport_of(section("openai_chat"))


def test_region_that_bedrock_has_not_is_an_error() -> None:
    """It is found out when the role starts, not by the first customer."""
    with pytest.raises(DefinitionError, match="eu-nowhere-7"):
        transport_of(section("bedrock", region="eu-nowhere-7"))


def test_watsonx_is_reached_over_https() -> None:
    """Its library refuses anything else, in the middle of a turn."""
    with pytest.raises(DefinitionError, match="https"):
        transport_of(section("watsonx", base_url="http://127.0.0.1:9"))


async def test_settings_reach_the_library_in_its_words() -> None:
    """Every parameter that was given goes out, and no retry of the library's own."""
    made = transport_of(
        section("openai_chat", settings={"top_p": 0.5, "stop": ["x"], "reasoning_effort": "low"})
    )
    await made.close()

    assert isinstance(made, PydanticAITransport)
    assert {
        "top_p": 0.5,
        "stop_sequences": ("x",),
        "openai_reasoning_effort": "low",
        "max_retries": 0,
        "max_tokens": 2048,
    } == made._settings


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        ("openai_chat", {"strict_tools": True}, "strict_tools:"),
        ("vllm", {"strict_tools": False}, "strict_tools:"),
        ("anthropic", {"settings": {"parallel_tool_calls": False}}, "settings.parallel_tool_calls"),
        (
            "openai_responses",
            {"strict_tools": True, "settings": {"parallel_tool_calls": True}},
            "strict_tools, settings.parallel_tool_calls:",
        ),
    ],
)
def test_parameters_of_native_tools_need_some(kind: str, given: dict[str, Any], named: str) -> None:
    """Where every agent is asked in ReAct they would be dropped without a word."""

    def made(native: bool | None, *, name: str = "m") -> None:
        extra = {} if native is None else {"native_tools": native}
        agents = {
            "shop": {"description": "S.", "decider": "m", "extra": extra},
            "desk": {"description": "D.", "decider": "other", "extra": {"native_tools": True}},
        }
        agent_model(
            section(kind, native_tools=False, **given),
            catalog=agent_rules(thresholds={}, agents=agents).catalog,
            decision_version="d1",
            name=name,
        )

    with pytest.raises(DefinitionError, match=re.escape(named)):
        made(None)
    made(True)
    made(None, name="a shadow's, which decides for all agents")


@pytest.mark.parametrize(
    "place", ["model", "model:8000", "[::1]:80", "10.0.0.1", "m\u00fcnchen.de"]
)
def test_place_of_a_server(place: str) -> None:
    """A name, as people write it, or an address."""
    url = f"http://{place}/v1"

    assert url == section("vllm", base_url=url).base_url
