"""Labelled conversations, and two sets that share none."""

from typing import Any

import pytest

from turnstream.calibration import SetsOverlap, check_disjoint, labelled, repeated_texts, split
from turnstream.calibration.sets import Labelled, LabelledConversation
from turnstream.core.events import ConversationTurn, LiveAction


def turn(turn_id: str, at: int = 0, *, of: str = "c-1", **changes: Any) -> ConversationTurn:
    """A customer turn."""
    return ConversationTurn.model_validate(
        {
            "turn_id": turn_id,
            "conversation_id": of,
            "channel_id": "web",
            "role": "customer",
            "text": f"text {turn_id}",
            "occurred_at": at,
            **changes,
        }
    )


def done(action: str, at: int = 0, *, of: str = "c-1", turn_id: str | None = None) -> LiveAction:
    """What a person did."""
    return LiveAction.model_validate(
        {
            "live_action_id": f"live-{action}-{at}",
            "conversation_id": of,
            "turn_id": turn_id,
            "action": action,
            "actor": "ana",
            "occurred_at": at,
        }
    )


def labels(found: Labelled) -> dict[str, str | None]:
    """Turn id to its label."""
    return {
        one.turn.turn_id: one.label.action if one.label is not None else None
        for conversation in found.conversations
        for one in conversation.turns
    }


def test_an_action_labels_the_turn_that_it_names() -> None:
    """Wherever its line is."""
    found = labelled([done("ask", turn_id="t-2"), turn("t-1"), turn("t-2"), turn("t-3")])

    assert {"t-1": None, "t-2": "ask", "t-3": None} == labels(found)
    assert 0 == found.unplaced


def test_an_action_without_a_turn_labels_the_last_one_before_it() -> None:
    """By time, then by line; an agent's own message is no turn to label."""
    found = labelled(
        [
            turn("t-2", 20),
            turn("t-1", 10),
            turn("a-1", 12, role="agent"),
            done("answer", 15),
            done("refuse", 20),
        ]
    )

    assert {"t-1": "answer", "a-1": None, "t-2": "refuse"} == labels(found)


def test_what_was_done_first_is_the_label() -> None:
    """And what the label leaves open is none."""
    found = labelled(
        [turn("t-1"), done("call_tool"), done("answer"), turn("t-2"), done("unlabelled")]
    )

    assert {"t-1": "call_tool", "t-2": None} == labels(found)
    assert [2, 1] == [len(one.done) for one in found.conversations[0].turns]


def test_actions_that_follow_no_customer_turn_are_counted() -> None:
    """They label nothing."""
    found = labelled(
        [done("answer"), turn("t-1", 5), done("ask", 6, turn_id="t-9"), done("ask", of="c-2")]
    )

    assert 3 == found.unplaced
    assert ["c-1"] == [one.conversation_id for one in found.conversations]


def test_a_repeated_turn_is_labelled_once() -> None:
    """Else what followed it would be entered twice."""
    found = labelled([turn("t-1"), done("ask"), turn("t-1"), done("answer")])

    first, second = found.conversations[0].turns
    assert (["ask", "answer"], []) == (
        [one.action for one in first.done],
        [one.action for one in second.done],
    )


def conversations(count: int) -> tuple[LabelledConversation, ...]:
    """Conversations of one turn."""
    return labelled(turn("t-1", of=f"c-{number}") for number in range(count)).conversations


def test_conversations_are_divided_whole_and_always_alike() -> None:
    """By their ids: neither the order nor the others matter."""
    all_of_them = conversations(1000)

    tuning, control = split(all_of_them, control_share=0.3, seed=0)

    assert 1000 == len(tuning) + len(control)
    assert 250 < len(control) < 350
    assert control[:5] == split(control[:5], control_share=0.3, seed=0)[1]
    assert control != split(all_of_them, control_share=0.3, seed=1)[1]


def test_sets_that_overlap_are_refused() -> None:
    """With the number of conversations in both, and one of them."""
    with pytest.raises(SetsOverlap, match=r"2 conversations are in the tuning .*\('c-2' is one\)"):
        check_disjoint({"c-1", "c-2", "c-3"}, {"c-3", "c-2", "c-4"})

    check_disjoint({"c-1"}, {"c-2"})


def test_texts_of_both_sets_are_counted() -> None:
    """Variants in case and spaces are the same; very short ones do not count."""
    tuning = labelled(
        [turn("t-1", text="Where is my parcel"), turn("t-2", text="yes please")]
    ).conversations
    control = labelled(
        [
            turn("t-1", of="c-2", text="where is  MY parcel"),
            turn("t-2", of="c-2", text="yes please"),
            turn("t-3", of="c-2", text="something else entirely, then"),
            turn("a-1", of="c-2", text="Where is my parcel", role="agent"),
        ]
    ).conversations

    assert 1 == repeated_texts(tuning, control)
