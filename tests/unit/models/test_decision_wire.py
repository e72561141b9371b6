"""What goes over the wire to a decisions API, and what is believed of what comes back."""

import asyncio
from typing import Any, Final

import httpx
import orjson
import pytest

from tests.decisions_service import URL, Reply, Service, chosen, settings
from turnstream.core.ports import DeciderRefused, DeciderUnavailable
from turnstream.models.decision_wire import (
    Answered,
    Choice,
    DecisionsClient,
    Question,
)
from turnstream.plain_http import plain_client

STEP: Final = Question("step", "What next?", {"answer": "say it", "tool": "call", "ask": "ask"})
STATE: Final = {"tools": "get_order(order_id)", "conversation": "customer: hello"}
KEY: Final = "sk-very-secret"


async def asked(reply: Reply, question: Question = STEP, **changes: Any) -> Answered:
    """Put a question that gets one reply."""
    return await Service([reply]).client(**changes).choose(question, STATE)


def body(**changes: Any) -> dict[str, Any]:
    """A good reply with changes in its answer."""
    good = chosen("step", "tool", list(STEP.criteria))
    good["answers"]["step"].update(changes)
    return good


async def test_a_question_is_posted_in_the_documented_form() -> None:
    """Model, state and one question of type choice."""
    service = Service(["tool"])

    await service.client().choose(STEP, STATE)

    assert [f"{URL}/api/alpha/decisions"] == service.urls
    assert [
        {
            "model": "acme/decider-1",
            "state": STATE,
            "questions": {
                "step": {
                    "type": "choice",
                    "instructions": "What next?",
                    "criteria": {"answer": "say it", "tool": "call", "ask": "ask"},
                }
            },
        }
    ] == service.requests


async def test_a_reply_is_read_with_all_that_it_says() -> None:
    """Option, probabilities, confidence, usage and the model that served it."""
    answered = await asked("tool")

    assert "tool" == answered.choice.option
    assert answered.choice.listed
    assert {"answer": 0.045, "tool": 0.91, "ask": 0.045} == pytest.approx(
        answered.choice.probabilities
    )
    assert answered.choice.margin == pytest.approx(0.865)
    assert 0.8 == answered.choice.confidence
    assert answered.choice.probability == pytest.approx(0.91)
    assert ("acme/decider-1-0923", 120, 1, 0.0005) == (
        answered.model,
        answered.input_tokens,
        answered.output_tokens,
        answered.cost,
    )


async def test_the_time_that_a_question_took_is_told() -> None:
    """By the clock that is given."""
    times = iter([10.0, 10.25])
    client = httpx.AsyncClient(transport=httpx.MockTransport(Service(["tool"])))

    answered = await DecisionsClient(settings(), client=client, clock=lambda: next(times)).choose(
        STEP, STATE
    )

    assert 0.25 == answered.seconds


async def test_numbers_that_are_not_given_are_none() -> None:
    """Probabilities, confidence, usage, model and type are optional."""
    answered = await asked({"answers": {"step": {"choice": "ask"}}})

    assert Answered(Choice("ask", listed=True), None, None, None, None, 0.0) == answered
    assert answered.choice.margin is None
    assert answered.choice.probability is None


@pytest.mark.parametrize(
    "usage",
    [None, 3, [], {"input_tokens": -1}, {"cost": "much"}, {"cost": None}, {"input_tokens": 1.5}],
)
async def test_usage_that_makes_no_sense_costs_no_decision(usage: object) -> None:
    """It is left out."""
    answered = await asked({**body(), "usage": usage})

    assert "tool" == answered.choice.option
    assert answered.cost is None


@pytest.mark.parametrize("model", [None, 7, "two\nlines", ""])
async def test_a_models_name_that_is_none_is_left_out(model: object) -> None:
    """It goes into diagnostics, one line at most."""
    answered = await asked({**body(), "model": model})

    assert answered.model in (None, "")


async def test_rounded_probabilities_are_made_to_add_up() -> None:
    """A service rounds to two decimals; the more options, the more is lost."""
    wide = Question("tool", "Which?", {f"t{at}": "a tool" for at in range(40)})
    shares = dict.fromkeys(wide.criteria, 0.02) | {"t0": 0.33}

    few = await asked(body(probabilities={"answer": 0.33, "tool": 0.34, "ask": 0.34}))
    many = await asked(
        {"answers": {"tool": {"choice": "t0", "probabilities": shares}}}, question=wide
    )

    assert sum(few.choice.probabilities.values()) == pytest.approx(1)
    assert sum(many.choice.probabilities.values()) == pytest.approx(1)


async def test_an_option_that_was_not_offered_is_told_apart() -> None:
    """It was chosen, so it is handed on; its numbers are about other options and are not."""
    answered = await asked(body(choice="delete_everything"))

    assert Choice("delete_everything", listed=False) == answered.choice


SHARES: Final = {"answer": 0.045, "tool": 0.91, "ask": 0.045}

MALFORMED: Final[dict[str, Reply]] = {
    "not JSON": httpx.Response(200, text="<html>502</html>"),
    "empty": httpx.Response(200, content=b""),
    "no UTF-8": httpx.Response(200, content=b'{"answers": "\xff"}'),
    "a list": httpx.Response(200, json=[1]),
    "cut off": httpx.Response(200, content=orjson.dumps(body())[:-20]),
    "nested without end": httpx.Response(200, content=b'{"answers":' + b"[" * 100_000),
    "too long": httpx.Response(200, content=b" " * 300_000),
    "compressed": httpx.Response(200, headers={"Content-Encoding": "x-own"}, content=b"{}"),
    "no answers": {"model": "m"},
    "another question": {"answers": {"other": {"choice": "tool"}}},
    "no choice": {"answers": {"step": {"type": "choice"}}},
    "an empty choice": body(choice=""),
    "a long choice": body(choice="x" * 201),
    "a choice that is no text": body(choice=["tool"]),
    "two choices": httpx.Response(
        200, content=orjson.dumps(body()).replace(b'"choice":"', b'"choice":"ask","choice":"', 1)
    ),
    "an answer of another type": body(type="score"),
    "a confidence above 1": body(confidence=1.2),
    "a negative confidence": body(confidence=-0.1),
    "a confidence that is a text": body(confidence="0.9"),
    "a confidence that is a boolean": body(confidence=True),
    "no number": httpx.Response(
        200, content=orjson.dumps(body(confidence=0.5)).replace(b"0.5", b"NaN", 1)
    ),
    "no number among the probabilities": httpx.Response(
        200, content=orjson.dumps(body()).replace(b"0.91", b"NaN", 1)
    ),
    "infinity": httpx.Response(200, content=orjson.dumps(body()).replace(b"0.91", b"1e999", 1)),
    "a negative probability": body(probabilities={**SHARES, "ask": -0.045}),
    "a sum above 1": body(probabilities={**SHARES, "ask": 0.3}),
    "a sum below 1": body(probabilities={**SHARES, "tool": 0.6}),
    "nothing but zeros": body(probabilities=dict.fromkeys(SHARES, 0.0)),
    "an option without probability": body(probabilities={"tool": 1.0}),
    "a probability without option": body(probabilities={**SHARES, "other": 0.0}),
    "a choice that is not the best": body(choice="ask"),
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
async def test_a_reply_that_is_none_is_a_failure_of_the_service(reply: Reply) -> None:
    """It is passing, like a broken connection: nothing was chosen."""
    with pytest.raises(DeciderUnavailable) as raised:
        await asked(reply)

    assert not isinstance(raised.value, DeciderRefused)
    assert raised.value.retry_after_seconds is None


async def test_many_options_with_nothing_but_zeros_are_no_distribution() -> None:
    """However much rounding may take from each."""
    wide = Question("tool", "Which?", {f"t{at}": "a tool" for at in range(255)})
    answer = {"choice": "t0", "probabilities": dict.fromkeys(wide.criteria, 0.0)}

    with pytest.raises(DeciderUnavailable, match="add up to 0"):
        await asked({"answers": {"tool": answer}}, question=wide)


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (httpx.Response(429, headers={"Retry-After": "7"}), 7.0),
        (httpx.Response(429, headers={"Retry-After": "0.5"}), 0.5),
        (httpx.Response(429, headers={"Retry-After": "86400"}), 300.0),
        (httpx.Response(503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), 0.0),
        (httpx.Response(503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 -0000"}), 0.0),
        (httpx.Response(429), None),
        (httpx.Response(429, headers={"Retry-After": "soon"}), None),
        (httpx.Response(429, headers={"Retry-After": "9" * 80}), None),
        (httpx.Response(500), None),
        (httpx.Response(408), None),
        (httpx.Response(425), None),
        (httpx.ConnectError("no route"), None),
        (httpx.ReadError("cut"), None),
        (httpx.ReadTimeout("late"), None),
        (httpx.RemoteProtocolError("half a reply"), None),
    ],
)
async def test_what_passes_says_so(reply: Reply, seconds: float | None) -> None:
    """With the time that the service wants to be left alone, where it names one."""
    with pytest.raises(DeciderUnavailable) as raised:
        await asked(reply)

    assert not isinstance(raised.value, DeciderRefused)
    assert seconds == raised.value.retry_after_seconds


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 413, 422])
async def test_what_does_not_pass_names_the_problem(status: int) -> None:
    """With status, address and model, for the log, and nothing of what was said."""
    refusal = httpx.Response(
        status,
        headers={"Location": "http://elsewhere.test/"},
        json={"error": {"message": "you wrote customer: hello"}},
    )
    with pytest.raises(DeciderRefused) as raised:
        await asked(refusal)

    assert (
        f"{URL}/api/alpha/decisions, model acme/decider-1: status {status}" == raised.value.problem
    )


async def test_a_redirect_is_not_followed() -> None:
    """The key would go where nobody configured it to go."""
    service = Service([httpx.Response(307, headers={"Location": "http://elsewhere.test/"})])

    with pytest.raises(DeciderRefused):
        await service.client().choose(STEP, STATE)

    assert 1 == len(service.urls)
    assert not plain_client().follow_redirects
    assert not plain_client().trust_env


async def test_the_key_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated one is used without a restart."""
    service = Service(["tool", "tool"])
    client = service.client(api_key="env:DECISIONS_KEY")

    for key in ("one", "two"):
        monkeypatch.setenv("DECISIONS_KEY", key)
        await client.choose(STEP, STATE)

    assert ["Bearer one", "Bearer two"] == [one["authorization"] for one in service.headers]


async def test_without_a_key_none_is_sent() -> None:
    """A server of one's own may want none."""
    service = Service(["tool"])

    await service.client().choose(STEP, STATE)

    assert "authorization" not in service.headers[0]
    assert "identity" == service.headers[0]["accept-encoding"]


@pytest.mark.parametrize("key", [None, f"{KEY}\nX-Other: 1", f"{KEY}é"])
async def test_a_key_that_cannot_be_sent_is_an_error_without_it(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names where it should be."""
    service = Service(["tool"])
    if key is None:
        monkeypatch.delenv("DECISIONS_KEY", raising=False)
    else:
        monkeypatch.setenv("DECISIONS_KEY", key)

    with pytest.raises(DeciderRefused, match="env:DECISIONS_KEY") as raised:
        await service.client(api_key="env:DECISIONS_KEY").choose(STEP, STATE)

    assert [] == service.requests
    assert KEY not in raised.value.problem


async def test_one_question_has_its_time() -> None:
    """A service that does not answer in it is not waited for."""

    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    client = httpx.AsyncClient(transport=httpx.MockTransport(never))
    slow = DecisionsClient(settings(timeout_seconds=0.01), client=client)

    with pytest.raises(DeciderUnavailable, match=r"no reply within 0\.01 s"):
        await slow.choose(STEP, STATE)
    await slow.close()

    assert client.is_closed
