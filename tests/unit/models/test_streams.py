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


END = b'data: {"finish": "stop"}\n\n'

ERROR = b'data: {"error": {}}\n\n'


@pytest.mark.parametrize(
    "content", [b"", b'data: {"text": "a"}\n\n', ERROR, ERROR + END, END + ERROR]
)
def test_stream_without_an_end_is_broken(content: bytes) -> None:
    """A reply that may have more to say is none, and neither is one that an error follows."""
    with pytest.raises(BrokenStream):
        custom_stream.put_together(content)


@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbfdata: {"text": "a"}\n\ndata: {"finish": "stop"}',
        b'data: {"text": "a"}\r\rdata: {"finish": "stop"}\r\r',
        b'data:\n\nid: 1\nretry: 5\ndata:{"text": "a", "finish": null}\n\ndata\n\n' + END,
        b'data: {"text": "a", "tool_call": null, "finish": "stop", "tool_calls": []}\n\n',
    ],
)
def test_stream_is_read_as_streams_are_written(content: bytes) -> None:
    """A byte order mark, line ends of any kind, and events without data change nothing."""
    assert ("a", []) == (
        (reply := custom_stream.put_together(content))["text"],
        reply["tool_calls"],
    )


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"[DONE]",
        b'{"text": 5}',
        b'{"tool_call": {"name": "x"}}',
        b'{"tool_call": {"index": 0, "name": "x", "input": {}}}',
        b'{"tool_calls": [{"name": "x"}]}',
        b'{"finish": null, "tool_calls": [{"name": "x"}]}',
        b'{"finish": "stop", "tool_calls": [{"name": "x"}]}',
        b'{"finish": "stop", "tool_calls": {}}',
        b'{"finish": ["stop"]}',
        b'{"toolCall": {"index": 0, "name": "x"}}',
        b'{"tool_call": {"index": 0, "name": "x"}, "tool_call": {"index": 1, "name": "y"}}',
        b'{"text": "a", "text": "b"}',
    ],
)
def test_event_of_another_form_is_an_error(data: bytes) -> None:
    """Nothing is guessed, and nothing passed over that may be a call."""
    with pytest.raises(ValueError, match=r".") as raised:
        custom_stream.put_together(b"data: " + data + b"\n\n" + END)

    assert not isinstance(raised.value, BrokenStream)


@pytest.mark.parametrize(
    "rest",
    [
        b'data: {"tool_call": {"index": 0, "name": "x"}}\n\n',
        b'data: {"tool_calls": [{"name": "x"}]}\n\n',
        b'data: {"text": "a"}\n\n',
        b'data: {"finish": "tool_calls"}\n\n',
        b"data: [DONE]\n\n",
        b'{"tool_call": {"index": 0, "name": "x"}}\n\n',
    ],
)
def test_nothing_stands_behind_the_end(rest: bytes) -> None:
    """What came late may be a call, and is not lost in silence."""
    with pytest.raises(ValueError, match=r".") as raised:
        custom_stream.put_together(END + rest)

    assert not isinstance(raised.value, BrokenStream)


def test_two_calls_under_one_index_are_an_error() -> None:
    """Glued to one they would be neither; a piece that repeats its id is of the same call."""
    pieces = [
        b'data: {"tool_call": {"index": 0, "id": "c1", "name": "x", "arguments": "{"}}\n\n',
        b'data: {"tool_call": {"index": 0, "id": "c1", "arguments": "}"}}\n\n',
        b'data: {"tool_call": {"index": 0, "id": "c2"}}\n\n',
    ]

    reply = custom_stream.put_together(b"".join(pieces[:2]) + END)
    assert [{"name": "x", "id": "c1", "arguments": "{}"}] == reply["tool_calls"]
    with pytest.raises(ValueError, match="one index"):
        custom_stream.put_together(b"".join(pieces) + END)


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
