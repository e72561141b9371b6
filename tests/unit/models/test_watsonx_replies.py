"""What watsonx replies: read as documented, or refused by the place that is not so."""

from copy import deepcopy
from typing import Any

import pytest

from turnstream.core.ports import DeciderRefused, DeciderUnavailable
from turnstream.models.transport import ModelCall, Usage
from turnstream.models.watsonx_replies import read_reply

FUNCTION = {"name": "get_order", "arguments": '{"order_id":"A-1"}'}

REPLY: dict[str, Any] = {
    "model_id": "granite",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "One moment.",
                "reasoning_content": "because",
                "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The reply with another value at a place."""
    reply = deepcopy(REPLY)
    *above, last = [int(one) if one.isdigit() else one for one in path.split(".")]
    place: Any = reply
    for one in above:
        place = place[one]
    place[last] = value
    return reply


def test_reply_in_the_documented_form_is_read() -> None:
    """Text, calls, finish, tokens."""
    read = read_reply(REPLY, stream=False)

    assert ("One moment.", "tool_calls", "granite", Usage(12, 5)) == (
        read.text,
        read.finish,
        read.model,
        read.usage,
    )
    assert (ModelCall("c1", "get_order", '{"order_id":"A-1"}'),) == read.calls
    kept = read.keep((), None)
    assert {"role": "assistant", "content": "One moment.", "reasoning_content": "because"} == kept


@pytest.mark.parametrize("path", ["content", "reasoning_content", "refusal", "tool_calls"])
def test_null_stands_for_what_is_left_out(path: str) -> None:
    """The provider writes both; a message then has the rest."""
    read = read_reply(changed(f"choices.0.message.{path}", None), stream=False)

    assert ("" if path == "content" else "One moment.") == read.text
    assert (0 if path == "tool_calls" else 1) == len(read.calls)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": None}])
def test_usage_may_be_left_out(usage: object) -> None:
    """Then nothing is known of what it took."""
    assert Usage() == read_reply(changed("usage", usage), stream=False).usage


def test_call_may_come_without_an_id_and_without_arguments() -> None:
    """It gets an id of ours, and the gates judge its arguments."""
    read = read_reply(
        changed("choices.0.message.tool_calls", [{"id": None, "function": {"name": "get_order"}}]),
        stream=False,
    )

    assert (ModelCall(None, "get_order", None),) == read.calls


BAD: list[tuple[str, object]] = [
    ("choices", None),
    ("choices", []),
    ("choices", REPLY["choices"] * 2),
    ("choices.0", "hi"),
    ("choices.0.message", None),
    ("choices.0.message", "hi"),
    ("choices.0.message.content", ["hi"]),
    ("choices.0.message.content", 5),
    ("choices.0.message.content", "half \ud800"),
    ("choices.0.message.refusal", ["no"]),
    ("choices.0.message.reasoning_content", {"text": "because"}),
    ("choices.0.message.tool_calls", {}),
    ("choices.0.message.tool_calls.0", None),
    ("choices.0.message.tool_calls.0.id", 5),
    ("choices.0.message.tool_calls.0.function", None),
    ("choices.0.message.tool_calls.0.function.name", 7),
    ("choices.0.message.tool_calls.0.function.name", None),
    ("choices.0.finish_reason", ["stop"]),
    ("choices.0.finish_reason", 1),
    ("model_id", 4),
    ("usage", [12, 5]),
    ("usage.prompt_tokens", "12"),
    ("usage.prompt_tokens", -1),
    ("usage.prompt_tokens", True),
    ("usage.completion_tokens", 10**400),
    ("usage.completion_tokens", 5.0),
]


@pytest.mark.parametrize(("path", "value"), BAD)
def test_reply_in_another_form_is_refused_by_its_place(path: str, value: object) -> None:
    """The place is named and nothing of what stood there; the request may be made again."""
    with pytest.raises(DeciderUnavailable) as raised:
        read_reply(changed(path, value), stream=False)

    assert not isinstance(raised.value, DeciderRefused)
    assert f"a reply that is not in the documented form ({path})" == str(raised.value)


@pytest.mark.parametrize("reply", [None, "hi", [], 5])
def test_no_object_is_no_reply(reply: object) -> None:
    """There is no place to name."""
    with pytest.raises(DeciderUnavailable) as raised:
        read_reply(reply, stream=False)

    assert "a reply that is not in the documented form" == str(raised.value)
