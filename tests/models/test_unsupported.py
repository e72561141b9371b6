"""What a provider says that it does not take: worked around only where that is promised."""

from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.driving import Driver
from tests.models.adapters import ADAPTERS, Adapter, talking
from tests.providers.script import Failure, FailureKind, Said, SaidCall, call
from turnstream.core.ports import DeciderRefused

OPENAI: Final = [
    one for one in ADAPTERS if one.name.startswith("azure_openai") or one.name.startswith("openai_")
]
RETRYING: Final = [one for one in OPENAI if one.name != "openai_compatible"]
"""OpenAI and Azure OpenAI."""

FALLING_BACK: Final = [one for one in ADAPTERS if one.name in ("vllm", "custom")]

SAMPLING: Final = {"top_p": 0.5, "temperature": 0.2}
EFFORT: Final = {**SAMPLING, "reasoning_effort": "low"}


def effort(body: dict[str, Any]) -> Any:
    """The reasoning effort of a request to Chat Completions or to Responses."""
    return body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")


def results(driver: Driver) -> None:
    """Let all calls come back."""
    for one in driver.conversation.outstanding:
        driver.result({}, action_id=one.action_id)


def named(adapter: Adapter) -> str:
    """For the names of tests."""
    return adapter.name


@pytest.mark.parametrize("adapter", RETRYING, ids=named)
@pytest.mark.parametrize("kind", ["top_p", "top_p_bare"])
def test_request_is_made_again_without_top_p(adapter: Adapter, kind: FailureKind) -> None:
    """Once, logged, all other settings kept; also where the error has no code and no parameter."""
    script = (Failure(kind), Said(text="At nine."), Said(text="At six."))
    with capture_logs() as logs, talking(adapter, *script, settings=EFFORT) as talk:
        talk.driver.turn("When do you open?")
        talk.driver.answered()
        talk.driver.turn("And close?")
        first, *others = talk.server.bodies

    assert (0.5, 0.2, "low") == (first["top_p"], first["temperature"], effort(first))
    for body in others:
        assert "top_p" not in body
        assert (0.2, "low") == (body["temperature"], effort(body))
    assert ["warning"] == [one["log_level"] for one in logs if "top_p" in one["event"]]


@pytest.mark.parametrize("adapter", RETRYING, ids=named)
@pytest.mark.parametrize("kind", ["top_p_value", "temperature"])
def test_wrong_values_stay_errors(adapter: Adapter, kind: FailureKind) -> None:
    """A value out of range and a temperature that is not supported are reported."""
    with (
        talking(adapter, Failure(kind), settings=EFFORT) as talk,
        pytest.raises(DeciderRefused),
    ):
        talk.driver.turn("When do you open?")


@pytest.mark.parametrize(
    "adapter", [one for one in ADAPTERS if one not in RETRYING and one.name != "custom"], ids=named
)
def test_nobody_else_is_asked_again_without_top_p(adapter: Adapter) -> None:
    """Compatible servers and other providers: the refusal is reported."""
    with (
        talking(adapter, Failure("top_p"), settings=SAMPLING) as talk,
        pytest.raises(DeciderRefused),
    ):
        talk.driver.turn("When do you open?")


@pytest.mark.parametrize("adapter", OPENAI, ids=named)
def test_nothing_is_sent_that_was_not_configured(adapter: Adapter) -> None:
    """No reasoning effort and no sampling of our own; the model or deployment as configured."""
    with talking(adapter, Said(text="At nine.")) as talk:
        talk.driver.turn("When do you open?")
        (body,) = talk.server.bodies

    assert not {"reasoning", "reasoning_effort", "temperature", "top_p", "seed", "n"} & body.keys()
    assert body["model"] in ("gpt-4o", "gpt-5", "dep-1")


@pytest.mark.parametrize("adapter", FALLING_BACK, ids=named)
def test_refusal_of_tools_leads_to_react(adapter: Adapter) -> None:
    """Once, logged, and remembered: the next request asks in ReAct at once."""
    action = Said(text="Action: get_store_hours\nAction Input: {}")
    script = (Failure("tools"), action, Said(text="Final Answer: At nine."))
    with capture_logs() as logs, talking(adapter, *script) as talk:
        talk.driver.turn("When do you open?")
        talk.driver.result({})
        given = ["tools" in body for body in talk.server.bodies]

    assert [True, False, False] == given
    assert talk.driver.action.answer is not None
    assert "At nine." == talk.driver.action.answer.text
    assert ["warning"] == [one["log_level"] for one in logs if "takes no tools" in one["event"]]


@pytest.mark.parametrize("adapter", [x for x in ADAPTERS if x not in FALLING_BACK], ids=named)
def test_refusal_of_tools_is_reported_elsewhere(adapter: Adapter) -> None:
    """Whoever says that a model takes tools is told that it does not."""
    with talking(adapter, Failure("tools")) as talk, pytest.raises(DeciderRefused):
        talk.driver.turn("When do you open?")


@pytest.mark.parametrize("adapter", FALLING_BACK, ids=named)
@pytest.mark.parametrize("kind", ["bad_schema", "unauthorised", "not_found"])
def test_other_refusals_are_not_worked_around(adapter: Adapter, kind: FailureKind) -> None:
    """A bad schema, a wrong key and an unknown model are errors, not a reason to ask in ReAct."""
    with talking(adapter, Failure(kind)) as talk:
        with pytest.raises(DeciderRefused):
            talk.driver.turn("When do you open?")

        assert 1 == len(talk.server.heard)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=named)
@pytest.mark.parametrize("call_id", ["same", "", None, "call|1 \u00e9", "x" * 300])
def test_ids_of_calls_are_put_in_order(adapter: Adapter, call_id: str | None) -> None:
    """An id that comes twice, or is none, is sent back as one of its own; no call is lost."""
    twice = Said(
        calls=(
            SaidCall("get_store_hours", "{}", call_id=call_id),
            SaidCall("list_orders", "{}", call_id=call_id),
        )
    )
    script = (twice, call("find_ticket", '{"ticket_id":1}', call_id=call_id), Said(text="Done."))
    with talking(adapter, *script) as talk:
        driver = talk.driver
        driver.turn("When do you open?")
        results(driver)
        results(driver)
        loop = driver.requests[-1].loop

    assert 3 == len({one.call_id for turn in loop for one in turn.envelopes})
    assert driver.action.answer is not None
