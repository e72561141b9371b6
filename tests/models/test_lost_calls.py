"""A call that is lost on its way, and counts that are none, through every adapter."""

from typing import Any, Final

import pytest

from tests.models.adapters import ADAPTERS, Adapter, talking
from tests.models.test_adapters import BOTH, streamed
from tests.providers.script import Reply, Said
from tests.providers.server import as_events
from turnstream.core.ports import DeciderRefused, DeciderUnavailable

WORDLESS: Final = ("openai_responses", "azure_openai responses", "gemini")
"""Those whose replies end alike with calls and without."""

COUNTED: Final = ("custom", "watsonx")
"""Those whose replies are read by us, counts included."""


@pytest.mark.parametrize(
    ("adapter", "stream"),
    [one for one in BOTH if getattr(one.values[0], "name", "") not in WORDLESS],
)
@pytest.mark.parametrize("native", [True, False])
def test_reply_that_says_it_calls_and_does_not_is_no_answer(
    adapter: Adapter, stream: bool, native: bool
) -> None:
    """The customer never reads that something was done that was not; the model is told."""
    lie, truth = "I cancelled it.", "It is still there."
    texts = (lie, truth) if native else (f"Final Answer: {lie}", f"Final Answer: {truth}")
    steps = (Said(text=texts[0], finish="calls"), Said(text=texts[1]))
    given = {**streamed(adapter, stream), "native_tools": native}
    with talking(adapter, *steps, **given) as talk:
        talk.driver.turn("Cancel it.")

        assert "without a call" in str(talk.server.bodies[1])
    answers = [one.answer.text for one in talk.driver.actions if one.answer is not None]
    assert [truth] == answers


SENSELESS: Final = [(10**400, 5), (12, 10**400), (-12, 5), (12, -5), (2**60, 5)]
"""Tokens read and written, as no reply takes them."""

PRICE: Final = {"input_per_million": 2.5, "output_per_million": 10}


@pytest.mark.parametrize("tokens", SENSELESS)
@pytest.mark.parametrize(
    ("adapter", "stream"),
    [one for one in BOTH if getattr(one.values[0], "name", "") not in COUNTED],
)
def test_senseless_counts_are_not_added_up(
    adapter: Adapter, stream: bool, tokens: tuple[int, int]
) -> None:
    """A library that hands them on costs no decision: nothing is said of what the reply took.

    One that raises on them leaves a failure that passes, never an error of ours.
    """
    given = {**streamed(adapter, stream), "price": PRICE}
    with talking(adapter, Said(text="At nine.", tokens=tokens), **given) as talk:
        try:
            talk.driver.turn("When do you open?")
        except DeciderRefused:
            raise
        except DeciderUnavailable:
            return
    assert talk.driver.proposed is not None
    assert "answer" == talk.driver.action.decision.action
    notes = talk.driver.proposed.diagnostics
    assert not {"input_tokens", "output_tokens", "cost"} & notes.keys()


@pytest.mark.parametrize("tokens", SENSELESS)
@pytest.mark.parametrize(
    ("adapter", "stream"), [one for one in BOTH if getattr(one.values[0], "name", "") in COUNTED]
)
def test_senseless_counts_are_another_form(
    adapter: Adapter, stream: bool, tokens: tuple[int, int]
) -> None:
    """Where replies are read by us, counts belong to the documented form like all the rest."""
    given = {**streamed(adapter, stream), "price": PRICE}
    with talking(adapter, Said(text="At nine.", tokens=tokens), **given) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

        assert "documented form (usage." in str(raised.value)


CUSTOM: Final = next(one for one in ADAPTERS if one.name == "custom")
WATSONX: Final = next(one for one in ADAPTERS if one.name == "watsonx")

CALL: Final = {"id": "c", "name": "cancel_order", "arguments": {}}

LOST: Final[dict[str, list[dict[str, Any]]]] = {
    "whole calls before the end": [{"tool_calls": [CALL]}, {"finish": "stop"}],
    "whole calls in the end": [{"finish": "stop", "tool_calls": [CALL]}],
    "behind the end": [{"finish": "stop"}, {"tool_call": {"index": 0, "name": "cancel_order"}}],
    "an event that is not known": [{"toolCall": CALL}, {"finish": "stop"}],
}


@pytest.mark.parametrize("kind", LOST)
def test_call_where_none_belongs_spoils_a_stream_of_ones_own(kind: str) -> None:
    """The text beside it never goes out as the answer."""
    stream = as_events({"text": "I cancelled it."}, *LOST[kind])
    with talking(CUSTOM, stream, stream=True) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("Cancel it.")

        assert not isinstance(raised.value, DeciderRefused)
        assert "documented form" in str(raised.value)
    assert [] == talk.driver.actions


WHOLE: Final[dict[str, bytes]] = {
    "a call of another name": b'{"text": "Done.", "finish": "stop", "toolCalls": [{"name": "x"}]}',
    "a call in OpenAI's form": b'{"text": "Done.", "finish": "stop", "function_call": {}}',
    "a message of calls": b'{"text": "Done.", "finish": "stop", "message": {"tool_calls": []}}',
    "a call of streams": b'{"text": "Done.", "finish": "stop", "tool_call": {"name": "x"}}',
    "calls twice": b'{"finish": "stop", "text": "Done.", "tool_calls": [{"name": "x"}],'
    b' "tool_calls": []}',
    "arguments of another name": b'{"finish": "tool_calls", "tool_calls":'
    b' [{"name": "list_orders", "input": {"status": "open"}}]}',
}


@pytest.mark.parametrize("kind", WHOLE)
def test_call_where_none_belongs_spoils_a_reply_of_ones_own(kind: str) -> None:
    """Neither is a call half-read, nor does the text beside it go out."""
    reply = Reply(WHOLE[kind], headers={"content-type": "application/json"})
    with talking(CUSTOM, reply) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("Cancel it.")

        assert "documented form" in str(raised.value)
    assert [] == talk.driver.actions


DELTAS: Final[dict[str, dict[str, Any]]] = {
    "choices.0.delta": {"delta": "hi"},
    "choices.0.delta.content": {"delta": {"content": ["hi"]}},
    "choices.0.delta.tool_calls.0.id": {"delta": {"tool_calls": [{"index": 0, "id": 5}]}},
    "choices.0.delta.tool_calls.0.index": {"delta": {"tool_calls": [{"id": "c1"}]}},
    "choices.0.delta.tool_calls.0.function.name": {
        "delta": {"tool_calls": [{"index": 0, "function": {"name": 7}}]}
    },
    "choices.0.finish_reason": {"delta": {}, "finish_reason": ["stop"]},
    "choices.0.index": {"index": 1, "delta": {"content": "B"}},
}


@pytest.mark.parametrize("path", DELTAS)
def test_chunk_of_watsonx_in_another_form_is_refused_by_its_place(path: str) -> None:
    """A library of IBM's hands on any JSON; none of it ends in a defect of ours."""
    end = {"delta": {}, "finish_reason": "stop"}
    chunks = [{"choices": [one]} for one in ({"delta": {"content": "A"}}, DELTAS[path], end)]
    with talking(WATSONX, as_events(*chunks, done=False), stream=True) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

        assert f"a reply that is not in the documented form ({path})" == str(raised.value)
