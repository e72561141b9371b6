"""Rules that hold for some providers only, and for what goes out to all of them."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.models.adapters import ADAPTERS, KEY_VARIABLE, Adapter, talking
from tests.providers.script import Failure, Said, SaidCall, call
from tests.providers.server import as_json
from turnstream.core.ports import DeciderRefused, ReplyUnusable

BY_NAME = {one.name: one for one in ADAPTERS}

OPENAI = ("openai_chat", "openai_responses", "azure_openai", "azure_openai responses")
EFFORT: dict[str, Any] = {"settings": {"top_p": 0.5, "temperature": 0.2, "reasoning_effort": "low"}}


@pytest.mark.parametrize("name", OPENAI)
@pytest.mark.parametrize("kind", ["top_p", "top_p_bare"])
def test_unknown_top_p_is_left_out(name: str, kind: Any) -> None:
    """One more request without it, all else kept; said once in the log, and remembered."""
    steps = (Failure(kind), Said(text="At nine."), Said(text="At ten."))
    with capture_logs() as logs, talking(BY_NAME[name], *steps, **EFFORT) as talk:
        talk.driver.turn("When do you open?")
        talk.driver.answered()
        talk.driver.turn("And on Sundays?")

    first, second, third = talk.server.bodies
    lost = {"top_p"}
    assert 0.5 == first["top_p"]
    assert first.keys() - lost == second.keys() == third.keys()
    assert {key: first[key] for key in second} == second
    assert ["warning"] == [one["log_level"] for one in logs]


@pytest.mark.parametrize("name", ["openai_chat", "azure_openai", "vllm"])
@pytest.mark.parametrize("kind", ["top_p_value", "temperature"])
def test_wrong_value_stays_an_error(name: str, kind: Any) -> None:
    """A value that a provider does not take is the configuration's fault: one request, reported."""
    with (
        talking(BY_NAME[name], Failure(kind), **EFFORT) as talk,
        pytest.raises(DeciderRefused, match="status 400"),
    ):
        talk.driver.turn("When do you open?")


def test_compatible_server_is_not_asked_again_without_top_p() -> None:
    """Only OpenAI and Azure OpenAI are; another server's refusal is reported."""
    with (
        talking(BY_NAME["openai_compatible"], Failure("top_p"), **EFFORT) as talk,
        pytest.raises(DeciderRefused, match="top_p"),
    ):
        talk.driver.turn("When do you open?")


FALLING_BACK = ("vllm", "custom")


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_explicit_refusal_of_tools(adapter: Adapter) -> None:
    """VLLM and an API of one's own are asked in ReAct then; from all others it is an error."""
    answer = (Said(text="Final Answer: At nine."),) if adapter.name in FALLING_BACK else ()
    with capture_logs() as logs, talking(adapter, Failure("tools"), *answer) as talk:
        if answer:
            talk.driver.turn("When do you open?")
            assert talk.driver.action.answer is not None
            assert ["warning"] == [one["log_level"] for one in logs]
        else:
            with pytest.raises(DeciderRefused):
                talk.driver.turn("When do you open?")


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_secret_is_read_at_each_call(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has gone is named, nothing is sent, and the next that comes is used."""
    with talking(adapter, Said(text="At nine.")) as talk:
        monkeypatch.delenv(KEY_VARIABLE)
        with pytest.raises(DeciderRefused, match=KEY_VARIABLE):
            talk.driver.turn("When do you open?")
        assert [] == talk.server.heard
        talk.server.key = "sk-tests-rotated"
        monkeypatch.setenv(KEY_VARIABLE, talk.server.key)
        talk.driver.state = None
        talk.driver.turn("When do you open?")

    assert "answer" == talk.driver.action.decision.action


@pytest.mark.parametrize(
    "adapter", [one for one in ADAPTERS if one.name != "bedrock"], ids=lambda one: one.name
)
def test_reply_without_end_is_not_read(adapter: Adapter) -> None:
    """A reply of more bytes than the section allows is one that cannot be used, and no outage."""
    with (
        talking(adapter, Said(text="x" * 20_000), max_reply_bytes=10_000) as talk,
        pytest.raises(ReplyUnusable),
    ):
        talk.driver.turn("When do you open?")


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_several_calls_with_one_id(adapter: Adapter) -> None:
    """Calls are told apart though the provider does not, and each has its result."""
    both = Said(
        calls=(
            SaidCall("lookup_order", '{"order_id": "A-1"}', "same"),
            SaidCall("lookup_order", '{"order_id": "A-2"}', "same"),
        )
    )
    with talking(adapter, both, Said(text="Here they are.")) as talk:
        driver = talk.driver
        driver.turn("My orders?")
        driver.result({})
        driver.result({})

    assert driver.action.answer is not None
    (turn,) = driver.requests[-1].loop
    assert 2 == len({one.call_id for one in turn.envelopes})


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_name_of_no_tool_goes_back_as_one_that_is_taken(adapter: Adapter) -> None:
    """A made-up name is told as unknown, and no provider chokes on its own reply."""
    with talking(adapter, call("create_refund<|channel|>x y"), Said(text="I cannot.")) as talk:
        driver = talk.driver
        driver.turn("Refund me.")

    assert driver.action.answer is not None
    (turn,) = driver.requests[-1].loop
    assert ["unknown_tool"] == [one.error.code for one in turn.envelopes if one.error]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_text_of_customers_goes_out_as_written(adapter: Adapter) -> None:
    """Nothing rewrites it but vLLM's adapter, which breaks an open model's control tokens up."""
    text = "What is <|im_start|>system?"
    with talking(adapter, Said(text="Nothing.")) as talk:
        talk.driver.turn(text)

    (heard,) = talk.server.heard
    assert (adapter.name != "vllm") == (text in str(heard.json))


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_history_of_a_conversation_goes_out_in_order(adapter: Adapter) -> None:
    """Turns of both sides stand in the prompt, in every provider's own form."""
    with talking(adapter, Said(text="At nine."), Said(text="At ten.")) as talk:
        driver = talk.driver
        driver.turn("When do you open?")
        driver.answered(text="We open at nine.")
        driver.turn("And on Sundays?")

    said = str(talk.server.bodies[-1])
    places = [said.index(one) for one in ("When do you", "We open at nine", "And on Sundays")]
    assert sorted(places) == places


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_reply_after_a_withdrawn_result_is_dropped_whole(adapter: Adapter) -> None:
    """Its reasoning is bound to the result that the customer has corrected away since."""
    steps = (
        call("get_order", '{"order_id": "A-7"}', reasoning="first"),
        call("list_orders", "{}", reasoning="second"),
        call("get_order", '{"order_id": "A-8"}', reasoning="third"),
        Said(text="It was shipped."),
    )
    with talking(adapter, *steps) as talk:
        driver = talk.driver
        driver.turn("Where is order A-7?")
        driver.result({"status": "lost"})
        driver.turn("Sorry, it is order A-8!")
        driver.result({"status": "listed"})
        driver.result({"status": "shipped"})

    assert "answer" == driver.action.decision.action
    first, second, _, last = (str(one) for one in talk.server.bodies)
    assert "lost" not in first + last
    assert "lost" in second


def test_reasoning_that_is_refused_is_not_left_out_in_silence() -> None:
    """The library would ask again without it; a request that is wrong is reported instead."""
    said = "The block is bound to a different conversation. Remove the block, or set something."
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    steps = (call("get_store_hours", reasoning="r1"), as_json(error, 400))
    with talking(BY_NAME["anthropic"], *steps, model="claude-opus-5-5") as talk:
        talk.driver.turn("When do you open?")
        with pytest.raises(DeciderRefused):
            talk.driver.result({})


def test_reply_of_another_model_is_not_sent_to_this_one() -> None:
    """A conversation that moves to another provider in the middle of its loop goes on there."""
    with talking(BY_NAME["anthropic"], call("get_store_hours", reasoning="secret")) as talk:
        talk.driver.turn("When do you open?")
        state = talk.driver.state
    with talking(BY_NAME["openai_responses"], Said(text="At nine.")) as other:
        other.driver = replace(talk.driver, decide=other.propose)
        other.driver.state = state
        other.driver.result({"opens": "nine"})

    assert "answer" == other.driver.action.decision.action
    assert "secret" not in str(other.server.bodies)
