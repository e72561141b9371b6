"""What a provider would refuse fails the test by the name of the rule."""

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx
import pytest

from tests.providers.clients import KINDS, Kind
from tests.providers.script import Heard, Said, Step, call
from tests.providers.server import ProviderServer, WrongRequest
from turnstream.models.scripted import UnconsumedSteps, UnexpectedRequest

Change = Callable[[Any], None]

ORDER = '{"order_id":"A-1","expand":null}'


def _kind(name: str) -> Kind:
    return next(one for one in KINDS if one.name == name)


@cache
def _recorded(kind: Kind) -> tuple[ProviderServer, Heard]:
    """The second request of a conversation as the SDK sends it, and a server that knows it."""
    server = kind.serving(call("lookup_order", ORDER, reasoning="Which order?"), Said(text="Done."))
    with server, kind.talking(server) as client:
        client.ask(client.ask([]).history)
    return server, server.heard[1]


def _played(kind: Kind, change: Change) -> None:
    """Send that request again, changed, to a server that has given the same reply before."""
    before, heard = _recorded(kind)
    body = copy.deepcopy(heard.json)
    change(body)
    server = kind.serving(Said(text="Done."))
    server.given_to = dict(before.given_to)
    if hasattr(server, "given"):
        server.given = copy.deepcopy(before.given)  # type: ignore[attr-defined]
    kept = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version")
    headers = {name: text for name, text in heard.headers.items() if name in kept}
    with server:
        reply = httpx.post(
            server.url + heard.path, params=heard.query, headers=headers, content=json.dumps(body)
        )
        assert 400 == reply.status_code, reply.text


def _key(body: Any, *path: Any) -> Any:
    for one in path:
        body = body[one]
    return body


def _set(*path: Any, value: Any) -> Change:
    """Put a value in the place of another."""

    def change(body: Any) -> None:
        *rest, last = path
        _key(body, *rest)[last] = value

    return change


def _drop(*path: Any) -> Change:
    """Leave something out."""

    def change(body: Any) -> None:
        *rest, last = path
        del _key(body, *rest)[last]

    return change


def _twice(*path: Any) -> Change:
    """Say something again."""

    def change(body: Any) -> None:
        *rest, last = path
        _key(body, *rest).insert(last, copy.deepcopy(_key(body, *path)))

    return change


def _more(message: Any) -> Change:
    """Say one thing more."""

    def change(body: Any) -> None:
        body["messages"].append(message)

    return change


_CALL = ("messages", 2, "tool_calls", 0)
_FUNCTION = ("tools", 0, "function")
_SPEC = ("toolConfig", "tools", 0, "toolSpec")

CHAT: list[tuple[str, Change]] = [
    ("the SDK's types", _set("bogus", value=1)),
    ("the SDK's types", _set("top_k", value=5)),
    ("the SDK's types", _set("temperature", value="0.5")),
    ("the SDK's types", _set("messages", 0, "role", value="narrator")),
    ("the SDK's types", _set(*_CALL, "function", "arguments", value={"order_id": "A-1"})),
    ("the SDK's types", _drop("messages", 3, "tool_call_id")),
    ("the SDK's types", _set(*_FUNCTION, "parameterz", value={})),
    ("each call is answered", _drop("messages", 3)),
    ("each result has its call", _set("messages", 3, "tool_call_id", value="call_other")),
    ("each result has its call", _drop("messages", 2)),
    ("one result for each call", _twice("messages", 3)),
    ("ids of calls are unique", _twice(*_CALL)),
    (
        "arguments of earlier calls are JSON objects",
        _set(*_CALL, "function", "arguments", value='{"status":"op'),
    ),
    (
        "arguments of earlier calls are JSON objects",
        _set(*_CALL, "function", "arguments", value='{"a":NaN}'),
    ),
    (
        "arguments of earlier calls are JSON objects",
        _set(*_CALL, "function", "arguments", value="[]"),
    ),
    ("names of tools", _set(*_CALL, "function", "name", value="create_refund<|channel|>")),
    ("names of tools", _set(*_FUNCTION, "name", value="lookup order")),
    ("each tool once", _twice("tools", 0)),
    ("strict objects are closed", _drop(*_FUNCTION, "parameters", "additionalProperties")),
    (
        "strict objects require every property",
        _set(*_FUNCTION, "parameters", "required", value=["order_id"]),
    ),
    ("keywords of strict schemas", _set(*_FUNCTION, "parameters", "oneOf", value=[])),
    ("strict schemas are objects at the top", _set(*_FUNCTION, "parameters", "type", value="null")),
    ("tools are left out where there are none", _set("tools", value=[])),
    ("stream_options only where there is a stream", _set("stream_options", value={})),
    ("length of ids", _set(*_CALL, "id", value="x" * 41)),
]

RESPONSES: list[tuple[str, Change]] = [
    ("the SDK's types", _set("bogus", value=1)),
    ("the SDK's types", _set("input", 1, "type", value="nonsense")),
    ("Responses are whole, never streamed", _set("stream", value=True)),
    ("nothing is stored", _drop("store")),
    ("nothing is stored", _set("store", value=True)),
    ("nothing is stored", _set("previous_response_id", value="resp_1")),
    ("encrypted reasoning is asked for", _drop("include")),
    ("the SDK's types", _drop("tools", 0, "strict")),
    ("strict objects are closed", _drop("tools", 0, "parameters", "additionalProperties")),
    ("reasoning comes back unchanged", _drop("input", 1)),
    ("reasoning comes back unchanged", _set("input", 1, "encrypted_content", value="gAAAA")),
    ("reasoning comes back unchanged", _set("input", 2, "summary", value=[])),
    ("reasoning is followed by what it led to", _drop("input", 3)),
    ("each call is answered", _drop("input", 4)),
    ("each result has its call", _drop("input", 4, "call_id")),
    ("one result for each call", _twice("input", 4)),
    ("arguments of earlier calls are JSON objects", _set("input", 3, "arguments", value='{"a')),
]

_BLOCKS = ("messages", 1, "content")

ANTHROPIC: list[tuple[str, Change]] = [
    ("the SDK's types", _set("bogus", value=1)),
    ("the SDK's types", _drop("max_tokens")),
    ("the SDK's types", _drop(*_BLOCKS, 0, "signature")),
    ("the SDK's types", _set("messages", 0, "role", value="tool")),
    ("numbers", _set("temperature", value="0.5")),
    ("reasoning comes back unchanged", _set(*_BLOCKS, 0, "signature", value="forged")),
    ("reasoning comes back unchanged", _set(*_BLOCKS, 0, "thinking", value="Something else.")),
    ("reasoning comes back unchanged", _drop(*_BLOCKS, 1)),
    ("each call is answered", _set("messages", 2, "content", value="No result.")),
    ("each result has its call", _set("messages", 2, "content", 0, "tool_use_id", value="toolu_x")),
    ("ids of calls are unique", _twice(*_BLOCKS, 2)),
    ("characters of ids", _set(*_BLOCKS, 2, "id", value="call|1")),
    ("names of tools", _set(*_BLOCKS, 2, "name", value="lookup order")),
    ("calls only where there are tools", _drop("tools")),
    ("schemas are objects at the top", _set("tools", 0, "input_schema", "anyOf", value=[])),
    ("content is not empty", _set("messages", 0, "content", value=" ")),
    ("the last word is not the model's", _more({"role": "assistant", "content": "I"})),
    ("room for thinking", _set("thinking", value={"type": "enabled", "budget_tokens": 9_000})),
]

GEMINI: list[tuple[str, Change]] = [
    ("the SDK's types", _set("bogus", value=1)),
    ("the SDK's types", _set("generationConfig", value={"bogus": 1})),
    ("the SDK's types", _set("contents", 0, "parts", 0, "bogus", value=1)),
    (
        "the SDK's types",
        _set("toolConfig", value={"functionCallingConfig": {"mode": "SOMETIMES"}}),
    ),
    ("roles", _set("contents", 1, "role", value="assistant")),
    ("reasoning comes back unchanged", _drop("contents", 1, "parts", 1, "thoughtSignature")),
    (
        "reasoning comes back unchanged",
        _set("contents", 1, "parts", 1, "thoughtSignature", value="Zm9yZ2Vk"),
    ),
    ("each call is answered", _drop("contents", 2)),
    (
        "results are in the order of calls",
        _set("contents", 2, "parts", 0, "functionResponse", "name", value="other"),
    ),
    ("content is not empty", _set("contents", 0, "parts", value=[])),
    ("names of tools", _set("tools", 0, "functionDeclarations", 0, "name", value="lookup order")),
]

BEDROCK: list[tuple[str, Change]] = [
    ("the SDK's types", _set("bogus", value=1)),
    ("the SDK's types", _set("messages", 1, "role", value="model")),
    ("the SDK's types", _set("inferenceConfig", value={"temperature": "0.5"})),
    ("characters of ids", _set(*_BLOCKS, 2, "toolUse", "toolUseId", value="a b")),
    ("names of tools", _set(*_SPEC, "name", value="lookup.order")),
    (
        "reasoning comes back unchanged",
        _set(*_BLOCKS, 0, "reasoningContent", "reasoningText", "signature", value="forged"),
    ),
    ("reasoning comes back unchanged", _drop(*_BLOCKS, 1)),
    ("each call is answered", _set("messages", 2, "content", value=[{"text": "No result."}])),
    ("ids of calls are unique", _twice(*_BLOCKS, 2)),
    ("arguments are objects", _set(*_BLOCKS, 2, "toolUse", "input", value="{}")),
    ("calls only where there are tools", _drop("toolConfig")),
    ("content is not empty", _set("messages", 0, "content", 0, "text", value=" ")),
    ("roles alternate", _twice("messages", 0)),
]

WRONG = [
    pytest.param(name, rule, change, id=f"{name}-{at}-{rule}")
    for name, changes in (
        ("openai", CHAT),
        ("responses", RESPONSES),
        ("anthropic", ANTHROPIC),
        ("gemini", GEMINI),
        ("bedrock", BEDROCK),
    )
    for at, (rule, change) in enumerate(changes)
]


KEYED = [one for one in KINDS if one.name != "bedrock"]
"""Bedrock's requests are signed, and the signature is not computed again."""


@pytest.mark.parametrize(("name", "rule", "change"), WRONG)
def test_a_wrong_request_fails_by_name(name: str, rule: str, change: Change) -> None:
    """One part of a right request is changed, and the rule that it breaks is named."""
    with pytest.raises(WrongRequest) as raised:
        _played(_kind(name), change)

    assert rule == raised.value.rule, raised.value


FIRST_WORDS = {
    "openai": ("messages", 1, "content"),
    "responses": ("input", 0, "content"),
    "anthropic": ("messages", 0, "content"),
    "gemini": ("contents", 0, "parts", 0, "text"),
    "bedrock": ("messages", 0, "content", 0, "text"),
}
DESCRIPTIONS = {
    "openai": ("tools", 0, "function", "description"),
    "responses": ("tools", 0, "description"),
    "anthropic": ("tools", 0, "description"),
    "gemini": ("tools", 0, "functionDeclarations", 0, "description"),
    "bedrock": ("toolConfig", "tools", 0, "toolSpec", "description"),
}


@pytest.mark.parametrize("name", FIRST_WORDS)
def test_reply_behind_something_else_fails_by_name(name: str) -> None:
    """What stood before a reply may not change: neither a turn nor a tool."""
    for place, rule in ((FIRST_WORDS, "its turns"), (DESCRIPTIONS, "instructions, tools")):
        with pytest.raises(WrongRequest) as raised:
            _played(_kind(name), _set(*place[name], value="Something else."))

        assert f"what is before a reply stays: {rule}" == raised.value.rule, raised.value


@pytest.mark.parametrize("kind", KEYED, ids=lambda kind: kind.name)
def test_a_wrong_key_fails_the_test(kind: Kind) -> None:
    """A request with another key is refused, even where the client swallows the error."""
    server = kind.serving(Said(text="Hello."))
    server.key = "another"
    with pytest.raises(WrongRequest) as raised, server, kind.talking(server) as client:
        client.ask([])

    assert "the key" == raised.value.rule


def test_a_wrong_path_fails_the_test() -> None:
    """A deployment or a version that is not there is named."""
    kind = _kind("azure")
    server = kind.serving(Said(text="Hello."))
    server.deployment = "another"  # type: ignore[attr-defined]
    with pytest.raises(WrongRequest) as raised, server, kind.talking(server) as client:
        client.ask([])

    assert "the path" == raised.value.rule


def test_a_request_beyond_the_script_fails_the_test() -> None:
    """A retry that nobody expects is no silent success."""
    kind = _kind("openai")
    script = Said(text="Hello.")
    with (  # noqa: PT012 - the end of the block raises
        pytest.raises(UnexpectedRequest),
        kind.serving(script) as server,
        kind.talking(server) as client,
    ):
        client.ask([])
        client.ask([])


def test_a_request_that_its_step_does_not_expect_fails_the_test() -> None:
    """A step may say what must hold for its request."""
    kind = _kind("openai")
    step = Step(Said(text="Hello."), expects=lambda heard: "temperature" in heard.json)
    with (
        pytest.raises(UnexpectedRequest),
        kind.serving(step) as server,
        kind.talking(server) as client,
    ):
        client.ask([])


def test_a_step_that_was_never_asked_for_fails_the_test() -> None:
    """A test cannot pass because nothing happened."""
    with pytest.raises(UnconsumedSteps), _kind("openai").serving(Said(text="Hello.")):
        pass
