"""Reasoning and calls that a model writes into its text, through every adapter."""

import pytest

from tests.models.adapters import ADAPTERS, Adapter, talking
from tests.models.test_adapters import BOTH, streamed
from tests.providers.script import Said
from tests.providers.server import as_events

SECRET = "The customer is a fraudster."

DRAFT = """
Thought: maybe
Action: create_refund
Action Input: {"order_id": "A-1", "amount": 5}
Thought: no, look first.
"""

LOOK = """
Thought: look
Action: lookup_order
Action Input: {"order_id": "A-1"}"""


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("begin", ["<think>", ""])
def test_reasoning_is_not_the_answer(adapter: Adapter, stream: bool, begin: str) -> None:
    """The customer reads what stands behind it, whole and streamed alike."""
    said = Said(text=f"{begin}{SECRET}</think>\n\nIt was shipped.")
    with talking(adapter, said, **streamed(adapter, stream)) as talk:
        talk.driver.turn("Where is A-1?")

    assert talk.driver.action.answer is not None
    assert "It was shipped." == talk.driver.action.answer.text
    assert SECRET not in str(talk.driver.action)


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("begin", ["<think>", ""])
def test_call_drafted_in_reasoning_is_not_made(adapter: Adapter, stream: bool, begin: str) -> None:
    """Only the call behind it is."""
    steps = (Said(text=f"{begin}{DRAFT}</think>{LOOK}"), Said(text="Final Answer: It was shipped."))
    with talking(adapter, *steps, native_tools=False, **streamed(adapter, stream)) as talk:
        talk.driver.turn("Where is A-1?")
        called = [one.call.tool for one in talk.driver.actions if one.call is not None]
        talk.driver.result({})

    assert ["lookup_order"] == called


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"<think>{SECRET} It was shipped.", "not ended"),
        ('Done. <tool_call>{"name": "create_refund"}</tool_call>', "written as text"),
    ],
)
def test_text_that_cannot_be_told_is_no_answer(
    adapter: Adapter, stream: bool, text: str, told: str
) -> None:
    """Reasoning that never ends, or a call that nobody read: the model is told."""
    steps = (Said(text=text), Said(text="It was shipped."))
    with talking(adapter, *steps, **streamed(adapter, stream)) as talk:
        talk.driver.turn("Where is A-1?")

        assert told in str(talk.server.bodies[1])
    answers = [one.answer.text for one in talk.driver.actions if one.answer is not None]
    assert ["It was shipped."] == answers


CHAT = [one for one in ADAPTERS if one.name in ("openai_chat", "azure_openai", "vllm")]


@pytest.mark.parametrize("adapter", CHAT, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "parts",
    [
        ("<think>", SECRET, "</think>", "It was shipped."),
        ("<th", f"ink>{SECRET}</th", "ink>It was ", "shipped."),
        (SECRET, "<", "/", "think", ">", "It was shipped."),
        ("<think>", f"{SECRET}\n</think>\n\nIt was shipped."),
    ],
)
def test_tags_are_found_across_chunks(adapter: Adapter, parts: tuple[str, ...]) -> None:
    """A stream is cut anywhere, and a tag that is a chunk of its own is no other than the rest."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    ends: list[str | None] = [None] * len(parts)
    choices = [
        {"index": 0, "delta": {"content": part}, "finish_reason": end}
        for part, end in zip((*parts, ""), (*ends, "stop"), strict=True)
    ]
    stream = as_events(*({**base, "choices": [one]} for one in choices), done=True)
    with talking(adapter, stream, stream=True) as talk:
        talk.driver.turn("Where is A-1?")

    assert talk.driver.action.answer is not None
    assert "It was shipped." == talk.driver.action.answer.text
