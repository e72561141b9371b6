"""One conversation and what may go wrong in it, through every adapter against its server."""

from itertools import product
from typing import Any

import pytest

from tests.models.adapters import ADAPTERS, Adapter, talking
from tests.providers.script import Failure, Said, SaidCall, call
from tests.unit.core.test_gates import BROKEN
from turnstream.core.ports import DeciderRefused, DeciderUnavailable, ReplyUnusable

BOTH = [
    pytest.param(adapter, stream, id=f"{adapter.name}{' streamed' if stream else ''}")
    for adapter, stream in product(ADAPTERS, (False, True))
    if adapter.streams or not stream
]


def streamed(adapter: Adapter, stream: bool) -> dict[str, Any]:
    """The setting, where there is one."""
    return {"stream": stream} if adapter.streams else {}


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
def test_conversation_with_a_question_a_call_and_an_answer(adapter: Adapter, stream: bool) -> None:
    """The model asks, calls with what it was told, and answers with the result."""
    steps = (
        call("ask_customer", '{"field": "order_id", "needed_for": "get_order"}', reasoning="r1"),
        call("get_order", '{"order_id": "A-7"}', reasoning="r2"),
        Said(text="It was shipped."),
    )
    with talking(adapter, *steps, **streamed(adapter, stream)) as talk:
        driver = talk.driver
        driver.turn("Where is my order?")
        asked = driver.message.text
        driver.turn("A-7")
        called = driver.action.call
        driver.result({"status": "shipped"})

    assert "Which order?" == asked
    assert called is not None
    assert ("get_order", '{"order_id":"A-7"}') == (called.tool, called.arguments_json)
    assert "answer" == driver.action.decision.action
    notes = driver.proposed.diagnostics  # type: ignore[union-attr]
    assert (12, 5) == (notes["input_tokens"], notes["output_tokens"])


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
def test_same_conversation_in_react(adapter: Adapter, stream: bool) -> None:
    """A model without tools says the same in text, and the same comes of it."""
    steps = (
        Said(
            text="Thought: no number.\nAction: ask_customer\n"
            'Action Input: {"field": "order_id", "needed_for": "get_order"}'
        ),
        Said(text='Action: get_order\nAction Input: {"order_id": "A-7"}'),
        Said(text="Thought: done.\nFinal Answer: It was shipped."),
    )
    given = {**streamed(adapter, stream), "native_tools": False}
    with talking(adapter, *steps, **given) as talk:
        driver = talk.driver
        driver.turn("Where is my order?")
        asked = driver.message.text
        driver.turn("A-7")
        called = driver.action.call
        driver.result({"status": "shipped"})

    assert "Which order?" == asked
    assert called is not None
    assert ("get_order", '{"order_id":"A-7"}') == (called.tool, called.arguments_json)
    assert driver.action.answer is not None
    assert "It was shipped." == driver.action.answer.text
    assert all("tools" not in one and "toolConfig" not in one for one in talk.server.bodies)


@pytest.mark.parametrize(
    ("adapter", "stream", "arguments"),
    [
        pytest.param(*one.values, arguments, id=f"{one.id} {arguments}")
        for one, arguments in product(BOTH, BROKEN)
        # In the place of an object, null is a call without arguments.
        if arguments != "null" or not getattr(one.values[0], "objects", False)
    ],
)
def test_broken_arguments_beside_sound_ones(adapter: Adapter, stream: bool, arguments: str) -> None:
    """A call with broken arguments is not made and its model is told why; the one beside it is."""
    both = Said(
        calls=(SaidCall("list_orders", arguments), SaidCall("lookup_order", '{"order_id": "A-1"}'))
    )
    steps = (both, Said(text="Here it is."))
    with talking(adapter, *steps, **streamed(adapter, stream)) as talk:
        driver = talk.driver
        driver.turn("My orders?")
        called = driver.action.call
        driver.result({})

    assert called is not None
    assert ("lookup_order", '{"order_id":"A-1"}') == (called.tool, called.arguments_json)
    (turn,) = driver.requests[-1].loop
    told = [one.error.code if one.error is not None else "ok" for one in turn.envelopes]
    assert ["invalid_arguments", "ok"] == told
    assert driver.action.answer is not None


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("arguments", ["", "  \n", None, "{}"])
def test_call_without_arguments(adapter: Adapter, stream: bool, arguments: str | None) -> None:
    """Every form of no arguments is a call with none."""
    steps = (call("get_store_hours", arguments), Said(text="At nine."))
    with talking(adapter, *steps, **streamed(adapter, stream)) as talk:
        driver = talk.driver
        driver.turn("When do you open?")
        called = driver.action.call
        driver.result({})

    assert called is not None
    assert ("get_store_hours", "{}") == (called.tool, called.arguments_json)


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
def test_reply_that_is_cut_off_is_not_acted_on(adapter: Adapter, stream: bool) -> None:
    """A call in a reply that ends at the token limit is never made, and the model is told."""
    cut = Said(calls=(SaidCall("get_store_hours", "{}"),), finish="length")
    steps = (cut, Said(text="At nine."))
    with talking(adapter, *steps, **streamed(adapter, stream)) as talk:
        talk.driver.turn("When do you open?")

    assert "answer" == talk.driver.action.decision.action
    assert "cut off" in str(talk.server.bodies[1])


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("finish", ["filter", "refusal"])
def test_refused_reply_goes_to_a_person(adapter: Adapter, stream: bool, finish: Any) -> None:
    """What a provider's filter or the model itself refuses is a person's."""
    with talking(adapter, Said(text="No.", finish=finish), **streamed(adapter, stream)) as talk:
        talk.driver.turn("Something odd.")

    assert talk.driver.action.handoff is not None
    assert "safety" == talk.driver.cause


PASSING = ["rate_limit", "server_error", "cut", "bad_json", "not_json", "stream_ends"]


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("kind", [*PASSING, "stream_error"])
def test_passing_failure_can_be_tried_again(adapter: Adapter, stream: bool, kind: Any) -> None:
    """No reply, or none that can be read, is a failure that passes: one request, no proposal."""
    with talking(adapter, Failure(kind), **streamed(adapter, stream)) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

        assert not isinstance(raised.value, DeciderRefused)
        wished = raised.value.retry_after_seconds
        assert (2.0 if kind == "rate_limit" else None) == wished


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("kind", ["compressed_page", "long_page"])
def test_page_of_a_proxy_is_an_outage(adapter: Adapter, stream: bool, kind: Any) -> None:
    """What cannot be read of an error page does not make it a reply: the provider is away.

    Of a compressed one AWS's library says nothing but that it cannot be read.
    """
    with talking(adapter, Failure(kind), **streamed(adapter, stream)) as talk:
        with pytest.raises(DeciderUnavailable) as raised:
            talk.driver.turn("When do you open?")

        unread = adapter.name == "bedrock" and kind == "compressed_page"
        assert unread == isinstance(raised.value, DeciderRefused | ReplyUnusable)


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
def test_silence_is_a_time_out(adapter: Adapter, stream: bool) -> None:
    """A provider that never answers is waited for as long as its section says."""
    given = {**streamed(adapter, stream), "timeout_seconds": 1.0}
    with (
        talking(adapter, Failure("silent"), **given) as talk,
        pytest.raises(TimeoutError),
    ):
        talk.driver.turn("When do you open?")


LASTING = {
    "unauthorised": "the key is not accepted",
    "not_found": "no such model",
    "bad_schema": "refused",
    "temperature": "refused",
    "redirect": "redirects",
}


@pytest.mark.parametrize(("adapter", "stream"), BOTH)
@pytest.mark.parametrize("kind", LASTING)
def test_lasting_failure_is_reported(adapter: Adapter, stream: bool, kind: Any) -> None:
    """What no second request mends is named, without a word of the conversation."""
    with (
        talking(adapter, Failure(kind), **streamed(adapter, stream)) as talk,
        pytest.raises(DeciderRefused) as raised,
    ):
        talk.driver.turn("My word is Xyzzy.")

    assert LASTING[kind] in raised.value.problem
    assert "Xyzzy" not in raised.value.problem
