"""What the log will say of a failed attempt, through every adapter: why, and nothing of a text."""

import socket
from typing import Final

import pytest

from tests.models.adapters import ADAPTERS, KEY_VARIABLE, Adapter, talking
from tests.models.test_adapters import BOTH, streamed
from tests.models.test_lost_calls import CUSTOM
from tests.providers.script import Failure, Reply, Said
from tests.providers.server import as_events
from turnstream.core.ports import DeciderUnavailable, ReplyUnusable

SECRET: Final = "Anna.49170"

JSON: Final = {"content-type": "application/json"}
EVENTS: Final = {"content-type": "text/event-stream"}


@pytest.mark.parametrize(
    "adapter", [one for one in ADAPTERS if one.name != "bedrock"], ids=lambda one: one.name
)
def test_what_is_no_json_is_a_reply_all_the_same(adapter: Adapter) -> None:
    """The provider is there. Bedrock's library says no more than that there was an error."""
    with talking(adapter, Failure("bad_json")) as talk:
        with pytest.raises(ReplyUnusable) as raised:
            talk.driver.turn("When do you open?")

        assert raised.value.problem.startswith("a reply that ")


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
def test_reply_that_is_cut_off_tells_of_the_connection(adapter: Adapter, stream: bool) -> None:
    """It may be that nobody can have one."""
    given = streamed(adapter, stream)
    with talking(adapter, Failure("cut", said=Said(text=SECRET)), **given) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

        assert not isinstance(raised.value, ReplyUnusable)
        assert raised.value.problem
        assert SECRET not in raised.value.problem


@pytest.mark.parametrize(
    "adapter", [one for one in ADAPTERS if one.name != "watsonx"], ids=lambda one: one.name
)
def test_server_that_is_not_there_is_said_so(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the system's words."""
    monkeypatch.setenv(KEY_VARIABLE, "k")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        given = {"base_url": adapter.section(url).get("base_url", url)}
        with talking(adapter, **given) as talk, pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

    assert not isinstance(raised.value, ReplyUnusable)
    assert "the connection broke (Connection refused)" == raised.value.problem


FORM: Final = "a reply that is not in the documented form"

CALLED: Final = b'"finish": "tool_calls", "tool_calls"'

WHOLE: Final[dict[str, tuple[bytes, str]]] = {
    "no JSON": (b"<html>", f"{FORM} (no JSON)"),
    "half of it": (b'{"finish": "stop", "text": "Anna', f"{FORM} (no JSON)"),
    "a name twice": (
        b'{"finish": "stop", "text": "a", "text": "b"}',
        f"{FORM} (an object names a property twice)",
    ),
    "a number": (b'{"finish": "stop", "text": 7}', f"{FORM} (text)"),
    "no end": (b'{"text": "a"}', f"{FORM} (finish)"),
    "a key of its own": (
        b"{%s: [{" % CALLED + SECRET.encode().join((b'"name": "x", "', b'": 1}]}')),
        f"{FORM} (tool_calls.0: an unknown key)",
    ),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_place_in_the_form_is_named_and_no_name_of_the_replys_own(kind: str) -> None:
    """A key that the form does not have may be any text of a model."""
    body, problem = WHOLE[kind]
    with talking(CUSTOM, Reply(body, headers=JSON)) as talk:
        with pytest.raises(ReplyUnusable) as raised:
            talk.driver.turn("Cancel it.")

        assert problem == raised.value.problem


STREAMED: Final[dict[str, tuple[Reply, str, bool]]] = {
    "no stream": (Reply(b"{}", headers=JSON), "a reply that is no stream", True),
    "no JSON": (Reply(b"data: Anna\n\n", headers=EVENTS), f"{FORM} (no JSON)", True),
    "a line of its own": (
        Reply(b"Anna\n\n", headers=EVENTS),
        f"{FORM} (a line that is none of an event stream)",
        True,
    ),
    "behind the end": (
        as_events({"finish": "stop"}, {"text": "Anna"}),
        f"{FORM} (an event behind the end)",
        True,
    ),
    "an unknown event": (as_events({SECRET: 1}), f"{FORM} (an unknown key)", True),
    "no end": (as_events({"text": "a"}), "a stream that broke off (no end)", False),
    "an error": (
        as_events({"error": {"code": "Anna"}}),
        "a stream that broke off (an error in its middle)",
        False,
    ),
}


@pytest.mark.parametrize("kind", STREAMED)
def test_what_is_wrong_with_a_stream_is_said(kind: str) -> None:
    """One that breaks off may be the provider's end as well as its form."""
    reply, problem, replied = STREAMED[kind]
    with talking(CUSTOM, reply, stream=True) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("Cancel it.")

        assert (problem, replied) == (raised.value.problem, isinstance(raised.value, ReplyUnusable))
