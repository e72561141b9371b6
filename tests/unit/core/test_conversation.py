"""Tests of turnstream.core.conversation, contract, events, identity and definitions."""

import itertools
import uuid
from dataclasses import replace
from typing import get_args

import pytest
from pydantic import ValidationError

from tests.catalogs import DEFINITION, NOW, RULES
from tests.diagram import shown
from tests.driving import Driver, answer
from turnstream.core import contract
from turnstream.core.contract import ACTIONS, REASON_CODES, TABLE, Decision, faults
from turnstream.core.conversation import (
    PHASES,
    TRANSITIONS,
    Activation,
    Conversation,
    IllegalTransition,
    Trigger,
    diagram,
    move,
)
from turnstream.core.definitions import Catalog, FieldDefinition, localized
from turnstream.core.events import ConversationTurn, Source
from turnstream.core.evolution import evolved
from turnstream.core.identity import action_id, decision_id, shadow_id, text_hash, turn_hash
from turnstream.core.publications import ActionEvent


def test_the_diagram_is_current() -> None:
    """The page shows the table; ``python -m tests.diagram`` renews it."""
    assert diagram() == shown()


def test_every_phase_can_be_reached_and_left() -> None:
    """The table has no dead end, and nothing that cannot happen."""
    reached = {"idle"}
    while more := {to for (at, _), to in TRANSITIONS.items() if at in reached} - reached:
        reached |= more

    assert set(PHASES) == reached
    assert set(PHASES) == {at for at, _ in TRANSITIONS}
    assert set(get_args(Trigger)) == {trigger for _, trigger in TRANSITIONS}


@pytest.mark.parametrize(("phase", "trigger"), list(itertools.product(PHASES, get_args(Trigger))))
def test_moves_follow_the_table(phase: str, trigger: str) -> None:
    """A pair of the table leads to its phase; any other is refused by name."""
    state = Conversation(phase=phase)  # type: ignore[arg-type]
    following = TRANSITIONS.get((phase, trigger))  # type: ignore[arg-type]
    if following is None:
        with pytest.raises(IllegalTransition, match=f"{phase!r} does not allow {trigger!r}"):
            move(state, trigger)  # type: ignore[arg-type]
    else:
        assert following == move(state, trigger).phase  # type: ignore[arg-type]


def test_evolving_is_replacing() -> None:
    """The fast copy equals the slow one and leaves the original alone."""
    state = Conversation(activation=Activation("t1", 1, 1))

    assert replace(state, phase="held", input_no=2) == evolved(state, phase="held", input_no=2)
    assert "idle" == state.phase


@pytest.mark.parametrize(
    ("action", "tool", "field", "reason"),
    list(itertools.product(ACTIONS, (None, "", "t"), (None, "", "f"), REASON_CODES)),
)
def test_the_contract_table(action: str, tool: str | None, field: str | None, reason: str) -> None:
    """Exactly the rows of the table are decisions; everything else is named and refused."""
    row = TABLE[action]  # type: ignore[index]
    legal = (
        (bool(tool) if row.tool else tool is None)
        and (bool(field) if row.missing_field else field is None)
        and reason in row.reasons
    )
    given = {"action": action, "tool": tool, "missing_field": field, "reason_code": reason}
    named = faults(action, tool, field, reason)  # type: ignore[arg-type]
    if legal:
        assert () == named
        assert given == Decision.model_validate(given).model_dump()
    else:
        assert named
        with pytest.raises(ValidationError, match=action):
            Decision.model_validate(given)


def test_a_decision_has_its_four_keys() -> None:
    """A key that is absent, and one that is unknown, are refused."""
    given = {"action": "answer", "tool": None, "missing_field": None}
    with pytest.raises(ValidationError, match="reason_code"):
        Decision.model_validate(given)
    whole = {**given, "reason_code": "context_sufficient"}
    with pytest.raises(ValidationError, match="confidence"):
        Decision.model_validate({**whole, "confidence": 1})
    assert contract.reason_for("near_tie") == "uncertain"


def test_an_action_has_one_payload() -> None:
    """An action with another payload than its decision's, or with two, is no event."""
    talk = Driver()
    talk.turn("hello", answer())
    given = talk.action.model_dump()
    with pytest.raises(ValidationError, match="carries exactly 'answer'"):
        ActionEvent.model_validate({**given, "answer": None})
    refusal = {"rule": "r", "text": "t", "locale": "en"}
    with pytest.raises(ValidationError, match="refusal"):
        ActionEvent.model_validate({**given, "refusal": refusal})


def test_ids_are_functions_of_the_input() -> None:
    """An id is the UUIDv5 of its input, and differs in every part of it."""
    source = Source(topic="conversation.turns", partition=3, offset=42)
    namespace = uuid.UUID("6f1d8e52-5a0b-5f0c-9d53-0a5c2c0b7e11")

    expected = str(uuid.uuid5(namespace, "conversation.turns/3/42/0/conv-é"))
    assert expected == action_id("conv-é", source, 0)
    expected = str(uuid.uuid5(namespace, "conversation.turns/3/42/decision/c"))
    assert expected == decision_id("c", source)
    expected = str(uuid.uuid5(namespace, "conversation.turns/3/42/shadow-proposal/c"))
    assert expected == shadow_id("c", source, "proposal")
    others = {
        action_id("c", source, 0),
        action_id("c", source, 1),
        action_id("d", source, 0),
        action_id("c", source.model_copy(update={"offset": 43}), 0),
        action_id("c", source.model_copy(update={"partition": 4}), 0),
        action_id("c", source.model_copy(update={"topic": "other"}), 0),
    }
    assert 6 == len(others)


def test_hashes() -> None:
    """A turn's hash tells contents apart; a text's hash does not see white space."""
    turn = ConversationTurn(
        turn_id="t",
        conversation_id="c",
        channel_id="web",
        role="customer",
        text="hi",
        occurred_at=NOW,
    )
    changed = turn.model_copy(update={"text": "ho"})

    assert turn_hash(turn) == turn_hash(turn.model_copy())
    assert turn_hash(turn) != turn_hash(changed)
    assert text_hash("a b") == text_hash(" a \n b")
    assert text_hash("a b") != text_hash("ab")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("fr", "fr"), ("fr-CA", "fr"), ("de", "en-GB"), (None, "en-GB")],
)
def test_localized(wanted: str | None, found: str) -> None:
    """The exact tag wins, then its language, then the default locale."""
    texts = {"fr": "f", "en-GB": "e"}

    assert (found, texts[found]) == localized(texts, wanted, "en-GB")


def test_localized_without_a_match() -> None:
    """The first text is better than none."""
    assert ("it", "i") == localized({"it": "i", "es": "s"}, "fr", "en")


def test_subjects() -> None:
    """A tool's subject is its own or its name; an answer's is its own, its tool's or its name."""
    catalog = RULES.catalog

    assert "order" == catalog.subject_of_tool("get_order")
    assert "search_help" == catalog.subject_of_tool("search_help")
    assert "shop" == catalog.subject_of_answer("hours")
    assert "order" == catalog.subject_of_answer("order_status")
    assert "greeting" == catalog.subject_of_answer("greeting")


def test_choices_belong_to_choice_fields() -> None:
    """A choice field without choices, and choices of another type, are refused."""
    with pytest.raises(ValidationError, match="choices are required"):
        FieldDefinition(description="x", type="choice")
    assert Catalog.model_validate(DEFINITION) == RULES.catalog
