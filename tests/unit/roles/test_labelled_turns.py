"""Conversations are followed as they went, and what a decider proposes in them is noted."""

import sys
import types
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import small_shop
from turnstream.calibration import LabelledConversation, labelled
from turnstream.config import Settings
from turnstream.core.events import ConversationTurn, LiveAction
from turnstream.core.ports import DeciderUnavailable, DecisionRequest, Proposal
from turnstream.roles.deployment import Deployment
from turnstream.roles.labelled_turns import Followed, Follower

WRITES: dict[str, Any] = {
    **small_shop.CATALOG["tools"]["get_order"],
    "effect": "write",
    "answer": None,
}
CATALOG: dict[str, Any] = {
    **small_shop.CATALOG,
    "tools": {
        **small_shop.CATALOG["tools"],
        "cancel": {**WRITES, "description": "Cancel.", "threshold": 0.8},
        "erase": {**WRITES, "description": "Erase."},
        "guarded": {**WRITES, "description": "Pay.", "required_permissions": ["pay"]},
    },
    "thresholds": {"answer": 0.9, "call_tool": 0.9, "ask": 0.9, "near_tie_margin": 0.5},
}


class Doubtful(small_shop.ByWord):
    """Says how sure it is in the message, and which tool it calls; keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[DecisionRequest] = []

    def propose(self, request: DecisionRequest) -> Proposal:
        """Propose as its base, at 0.3 and hardly apart from another tool."""
        self.requests.append(request)
        if "away" in request.latest:
            raise DeciderUnavailable
        found = replace(super().propose(request), confidence=0.3, margin=0.01)
        for tool in CATALOG["tools"]:
            if tool in request.latest and found.action == "call_tool":
                found = replace(found, tool=tool)
        return found


class Later:
    """The same behind a network."""

    name = "later-1"

    def __init__(self) -> None:
        self._decider = Doubtful()

    def propose(self, request: DecisionRequest) -> Awaitable[Proposal]:
        """Propose, later."""

        async def later() -> Proposal:
            return self._decider.propose(request)

        return later()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with both deciders."""
    module = types.ModuleType("own_deciders")
    monkeypatch.setitem(sys.modules, "own_deciders", module)
    module.doubtful = Doubtful()  # type: ignore[attr-defined]
    module.make = lambda _catalog: module.doubtful  # type: ignore[attr-defined]
    module.later = lambda _catalog: Later()  # type: ignore[attr-defined]
    return module


@pytest.fixture
def follower(tmp_path: Path, own: Any) -> Any:
    """Makes a follower of a decider by the name of its factory."""
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump(CATALOG))
    settings = Settings.model_validate(
        {
            "catalog": path,
            "deciders": {
                name: {"kind": "python", "target": f"own_deciders:{target}"}
                for name, target in (("by_word", "make"), ("later", "later"))
            },
            "decide": {"decider_attempts": 1},
        }
    )
    deployment = Deployment(settings, path)

    def made(decider: str = "by_word") -> Follower:
        return Follower(
            deployment.main, decider=decider, effort=settings.decide, metrics=deployment.metrics
        )

    return made


def conversation(*lines: tuple[str, dict[str, Any] | None], of: str = "c-1", **changes: Any) -> Any:
    """A conversation: messages, each with what was done after it."""
    events: list[ConversationTurn | LiveAction] = []
    for number, (text, done) in enumerate(lines):
        turn = {
            "turn_id": f"t-{number}",
            "conversation_id": of,
            "channel_id": "web",
            "role": "customer",
            "text": text,
            "occurred_at": number * 1000,
            **changes,
        }
        events.append(ConversationTurn.model_validate(turn))
        if done is not None:
            live = {
                "live_action_id": f"l-{number}",
                "conversation_id": of,
                "actor": "ana",
                "occurred_at": number * 1000,
                **done,
            }
            events.append(LiveAction.model_validate(live))
    (made,) = labelled(events).conversations
    return made


async def followed(made: Follower, *conversations: LabelledConversation) -> Followed:
    """What came of following them."""
    return await made.follow(conversations, at_once=2)


ANSWERED = {"action": "answer"}
ASKED = {"action": "ask", "missing_field": "order_id"}


async def test_every_labelled_turn_gives_a_sample(follower: Any) -> None:
    """With what was right, what would be done, and the decider's own numbers."""
    found = await followed(follower(), conversation(("hello", ANSWERED), ("bye", None)))

    (sample,) = found.samples
    assert ("c-1", "t-0", "answer", "answer", True) == (
        sample.conversation_id,
        sample.turn_id,
        sample.right,
        sample.action,
        sample.agrees,
    )
    assert (0.3, 0.01, True) == (sample.confidence, sample.margin, sample.judged)
    assert {"without a label": 1} == found.left_out


async def test_neither_thresholds_nor_near_ties_hold_anything_back(follower: Any) -> None:
    """The catalog's would hand off all of it; a write with a threshold of its own included."""
    found = await followed(
        follower(),
        conversation(("order", ASKED), of="c-1"),
        conversation(("order A-1", {"action": "call_tool", "tool": "get_order"}), of="c-2"),
        conversation(("order A-1 cancel", {"action": "call_tool", "tool": "get_order"}), of="c-3"),
    )

    assert [
        ("ask", None, True),
        ("call_tool", "get_order", True),
        ("call_tool", "cancel", False),
    ] == [(one.action, one.tool, one.agrees) for one in found.samples]


async def test_what_code_forbids_is_no_question_of_confidence(follower: Any) -> None:
    """A write without a threshold is handed off, one without a right refused, at any confidence."""
    found = await followed(
        follower(),
        conversation(("order A-1 erase", ANSWERED), of="c-1"),
        conversation(("order A-1 guarded", ANSWERED), of="c-2"),
        conversation(("a human", ANSWERED), of="c-3"),
    )

    assert [("handoff", False), ("refuse", False), ("handoff", False)] == [
        (one.action, one.judged) for one in found.samples
    ]
    assert "below_threshold" == found.samples[0].cause


async def test_a_conversation_goes_on_as_it_went(follower: Any, own: Any) -> None:
    """Not as the decider would have: what a person asked is what the next message replies to."""
    found = await followed(
        follower(), conversation(("hello", ASKED), ("A-17", {"action": "call_tool"}))
    )

    assert ["answer", "call_tool"] == [one.action for one in found.samples]
    second = own.doubtful.requests[1]
    assert ("order_id", "A-17") == (second.answered_field, second.known["order_id"])


async def test_an_agents_own_message_is_heard_and_not_decided(follower: Any, own: Any) -> None:
    """It stands in the history of the next turn."""
    made = conversation(("hello", ANSWERED), ("more", ANSWERED))
    greeting = made.turns[0].turn.model_copy(
        update={"role": "agent", "turn_id": "a-1", "text": "Good day"}
    )
    first = replace(made.turns[0], turn=greeting, done=())

    found = await followed(follower(), replace(made, turns=(first, made.turns[1])))

    assert ["t-1"] == [one.turn_id for one in found.samples]
    assert [("agent", "Good day"), ("customer", "more")] == [
        (one.role, one.text) for one in own.doubtful.requests[0].messages
    ]


async def test_a_decider_behind_a_network_gives_the_same_samples_in_the_same_order(
    follower: Any,
) -> None:
    """However many conversations are under way at once."""
    talks = [conversation(("hello", ANSWERED), ("order", ASKED), of=f"c-{n}") for n in range(7)]

    at_once = await followed(follower(), *talks)
    later = await followed(follower("later"), *talks)

    assert 14 == len(at_once.samples)
    assert at_once == later
    assert "later-1" == follower("later").made_for.decider


async def test_turns_without_a_proposal_are_counted(follower: Any) -> None:
    """A decider that is away, a channel that nobody knows, labels that leave it open."""
    found = await followed(
        follower(),
        conversation(("away", ANSWERED), of="c-1"),
        conversation(("hello", ANSWERED), of="c-2", channel_id="unknown"),
        conversation(("hello", {"action": "unlabelled"}), of="c-3"),
    )

    assert [] == found.samples
    assert {
        "the decider was not asked, or could not be had": 2,
        "without a label": 1,
    } == found.left_out


@pytest.mark.parametrize(
    ("diagnostics", "rivals", "apart"),
    [
        ({"intent": "tool:a", "rival": "tool:b"}, ("a", "b"), 0.01),
        ({"intent": "tool:a", "rival": "none:"}, None, None),
        ({"intent": "answer:a", "rival": "tool:b"}, None, None),
        ({"tool_probabilities": {"a": 0.2, "b": 0.5, "c": 0.1}}, ("b", "a"), 0.3),
        ({"tool_probabilities": {"a": 1}}, None, None),
        ({"tool_probabilities": {"a": 1, "b": "much"}}, None, None),
        ({"tool_probabilities": [1]}, None, None),
        ({}, None, None),
    ],
)
async def test_the_two_best_tools_come_from_the_diagnostics(
    follower: Any, own: Any, diagnostics: Any, rivals: Any, apart: float | None
) -> None:
    """As the embedded decider writes them, or as probabilities of tools."""
    propose = own.doubtful.propose
    own.doubtful.propose = lambda request: replace(propose(request), diagnostics=diagnostics)

    found = await followed(follower(), conversation(("hello", ANSWERED)))

    assert rivals == found.samples[0].rivals
    assert (None if apart is None else pytest.approx(apart)) == found.samples[0].apart
