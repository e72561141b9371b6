"""Streams that no provider's library puts together: an API of one's own, and watsonx."""

from typing import Any

import pytest

from turnstream.models import custom_stream, watsonx_stream
from turnstream.models.custom_stream import BrokenStream


def test_events_of_ones_own_are_put_together() -> None:
    """Line ends of either kind, comments, and data on several lines are a stream like any."""
    content = (
        b': a comment\r\n\r\ndata: {"text": "a"}\r\n\r\nevent: x\ndata:{"text":\ndata: "b"}\n\n'
        b'data: {"tool_call": {"index": 1, "name": "two", "id": "c2"}}\n\n'
        b'data: {"tool_call": {"index": 0, "name": "one", "arguments": "{"}}\n\n'
        b'data: {"tool_call": {"index": 0, "arguments": "}"}}\n\n'
        b'data: {"finish": "tool_calls", "state": 5}\n\n'
    )

    assert {
        "text": "ab",
        "tool_calls": [
            {"name": "one", "id": None, "arguments": "{}"},
            {"name": "two", "id": "c2", "arguments": None},
        ],
        "finish": "tool_calls",
        "state": 5,
    } == custom_stream.put_together(content)


@pytest.mark.parametrize("content", [b"", b'data: {"text": "a"}\n\n', b'data: {"error": {}}\n\n'])
def test_stream_without_an_end_is_broken(content: bytes) -> None:
    """A reply that may have more to say is none."""
    with pytest.raises(BrokenStream):
        custom_stream.put_together(content)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"text": 5}', b'{"tool_call": {"name": "x"}}'])
def test_event_of_another_form_is_an_error(data: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r".") as raised:
        custom_stream.put_together(b"data: " + data + b"\n\n")

    assert not isinstance(raised.value, BrokenStream)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of watsonx's."""
    return {"model_id": "m", "choices": [{"delta": delta, "finish_reason": finish}]}


def test_chunks_of_watsonx_are_put_together() -> None:
    """Texts, reasoning, calls by their index, the finish, and the usage that comes last."""
    head = {"index": 0, "id": "c1", "function": {"name": "one", "arguments": ""}}
    rest = {"index": 0, "function": {"name": "", "arguments": "{}"}}
    reply = watsonx_stream.put_together(
        [
            chunk(role="assistant", content="", reasoning_content="because"),
            chunk(content="a", tool_calls=[head]),
            chunk(tool_calls=[rest, {"index": 1, "function": {"name": "two"}}]),
            chunk("tool_calls", content="b"),
            {"choices": [], "usage": {"prompt_tokens": 1}},
        ]
    )

    assert {
        "model_id": "m",
        "usage": {"prompt_tokens": 1},
        "choices": [
            {
                "message": {
                    "content": "ab",
                    "reasoning_content": "because",
                    "tool_calls": [
                        {"id": "c1", "function": {"name": "one", "arguments": "{}"}},
                        {"function": {"name": "two"}},
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
    } == reply


def test_chunks_without_a_finish_broke_off() -> None:
    """The reader of replies sees it by the finish that is missing."""
    assert None is watsonx_stream.put_together([chunk(content="a")])["choices"][0]["finish_reason"]
