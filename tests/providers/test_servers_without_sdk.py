"""watsonx, an API of one's own and the decisions API, asked by hand: right and wrong requests."""

import copy
import json
from typing import Any

import httpx
import pytest

from tests.providers.custom import CustomServer
from tests.providers.decisions import DecisionsServer
from tests.providers.script import Failure, FailureKind, Said, call
from tests.providers.server import KEY, ProviderServer, WrongRequest
from tests.providers.watsonx import WatsonxServer

ORDER = '{"order_id":"A-1"}'
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
FUNCTION = {"name": "lookup_order", "description": "Looks an order up.", "parameters": SCHEMA}

WATSONX: dict[str, Any] = {
    "model_id": "ibm/granite-4",
    "project_id": "p1",
    "messages": [{"role": "system", "content": "Help."}, {"role": "user", "content": "A-1?"}],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice_option": "auto",
    "max_tokens": 2_048,
    "temperature": 0.1,
}
CUSTOM: dict[str, Any] = {
    "model": "mine",
    "system": "Help.",
    "max_tokens": 2_048,
    "settings": {},
    "messages": [{"role": "user", "content": "A-1?"}],
    "tools": [{"name": "lookup_order", "description": "Looks it up.", "input_schema": SCHEMA}],
}
DECISIONS: dict[str, Any] = {
    "model": "acme/decider-1",
    "state": {"tools": [], "conversation": [{"role": "customer", "text": "A-1?"}]},
    "questions": {
        "step": {
            "type": "choice",
            "instructions": "Choose.",
            "criteria": {"answer": "It is known.", "cannot": "It is not."},
        }
    },
}


def post(server: ProviderServer, body: Any, *, key: str = KEY) -> httpx.Response:
    """Send a request as each of the three wants it."""
    match server:
        case WatsonxServer():
            grant = "urn:ibm:params:oauth:grant-type:apikey"
            exchange = {"grant_type": grant, "apikey": key}
            token = httpx.post(f"{server.url}/identity/token", data=exchange).json()
            key = token.get("access_token", "none")
            url = f"{server.url}/ml/v1/text/chat?version=2026-10-14"
        case CustomServer():
            url = f"{server.url}/reply"
        case _:
            url = f"{server.url}/api/alpha/decisions"
    return httpx.post(url, json=body, headers={"authorization": f"Bearer {key}"})


def changed(body: Any, *path: Any, **to: Any) -> Any:
    """A copy with keys set, or left out where the value is None, at a place."""
    copied = copy.deepcopy(body)
    spot = copied
    for one in path:
        spot = spot[one]
    for name, value in to.items():
        if value is None:
            del spot[name]
        else:
            spot[name] = value
    return copied


def test_a_conversation_with_watsonx() -> None:
    """A token for the key, a call, its result, and the answer."""
    with WatsonxServer(call("lookup_order", ORDER), Said(text="Shipped.")) as server:
        message = post(server, WATSONX).json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "{}"}
        messages = [*WATSONX["messages"], message, result]
        last = post(server, {**WATSONX, "messages": messages}).json()["choices"][0]

    assert ORDER == message["tool_calls"][0]["function"]["arguments"]
    assert ("Shipped.", "stop") == (last["message"]["content"], last["finish_reason"])


def test_a_conversation_with_an_api_of_ones_own() -> None:
    """A call, its result, and the answer; the state comes back."""
    with CustomServer(call("lookup_order", ORDER, reasoning="r"), Said(text="Shipped.")) as server:
        said = post(server, CUSTOM).json()
        (made,) = said["tool_calls"]
        kept = {"role": "assistant", "content": "", "tool_calls": [made], "state": said["state"]}
        told = {"toolCallId": made["id"], "name": made["name"], "ok": True, "result": {}}
        result = {"role": "tool", "tool_call_id": made["id"], "name": made["name"], "content": told}
        messages = [*CUSTOM["messages"], kept, result]
        last = post(server, {**CUSTOM, "messages": messages}).json()

    assert ORDER == made["arguments"]
    assert ("Shipped.", "stop") == (last["text"], last["finish"])


def test_a_state_that_does_not_come_back_fails_the_test() -> None:
    """What the API gave for its own use is missed."""
    server = CustomServer(call("lookup_order", ORDER, reasoning="r"), Said(text="Shipped."))
    with pytest.raises(WrongRequest) as raised, server:  # noqa: PT012 - the end of it raises
        (made,) = post(server, CUSTOM).json()["tool_calls"]
        kept = {"role": "assistant", "content": "", "tool_calls": [made], "state": None}
        post(server, {**CUSTOM, "messages": [*CUSTOM["messages"], kept]})

    assert "reasoning comes back unchanged" == raised.value.rule


def test_a_choice_of_the_decisions_api() -> None:
    """The option, and probabilities that add up to 1."""
    with DecisionsServer(Said(text="cannot")) as server:
        answer = post(server, DECISIONS).json()["answers"]["step"]

    assert "cannot" == answer["choice"]
    assert 1.0 == pytest.approx(sum(answer["probabilities"].values()))


@pytest.mark.parametrize(
    ("kind", "body"),
    [(WatsonxServer, WATSONX), (CustomServer, CUSTOM), (DecisionsServer, DECISIONS)],
)
def test_failures_have_their_status(kind: type[ProviderServer], body: Any) -> None:
    """A rate limit with its header, an error, a page, and broken JSON with status 200."""
    kinds: tuple[FailureKind, ...] = ("rate_limit", "server_error", "not_json", "bad_json")
    with kind(*(Failure(one) for one in kinds)) as server:
        replies = [post(server, body) for _ in kinds]

    assert [429, 500, 502, 200] == [one.status_code for one in replies]
    assert "2" == replies[0].headers["retry-after"]
    with pytest.raises(json.JSONDecodeError):
        replies[3].json()


WRONG = [
    (WatsonxServer, "the SDK's types", changed(WATSONX, bogus=1)),
    (WatsonxServer, "the SDK's types", changed(WATSONX, temperature="0.1")),
    (WatsonxServer, "the SDK's types", changed(WATSONX, model_id=None)),
    (WatsonxServer, "the SDK's types", changed(WATSONX, "messages", 1, role="customer")),
    (WatsonxServer, "the SDK's types", changed(WATSONX, "tools", 0, "function", strict=True)),
    (WatsonxServer, "one project or space", changed(WATSONX, space_id="s1")),
    (WatsonxServer, "a choice only of tools", changed(WATSONX, tools=None)),
    (
        WatsonxServer,
        "the last word is not the model's",
        changed(WATSONX, "messages", 1, role="assistant"),
    ),
    (CustomServer, "the SDK's types", changed(CUSTOM, bogus=1)),
    (CustomServer, "the SDK's types", changed(CUSTOM, tools=[])),
    (CustomServer, "the SDK's types", changed(CUSTOM, "messages", 0, role="customer")),
    (CustomServer, "names of tools", changed(CUSTOM, "tools", 0, name="lookup order")),
    (
        CustomServer,
        "the last word is not the model's",
        changed(CUSTOM, "messages", 0, role="assistant"),
    ),
    (DecisionsServer, "the SDK's types", changed(DECISIONS, bogus=1)),
    (DecisionsServer, "the SDK's types", changed(DECISIONS, "state", tools=None)),
    (DecisionsServer, "one question", changed(DECISIONS, questions={})),
    (
        DecisionsServer,
        "2 to 255 options",
        changed(DECISIONS, "questions", "step", criteria={"a": "b"}),
    ),
]


@pytest.mark.parametrize(("kind", "rule", "body"), WRONG)
def test_a_wrong_request_fails_by_name(kind: type[ProviderServer], rule: str, body: Any) -> None:
    """One part of a right request is changed, and the rule that it breaks is named."""
    with pytest.raises(WrongRequest) as raised, kind(Said(text="Hello.")) as server:
        assert 400 == post(server, body).status_code

    assert rule == raised.value.rule, raised.value


@pytest.mark.parametrize(
    ("kind", "body"),
    [(WatsonxServer, WATSONX), (CustomServer, CUSTOM), (DecisionsServer, DECISIONS)],
)
def test_a_wrong_key_fails_the_test(kind: type[ProviderServer], body: Any) -> None:
    """A request with another key is refused."""
    with pytest.raises(WrongRequest) as raised, kind(Said(text="Hello.")) as server:
        post(server, body, key="another")

    assert "the key" == raised.value.rule
