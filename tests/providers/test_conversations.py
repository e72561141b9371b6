"""The servers against the providers' own SDKs: what those send is right, and understood."""

import json
from typing import Any

import pytest

from tests.providers.clients import KINDS, Client, Kind
from tests.providers.script import ABSENT, Failure, Said, SaidCall, call

WAYS = [
    pytest.param(kind, stream, id=f"{kind.name}-{'streamed' if stream else 'whole'}")
    for kind in KINDS
    for stream in ((False, True) if kind.streams else (False,))
]
ORDER = '{"order_id":"A-1","expand":null}'


@pytest.mark.parametrize(("kind", "stream"), WAYS)
def test_a_conversation_with_reasoning(kind: Kind, stream: bool) -> None:
    """Question, call, result and answer, with the reasoning sent back as it came."""
    script = (call("lookup_order", ORDER, reasoning="Which?"), Said(text="It is shipped, née A-1."))
    with kind.serving(*script) as server, kind.talking(server) as client:
        first = client.ask([], stream=stream)
        second = client.ask(first.history, stream=stream)

    assert [("lookup_order", ORDER)] == [(name, _text(given)) for name, given in first.calls]
    assert "It is shipped, née A-1." == second.text


@pytest.mark.parametrize(("kind", "stream"), WAYS)
def test_several_calls_in_one_reply(kind: Kind, stream: bool) -> None:
    """Two calls, each with its own result."""
    both = (SaidCall("lookup_order", ORDER), SaidCall("lookup_order", ORDER.replace("1", "2")))
    script = (Said(text="Let me look.", calls=both), Said(text="Done."))
    with kind.serving(*script) as server, kind.talking(server) as client:
        first = client.ask([], stream=stream)
        second = client.ask(first.history, stream=stream)

    assert [one.arguments for one in both] == [_text(given) for _, given in first.calls]
    assert ("Let me look.", "Done.") == (first.text, second.text)


FINISHES = {
    "openai": ("length", "content_filter"),
    "responses": ("max_output_tokens", "content_filter"),
    "anthropic": ("max_tokens", "refusal"),
    "gemini": ("MAX_TOKENS", "SAFETY"),
    "bedrock": ("max_tokens", "content_filtered"),
}


@pytest.mark.parametrize("name", FINISHES)
def test_a_reply_that_is_cut_off_or_filtered_says_so(name: str) -> None:
    """Truncation and filters are told in the provider's words."""
    kind = _kind(name)
    script = (Said(text="It is", finish="length"), Said(text="I", finish="filter"))
    with kind.serving(*script) as server, kind.talking(server) as client:
        got = tuple(client.ask([]).finish for _ in script)

    assert FINISHES[name] == got


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ("rate_limit", 429),
        ("server_error", 500),
        ("unauthorised", 401),
        ("not_found", 404),
        ("top_p", 400),
        ("top_p_bare", 400),
        ("temperature", 400),
        ("tools", 400),
        ("not_json", 502),
    ],
)
def test_errors_are_the_sdks_own(name: str, failure: Any, status: int) -> None:
    """Each failure arrives as the error that the SDK has for its status."""
    kind = _kind(name)
    with kind.serving(Failure(failure)) as server, kind.talking(server) as client:
        error = _error(client)

    assert status == _status(error)


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize("failure", ["silent", "cut", "bad_json"])
def test_replies_that_never_come_whole(name: str, failure: Any) -> None:
    """A server that is silent, breaks off, or writes broken JSON ends in an error of the SDK."""
    kind = _kind(name)
    with kind.serving(Failure(failure)) as server, kind.talking(server, seconds=0.3) as client:
        assert _error(client) is not None


@pytest.mark.parametrize("name", ["openai", "vllm", "azure", "anthropic", "gemini", "bedrock"])
def test_a_stream_that_is_cut_or_says_that_it_failed(name: str) -> None:
    """A broken connection and an error event end in an error; the SDK reads no reply from them."""
    kind = _kind(name)
    for failure in (Failure("cut"), Failure("stream_error")):
        with kind.serving(failure) as server, kind.talking(server) as client:
            assert _error(client, stream=True) is not None, failure


@pytest.mark.parametrize("name", ["openai", "responses", "gemini", "bedrock", "anthropic"])
@pytest.mark.parametrize("arguments", ['{"status":"op', '{"amount":NaN}', "null", "[]", ABSENT])
def test_broken_arguments_reach_the_wire(name: str, arguments: Any) -> None:
    """What a model writes for arguments goes out as it is, as far as the format has room."""
    kind = _kind(name)
    with kind.serving(call("lookup_order", arguments)) as server, kind.talking(server) as client:
        _error(client)  # what an SDK makes of it is its own business

    assert 1 == len(server.heard)


def _kind(name: str) -> Kind:
    return next(one for one in KINDS if one.name == name)


def _error(client: Client, *, stream: bool = False) -> Exception | None:
    """What an SDK raises, if anything."""
    try:
        client.ask([], stream=stream)
    except Exception as error:  # noqa: BLE001 - each SDK has errors of its own
        return error
    return None


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, separators=(",", ":"))


def _status(error: Any) -> int | None:
    for name in ("status_code", "code"):
        if isinstance(found := getattr(error, name, None), int):
            return found
    response = getattr(error, "response", {})
    found = response["ResponseMetadata"]["HTTPStatusCode"]
    return found if isinstance(found, int) else None
