"""Any reply of a decisions API: nothing crashes, and nothing is done that was not on offer."""

import asyncio
import json
from typing import Any

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decisions_service import Reply, Service
from tests.driving import Driver
from tests.properties.test_arguments import EXAMPLES
from tests.unit.models.test_decisions_api import CATALOG, RULES
from turnstream.core.effects import Undecided
from turnstream.core.ports import DeciderUnavailable, DecisionRequest, Proposal
from turnstream.models.decision_trail import NONE

OPTIONS = [
    *("answer", "tool", "ask", "cannot", NONE, "call_tool", "handoff", ""),
    *CATALOG.tools,
    *(f"tool:{name}" for name in CATALOG.tools),
    *CATALOG.answers,
]

NUMBERS = st.sampled_from([0, 1, 0.5, 0.25, 0.91, -0.1, 1.1, True, None, "0.5"]) | st.floats()

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Something that resembles an answer."""
    choice = draw(st.sampled_from(OPTIONS) | st.text(max_size=5) | JSON)
    answer: dict[str, Any] = {"choice": choice}
    if draw(st.booleans()):
        shares = {"answer": 0.0, "tool": 0.0, "ask": 0.0, "cannot": 0.0}
        answer["probabilities"] = draw(
            st.dictionaries(st.sampled_from(OPTIONS), NUMBERS, max_size=4)
            | JSON
            | st.sampled_from([{**shares, str(choice): 1.0}, {**shares, "ask": 1}])
        )
    if draw(st.booleans()):
        answer["confidence"] = draw(NUMBERS)
    if draw(st.booleans()):
        answer["type"] = draw(st.sampled_from(["choice", "score", None]))
    return answer


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """A reply to any question: an option, something that resembles a reply, or anything."""
    kind = draw(st.sampled_from(["option", "answer", "answer", "json", "bytes", "status"]))
    match kind:
        case "option":
            answer = {"choice": draw(st.sampled_from(OPTIONS))}
        case "answer":
            answer = draw(answers())
        case "json":
            return httpx.Response(200, content=json.dumps(draw(JSON)).encode())
        case "bytes":
            return httpx.Response(200, content=draw(st.binary(max_size=20)))
        case _:
            return httpx.Response(draw(st.sampled_from([204, 302, 400, 401, 429, 500, 503])))
    named = dict.fromkeys(("step", "tool", "answer"), answer)
    body = {"answers": named, "model": draw(JSON), "usage": draw(JSON)}
    return httpx.Response(200, content=json.dumps(body).encode())


@given(given_replies=st.lists(replies(), min_size=1, max_size=6), merged=st.booleans())
@settings(max_examples=EXAMPLES, deadline=None)
def test_any_reply_leads_to_a_legal_step(given_replies: list[Reply], *, merged: bool) -> None:
    """A call has only the argument that the customer gave; a broken reply is no proposal."""
    at = iter(range(1_000))
    service = Service(decide=lambda _body: copied(given_replies[next(at) % len(given_replies)]))
    model = service.model(CATALOG, merge_steps_up_to=5 if merged else 0)

    def decide(asked: DecisionRequest) -> Proposal | Undecided:
        try:
            return asyncio.run(model.propose(asked))
        except DeciderUnavailable:
            return Undecided("no proposal")

    driver = Driver(rules=RULES, decide=decide)
    driver.turn("Où est la commande A-1001 ?")

    actions = driver.actions
    assert len(actions) == 1
    for action in actions:
        if action.call is not None:
            assert action.decision.tool in CATALOG.tools
            assert {"order_number": "A-1001"} == json.loads(action.call.arguments_json)
    assert driver.phase in ("idle", "held", "waiting_calls", "waiting_answer", "waiting_reply")


def copied(reply: Reply) -> Reply:
    """The same reply once more; one that has been read cannot be sent again."""
    assert isinstance(reply, httpx.Response)
    return httpx.Response(reply.status_code, content=reply.content)
