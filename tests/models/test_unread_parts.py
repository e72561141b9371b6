"""Calls in forms that nobody offered, and several choices: never half-read, never passed over."""

from typing import Any, Final

import pytest

from tests.models.adapters import ADAPTERS, talking
from tests.models.test_adapters import streamed
from tests.providers.script import Reply
from tests.providers.server import as_events, as_json
from turnstream.core.ports import DeciderRefused, DeciderUnavailable

BY_NAME: Final = {one.name: one for one in ADAPTERS}

LIE: Final = "I refunded."

FUNCTION: Final = {"name": "create_refund", "arguments": '{"order_id": "A-1", "amount": 5}'}
CUSTOM: Final = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "x", "input": "y"}}


def chat(*messages: dict[str, Any]) -> Reply:
    """A completion with a choice for each message."""
    choices = [
        {"index": at, "message": {"role": "assistant", **one}, "finish_reason": "stop"}
        for at, one in enumerate(messages)
    ]
    return as_json(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    )


def chunks(*deltas: dict[str, Any], index: int = 0) -> Reply:
    """Chunks, of which the last but one belongs to a choice."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [
        {**base, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas
    ]
    events[-1]["choices"][0]["index"] = index  # type: ignore[index]
    end = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return as_events(*events, end, done=True)


def anthropic(block: dict[str, Any]) -> Reply:
    """A message with one more block."""
    return as_json(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "c",
            "content": [{"type": "text", "text": LIE}, block],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


def anthropic_events(block: dict[str, Any]) -> Reply:
    """The same as a stream."""
    start: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for at, one in enumerate(({"type": "text", "text": LIE}, block)):
        events.append({"type": "content_block_start", "index": at, "content_block": one})
        events.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}})
    events.append({"type": "message_stop"})
    return as_events(*events)


def responses(item: dict[str, Any]) -> Reply:
    """A response with one more item."""
    text = {"type": "output_text", "text": LIE, "annotations": []}
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    return as_json(
        {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "completed",
            "output": [{**said, "content": [text]}, item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )


def gemini(part: dict[str, Any]) -> dict[str, Any]:
    """A reply with one more part."""
    content = {"role": "model", "parts": [{"text": LIE}, part]}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def bedrock(use: dict[str, Any]) -> Reply:
    """A reply with a use of a tool."""
    content = [{"text": LIE}, {"toolUse": use}]
    return as_json(
        {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
            "metrics": {"latencyMs": 1},
        }
    )


def watsonx(message: dict[str, Any]) -> Reply:
    """A whole reply of watsonx's."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return as_json({"model_id": "m", "choices": [choice]})


USED: Final = {"id": "s", "name": "create_refund", "input": {"order_id": "A-1", "amount": 5}}
CODE: Final = {"executableCode": {"language": "PYTHON", "code": "refund()"}}
TEXT: Final = {"content": LIE}
OLD: Final = {"function_call": FUNCTION}
NOVA: Final = {"toolUseId": "s", "name": "create_refund", "input": {}, "type": "server_tool_use"}
WATSONX_END: Final = {"choices": [{"delta": {}, "finish_reason": "stop"}]}

UNREAD: Final[list[tuple[str, str, Reply, bool]]] = [
    *(
        (name, what, reply, stream)
        for name in ("openai_chat", "vllm", "openai_compatible", "azure_openai")
        for what, reply, stream in (
            ("older call", chat({**TEXT, **OLD}), False),
            ("older call", chunks(TEXT, OLD), True),
            ("custom call", chat({**TEXT, "tool_calls": [CUSTOM]}), False),
            ("custom call", chunks(TEXT, {"tool_calls": [CUSTOM]}), True),
            ("two choices", chat(TEXT, {"content": "two"}), False),
            ("two choices", chunks(TEXT, {"content": "two"}, index=1), True),
        )
    ),
    *(
        ("anthropic", kind, made({"type": kind, **USED, "server_name": "q"}), stream)
        for kind in ("server_tool_use", "mcp_tool_use", "new_tool_use")
        for made, stream in ((anthropic, False), (anthropic_events, True))
    ),
    *(
        (
            "openai_responses",
            str(item["type"]),
            responses({"id": "c", "call_id": "c", **item}),
            False,
        )
        for item in (
            {"type": "custom_tool_call", "name": "create_refund", "input": "x"},
            {"type": "mcp_call", "name": "x", "arguments": "{}", "server_label": "s"},
            {
                "type": "local_shell_call",
                "status": "completed",
                "action": {"type": "exec", "command": ["rm"], "env": {}},
            },
            {"type": "future_call", "name": "create_refund"},
        )
    ),
    ("gemini", "code", as_json(gemini(CODE)), False),
    ("gemini", "code", as_events(gemini(CODE)), True),
    ("bedrock", "server tool", bedrock(NOVA), False),
    ("bedrock", "nova's own", bedrock({**NOVA, "name": "nova_code_interpreter"}), False),
    ("watsonx", "older call", watsonx({**TEXT, **OLD}), False),
    ("watsonx", "custom call", watsonx({**TEXT, "tool_calls": [CUSTOM]}), False),
    (
        "watsonx",
        "older call",
        as_events({"choices": [{"delta": {**TEXT, **OLD}}]}, WATSONX_END, done=False),
        True,
    ),
]


@pytest.mark.parametrize(
    ("name", "reply", "stream"),
    [
        pytest.param(name, reply, stream, id=f"{name} {what}{' streamed' if stream else ''}")
        for name, what, reply, stream in UNREAD
    ],
)
def test_call_of_another_form_spoils_the_reply(name: str, reply: Reply, stream: bool) -> None:
    """The text beside it says that it was made, and nobody made it."""
    how = streamed(BY_NAME[name], stream)
    with talking(BY_NAME[name], reply, **how) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("Refund A-1.")

        assert not isinstance(raised.value, DeciderRefused)
        assert "documented form" in str(raised.value)
    assert [] == talk.driver.actions


HONEST: Final[dict[str, Reply]] = {
    "anthropic": anthropic({"type": "redacted_thinking", "data": "c2VhbGVk"}),
    "openai_responses": responses({"type": "reasoning", "id": "r", "summary": []}),
    "gemini": as_json(gemini({"text": "hidden", "thought": True, "thoughtSignature": "c2VhbGVk"})),
}


@pytest.mark.parametrize("name", HONEST)
def test_reasoning_that_carries_no_call_spoils_nothing(name: str) -> None:
    """What a provider sends beside the text, sealed or shown, is no call."""
    with talking(BY_NAME[name], HONEST[name]) as talk:
        talk.driver.turn("Where is A-1?")

    assert talk.driver.action.answer is not None
    assert LIE == talk.driver.action.answer.text
