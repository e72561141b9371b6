"""Labelled conversations, and their division into a tuning set and a control set.

What is fitted on one half of a conversation and measured on the other is measured on what it was
fitted on: turns of one conversation repeat each other. So whole conversations are divided.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from turnstream.core.contract import ACTIONS
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import ConversationTurn, LiveAction

_ACTIONS: Final = frozenset(ACTIONS)

_FEWEST_WORDS: Final = 4
"""Of texts that are compared: people say *yes, please* in every conversation."""


class SetsOverlap(TurnstreamError):
    """Conversations are in both sets; whoever chose the files must take them out of one."""


@dataclass(frozen=True, slots=True)
class LabelledTurn:
    """A message, and what was done after it."""

    turn: ConversationTurn
    done: tuple[LiveAction, ...]
    """In their order; the first is what was done next."""

    @property
    def label(self) -> LiveAction | None:
        """What was done next, where that is known."""
        first = self.done[0] if self.done else None
        return first if first is not None and first.action in _ACTIONS else None


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """One conversation as it really went."""

    conversation_id: str
    turns: tuple[LabelledTurn, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """All conversations of an input."""

    conversations: tuple[LabelledConversation, ...]
    """In the order in which they begin in the input."""
    unplaced: int = 0
    """Live actions that follow no customer turn of the input: they label nothing."""


def labelled(events: Iterable[ConversationTurn | LiveAction]) -> Labelled:
    """Put turns and live actions of any number of conversations together.

    Turns are in the order of their times, then of the input. A live action belongs to the customer
    turn that it names, else to the last one before it.
    """
    by_conversation: dict[str, list[tuple[int, ConversationTurn | LiveAction]]] = {}
    for place, event in enumerate(events):
        by_conversation.setdefault(event.conversation_id, []).append((place, event))
    made = [_together(name, ordered) for name, ordered in by_conversation.items()]
    return Labelled(
        tuple(one for one, _ in made if one.turns), sum(unplaced for _, unplaced in made)
    )


def _together(
    name: str, events: Sequence[tuple[int, ConversationTurn | LiveAction]]
) -> tuple[LabelledConversation, int]:
    ordered = sorted(events, key=lambda one: (one[1].occurred_at, one[0]))
    customer_turns = {
        event.turn_id
        for _, event in ordered
        if isinstance(event, ConversationTurn) and event.role == "customer"
    }
    done: dict[str, list[LiveAction]] = {}
    turns: list[ConversationTurn] = []
    latest: str | None = None
    unplaced = 0
    for _, event in ordered:
        if isinstance(event, ConversationTurn):
            turns.append(event)
            if event.role == "customer":
                latest = event.turn_id
            continue
        follows = event.turn_id if event.turn_id is not None else latest
        if follows is None or follows not in customer_turns:
            unplaced += 1
        else:
            done.setdefault(follows, []).append(event)
    # A repeated turn id is the same turn again: what followed it is entered once.
    made = tuple(LabelledTurn(turn, tuple(done.pop(turn.turn_id, ()))) for turn in turns)
    return LabelledConversation(name, made), unplaced


def split(
    conversations: Sequence[LabelledConversation], *, control_share: float, seed: int
) -> tuple[list[LabelledConversation], list[LabelledConversation]]:
    """Divide conversations by a hash of their id: the same division on every run and machine.

    Args:
        conversations: all of them.
        control_share: about this part of them, 0 to 1, goes to the control set.
        seed: another one gives another division.

    Returns:
        The tuning set and the control set.
    """
    tuning: list[LabelledConversation] = []
    control: list[LabelledConversation] = []
    for one in conversations:
        digest = blake2b(f"{seed}/{one.conversation_id}".encode(), digest_size=8).digest()
        in_control = int.from_bytes(digest) < control_share * 2**64
        (control if in_control else tuning).append(one)
    return tuning, control


def check_disjoint(tuning: Collection[str], control: Collection[str]) -> None:
    """Refuse sets that share conversations.

    Args:
        tuning: conversation ids.
        control: conversation ids.

    Raises:
        SetsOverlap: with their number and one of them.
    """
    both = set(tuning) & set(control)
    if both:
        raise SetsOverlap(
            f"{len(both)} conversations are in the tuning set and in the control set "
            f"({min(both)!r} is one): what is measured on them says nothing; "
            "take them out of one file"
        )


def repeated_texts(
    tuning: Sequence[LabelledConversation], control: Sequence[LabelledConversation]
) -> int:
    """How many customer turns of the control set are worded as one of the tuning set.

    Variants of one message in both sets make the report kinder than it should be. Very short texts
    do not count.
    """
    known = set(_texts(tuning))
    return sum(text in known for text in _texts(control))


def _texts(conversations: Sequence[LabelledConversation]) -> Iterable[str]:
    for conversation in conversations:
        for one in conversation.turns:
            words = one.turn.text.casefold().split()
            if one.turn.role == "customer" and len(words) >= _FEWEST_WORDS:
                yield " ".join(words)
