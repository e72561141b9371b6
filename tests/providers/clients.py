"""The providers' own SDKs, each asked for the same conversation: what they send is what is right.

A conversation is a question, the model's calls, a result for each, and the model's answer.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import boto3
from anthropic import Anthropic
from botocore.config import Config
from google import genai
from google.genai import types
from openai import AzureOpenAI, OpenAI

from tests.providers.anthropic_messages import AnthropicServer
from tests.providers.bedrock import BedrockServer
from tests.providers.gemini import GeminiServer
from tests.providers.openai_chat import AzureChatServer, ChatServer, VllmServer
from tests.providers.openai_responses import AzureResponsesServer, ResponsesServer
from tests.providers.script import Scripted
from tests.providers.server import KEY, ProviderServer

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^A-[0-9]+$"},
        "expand": {"type": ["string", "null"]},
    },
    "required": ["order_id", "expand"],
    "additionalProperties": False,
}
TOOL: Final = "lookup_order"
DESCRIPTION: Final = "Looks an order up."
SYSTEM: Final = "You help customers of a shop."
QUESTION: Final = "Where is my order A-1?"
RESULT: Final = {"status": "shipped"}


@dataclass(frozen=True, slots=True)
class Got:
    """A reply as an SDK reads it."""

    text: str
    calls: list[tuple[str, Any]]
    """Name and arguments of each."""
    finish: str | None
    history: list[Any]
    """What the SDK would send back for the reply and a result for each of its calls."""


class Client(ABC):
    """An SDK that speaks to a server."""

    seconds: float = 5.0
    """How long it waits."""

    @abstractmethod
    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Put the question, and what has come of it so far."""


class Chat(Client):
    """OpenAI's SDK, Chat Completions."""

    def __init__(self, client: OpenAI, model: str = "gpt-4o") -> None:
        self.client = client
        self.model = model

    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Ask."""
        function = {"name": TOOL, "description": DESCRIPTION, "strict": True, "parameters": SCHEMA}
        how: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
                *history,
            ],
        }
        if tools:
            how["tools"] = [{"type": "function", "function": function}]
        if stream:
            with self.client.chat.completions.stream(**how) as events:
                choice = events.get_final_completion().choices[0]
        else:
            choice = self.client.chat.completions.create(**how).choices[0]
        sent = choice.message.model_dump(exclude_none=True, exclude={"parsed", "refusal"})
        calls = sent.get("tool_calls", [])
        for one in calls:
            one["function"].pop("parsed_arguments", None)
            one.pop("index", None)
        results = [
            {"role": "tool", "tool_call_id": one["id"], "content": json.dumps(RESULT)}
            for one in calls
        ]
        return Got(
            choice.message.content or choice.message.refusal or "",
            [(one["function"]["name"], one["function"]["arguments"]) for one in calls],
            choice.finish_reason,
            [*history, sent, *results],
        )


class Responses(Client):
    """OpenAI's SDK, Responses."""

    def __init__(self, client: OpenAI, model: str = "gpt-5") -> None:
        self.client = client
        self.model = model

    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Ask."""
        tool = {"type": "function", "name": TOOL, "description": DESCRIPTION, "strict": True}
        how: dict[str, Any] = {
            "model": self.model,
            "instructions": SYSTEM,
            "input": [{"role": "user", "content": QUESTION}, *history],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if tools:
            how["tools"] = [{**tool, "parameters": SCHEMA}]
        response = self.client.responses.create(**how)
        sent = [one.model_dump(exclude_none=True) for one in response.output]
        calls = [one for one in sent if one["type"] == "function_call"]
        results = [
            {
                "type": "function_call_output",
                "call_id": one["call_id"],
                "output": json.dumps(RESULT),
            }
            for one in calls
        ]
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return Got(
            response.output_text,
            [(one["name"], one.get("arguments")) for one in calls],
            reason or response.status,
            [*history, *sent, *results],
        )


class Messages(Client):
    """Anthropic's SDK."""

    def __init__(self, client: Anthropic) -> None:
        self.client = client

    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Ask."""
        how: dict[str, Any] = {
            "model": "claude-opus-4-8",
            "max_tokens": 4_096,
            "system": SYSTEM,
            "messages": [{"role": "user", "content": QUESTION}, *history],
        }
        if tools:
            how["tools"] = [{"name": TOOL, "description": DESCRIPTION, "input_schema": SCHEMA}]
        if stream:
            with self.client.messages.stream(**how) as events:
                message: Any = events.get_final_message()
        else:
            message = self.client.messages.create(**how)
        sent = [
            {
                key: value
                for key, value in one.model_dump(exclude_none=True).items()
                if key in ("type", "text", "thinking", "signature", "data", "id", "name", "input")
            }
            for one in message.content
        ]
        calls = [one for one in sent if one["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": json.dumps(RESULT)}
            for one in calls
        ]
        return Got(
            "".join(one.get("text", "") for one in sent),
            [(one["name"], one.get("input")) for one in calls],
            message.stop_reason,
            [
                *history,
                {"role": "assistant", "content": sent},
                {"role": "user", "content": results},
            ],
        )


class Gemini(Client):
    """Google's SDK."""

    def __init__(self, client: genai.Client) -> None:
        self.client = client

    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Ask."""
        declared = types.FunctionDeclaration(
            name=TOOL, description=DESCRIPTION, parameters_json_schema=SCHEMA
        )
        config = types.GenerateContentConfig(system_instruction=SYSTEM)
        if tools:
            config.tools = [types.Tool(function_declarations=[declared])]
        asked = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        how: dict[str, Any] = {
            "model": "gemini-3-pro-preview",
            "contents": [asked, *history],
            "config": config,
        }
        parts: list[types.Part] = []
        finish: Any = None
        models = self.client.models
        replies = (
            models.generate_content_stream(**how) if stream else [models.generate_content(**how)]
        )
        for reply in replies:
            candidate = (reply.candidates or [types.Candidate()])[0]
            parts += (candidate.content and candidate.content.parts) or []
            finish = candidate.finish_reason or finish
        parts = [one for one in parts if one.text != ""]
        calls = [one.function_call for one in parts if one.function_call]
        results = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=one.id, name=one.name, response=dict(RESULT)
                )
            )
            for one in calls
        ]
        return Got(
            "".join(one.text or "" for one in parts if not one.thought),
            [(one.name or "", one.args) for one in calls],
            finish and finish.value,
            [
                *history,
                types.Content(role="model", parts=parts),
                types.Content(role="user", parts=results),
            ],
        )


class Converse(Client):
    """Amazon's SDK."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def ask(self, history: list[Any], *, stream: bool = False, tools: bool = True) -> Got:
        """Ask."""
        spec = {"name": TOOL, "description": DESCRIPTION, "inputSchema": {"json": SCHEMA}}
        how: dict[str, Any] = {
            "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "system": [{"text": SYSTEM}],
            "messages": [{"role": "user", "content": [{"text": QUESTION}]}, *history],
        }
        if tools:
            how["toolConfig"] = {"tools": [{"toolSpec": spec}]}
        if stream:
            with closing(self.client.converse_stream(**how)["stream"]) as events:
                blocks, finish = _gathered(events)
        else:
            reply = self.client.converse(**how)
            blocks, finish = reply["output"]["message"]["content"], reply["stopReason"]
        calls = [one["toolUse"] for one in blocks if "toolUse" in one]
        results = [
            {"toolResult": {"toolUseId": one["toolUseId"], "content": [{"json": RESULT}]}}
            for one in calls
        ]
        return Got(
            "".join(one.get("text", "") for one in blocks),
            [(one["name"], one.get("input")) for one in calls],
            finish,
            [
                *history,
                {"role": "assistant", "content": blocks},
                {"role": "user", "content": results},
            ],
        )


def _gathered(events: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Blocks of a stream of Bedrock's, which its SDK leaves to its users."""
    blocks: dict[int, dict[str, Any]] = {}
    finish = None
    for event in events:
        if "messageStop" in event:
            finish = event["messageStop"]["stopReason"]
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            use = {**start["start"]["toolUse"], "input": ""}
            blocks[start["contentBlockIndex"]] = {"toolUse": use}
        if "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            block = blocks.setdefault(event["contentBlockDelta"]["contentBlockIndex"], {})
            if "text" in delta:
                block["text"] = block.get("text", "") + delta["text"]
            elif "toolUse" in delta:
                block["toolUse"]["input"] += delta["toolUse"]["input"]
            elif "redactedContent" in delta["reasoningContent"]:
                block["reasoningContent"] = delta["reasoningContent"]
            else:
                inner = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {})
                for key, text in delta["reasoningContent"].items():
                    inner[key] = inner.get(key, "") + text
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return list(blocks.values()), finish


@dataclass(frozen=True, slots=True)
class Kind:
    """A provider: its server, and how its SDK is made."""

    name: str
    server: Callable[..., ProviderServer]
    client: Callable[[str, float], Any]
    """Of the server's address and the seconds to wait."""
    speaks: Callable[[Any], Client]
    streams: bool = True

    def serving(self, *steps: Scripted) -> ProviderServer:
        """A server with a script, not yet running."""
        return self.server(*steps)

    @contextmanager
    def talking(self, server: ProviderServer, seconds: float = 5.0) -> Iterator[Client]:
        """The SDK, closed at the end."""
        client = self.client(server.url, seconds)
        try:
            yield self.speaks(client)
        finally:
            client.close()


def _openai(url: str, seconds: float) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=seconds)


def _azure(url: str, seconds: float) -> AzureOpenAI:
    return AzureOpenAI(
        azure_endpoint=url,
        api_key=KEY,
        api_version="2025-04-01-preview",
        max_retries=0,
        timeout=seconds,
    )


def _azure_v1(url: str, seconds: float) -> OpenAI:
    return OpenAI(base_url=f"{url}/openai/v1", api_key=KEY, max_retries=0, timeout=seconds)


def _anthropic(url: str, seconds: float) -> Anthropic:
    return Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=seconds)


def _gemini(url: str, seconds: float) -> genai.Client:
    options = types.HttpOptions(base_url=url, timeout=int(seconds * 1_000))
    return genai.Client(api_key=KEY, http_options=options)


def _bedrock(url: str, seconds: float) -> Any:
    session = boto3.Session(
        aws_access_key_id="AKIATESTS", aws_secret_access_key=KEY, region_name="us-east-1"
    )
    config = Config(
        read_timeout=seconds, connect_timeout=seconds, retries={"total_max_attempts": 1}
    )
    return session.client("bedrock-runtime", endpoint_url=url, config=config)


def _deployed(kind: type[Chat | Responses]) -> Callable[[Any], Client]:
    return lambda client: kind(client, "dep-1")


KINDS: Final = (
    Kind("openai", ChatServer, _openai, Chat),
    Kind("vllm", VllmServer, _openai, Chat),
    Kind("azure", AzureChatServer, _azure, _deployed(Chat)),
    Kind("azure-v1", lambda *s: AzureChatServer(*s, v1=True), _azure_v1, _deployed(Chat)),
    Kind("responses", ResponsesServer, _openai, Responses, streams=False),
    Kind("azure-responses", AzureResponsesServer, _azure, _deployed(Responses), streams=False),
    Kind(
        "azure-v1-responses",
        lambda *s: AzureResponsesServer(*s, v1=True),
        _azure_v1,
        _deployed(Responses),
        streams=False,
    ),
    Kind("anthropic", AnthropicServer, _anthropic, Messages),
    Kind("gemini", GeminiServer, _gemini, Gemini),
    Kind("gemini-ids", lambda *s: GeminiServer(*s, ids=True), _gemini, Gemini),
    Kind("bedrock", BedrockServer, _bedrock, Converse),
)
