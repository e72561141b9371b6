"""Tests of turnstream.core.allowed: what a model is told that it may name."""

import pytest

from tests.agents import agent_rules, calling, tool, wanting
from tests.driving import CLAIMS, Driver, call
from turnstream.core.allowed import listed, unknown_tool
from turnstream.core.bounds import FAULT_CHARACTERS
from turnstream.core.conversation import Conversation
from turnstream.core.events import SessionClaims


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "none"),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["x" * 100, "y" * 100, "z" * 100, "w"], f"{'x' * 100}, {'y' * 100} and 2 more"),
    ],
)
def test_a_list_says_how_much_it_leaves_out(names: list[str], expected: str) -> None:
    """Whole names only, from the first on."""
    assert expected == listed(names)


def test_a_large_catalog_is_not_repeated() -> None:
    """Five hundred tools, to an agent model and to a decision model: a bounded part is named."""
    rules = agent_rules(tools={f"tool_number_{n}": tool({}) for n in range(500)}, answers={})
    talk = Driver(rules)
    talk.turn("hello", calling(wanting("made_up", {})), call("made_up"), call("made_up"))

    faults = [str(request.fault) for request in talk.requests[1:]]
    assert 2 == len(faults)
    assert {True} == {len(fault) <= FAULT_CHARACTERS for fault in faults}
    assert {"unknown tool; allowed: tool_number_0, tool_number_1"} == {
        fault[: len("unknown tool; allowed: tool_number_0, tool_number_1")] for fault in faults
    }
    assert {True} == {fault.endswith("more") for fault in faults}
    (envelope,) = talk.requests[-1].loop[0].envelopes
    assert envelope.error is not None
    assert len(envelope.error.message) <= FAULT_CHARACTERS


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        (None, "open"),
        (SessionClaims(subject_id=None), "open"),
        (SessionClaims(subject_id=None, permissions=("p",)), "open, paid"),
        (CLAIMS, "open, own"),
        (CLAIMS.model_copy(update={"permissions": ("p",)}), "open, own, paid"),
    ],
)
def test_only_what_the_session_may_use_is_allowed(
    session: SessionClaims | None, expected: str
) -> None:
    """A name that leads to a refusal is no way out."""
    rules = agent_rules(
        tools={
            "open": tool({}),
            "own": tool({}, data_scope="own"),
            "paid": tool({}, required_permissions=["p"]),
        },
        answers={},
    )
    state = Conversation(agent="shop", session=session)

    assert f"unknown tool; allowed: {expected}" == unknown_tool(state, rules)
