"""What comes after a question or an answer: no write that nobody asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Message, Proposal
from turnstream.models.catalog_rules import CatalogRules

Ask = Callable[..., DecisionRequest]

LINES: Final[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "follow_ups.yaml").read_text(encoding="utf-8")
)
VALUED: Final = [
    line.replace("#", "A-1002")
    for kind in ("corrections", "replies", "complaints")
    for line in LINES[kind]
]

SITUATIONS: Final[dict[str, dict[str, Any]]] = {
    "answers the question": {
        "earlier": ("Où est mon colis ?",),
        "open_intent": "get_order_status",
        "answered_field": "order_id",
    },
    "corrects the value of a result": {
        "earlier": ("Where is my order A-1001?",),
        "open_intent": "get_order_status",
    },
    "comes after an answer": {"earlier": ("Where is my order A-1001?",)},
    "comes first": {},
}


def _target(proposal: Proposal) -> str | None:
    return proposal.tool or proposal.needed_for


def _writes(catalog: Catalog) -> set[str]:
    return {name for name, tool in catalog.tools.items() if tool.effect == "write"}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_write_that_nobody_named(
    decider: CatalogRules, ask: Ask, catalog: Catalog, situation: str
) -> None:
    """Corrections, fillers, courtesies and complaints beside a number never lead to a write."""
    writes = _writes(catalog)
    proposed = {
        line: target
        for line in [*VALUED, *LINES["without_value"]]
        if (target := _target(decider.propose(ask(line, **SITUATIONS[situation])))) in writes
    }

    assert {} == proposed


@pytest.mark.parametrize("situation", ["answers the question", "corrects the value of a result"])
def test_value_continues_the_open_request(decider: CatalogRules, ask: Ask, situation: str) -> None:
    """Whatever surrounds the value that was asked for or corrected, the same look-up goes on."""
    other = {
        line: proposal
        for line in VALUED
        if (proposal := decider.propose(ask(line, **SITUATIONS[situation]))).tool
        != "get_order_status"
    }

    assert {} == other


@pytest.mark.parametrize("situation", ["comes after an answer", "comes first"])
def test_value_is_looked_up(decider: CatalogRules, ask: Ask, situation: str) -> None:
    """A number among words that ask for nothing continues the last look-up, or is looked up."""
    other = {
        line: proposal
        for kind in ("corrections", "replies")
        for line in LINES[kind]
        if (
            proposal := decider.propose(ask(line.replace("#", "A-1002"), **SITUATIONS[situation]))
        ).tool
        != "get_order_status"
    }

    assert {} == other


def test_value_continues_an_open_write_and_no_other(decider: CatalogRules, ask: Ask) -> None:
    """The reply to a write's question goes on with that write."""
    other = {
        line: proposal
        for line in VALUED
        if (
            proposal := decider.propose(
                ask(
                    line,
                    earlier=("Je veux une étiquette de retour",),
                    open_intent="create_return_label",
                    answered_field="order_id",
                )
            )
        ).tool
        != "create_return_label"
    }

    assert {} == other


@pytest.mark.parametrize(
    ("opening", "intent"),
    [("Où est mon colis ?", "get_order_status"), ("Annulez ma commande", "cancel_order")],
)
def test_reply_without_value_repeats_the_question(
    decider: CatalogRules, ask: Ask, opening: str, intent: str
) -> None:
    """Having no value is neither small talk nor another request: the question is put again."""
    lines = [*LINES["without_value"], "merci", "hello", "ok thanks, bye"]
    proposals = [
        decider.propose(ask(line, earlier=(opening,), open_intent=intent)) for line in lines
    ]

    assert {("ask", "order_id", intent)} == {
        (one.action, one.missing_field, one.needed_for) for one in proposals
    }


@pytest.mark.parametrize("situation", SITUATIONS)
def test_named_writes_are_called(decider: CatalogRules, ask: Ask, situation: str) -> None:
    """A message that names the write gets it, also in place of an open look-up."""
    called = [
        (line, decider.propose(ask(line.replace("#", "A-1002"), **SITUATIONS[situation])).tool)
        for line, _ in LINES["writes"]
    ]

    assert [(line, tool) for line, tool in LINES["writes"]] == called


@pytest.mark.parametrize("text", ["et la A-1002 ?", "A-1002", "wrong one, I meant A-1002"])
def test_finished_write_is_not_repeated(decider: CatalogRules, ask: Ask, text: str) -> None:
    """A value after a write that is over does not write again."""
    proposal = decider.propose(ask(text, earlier=("Annulez la commande A-1001",)))

    assert ("handoff", "uncertain") == (proposal.action, proposal.reason_code)


@pytest.mark.parametrize(
    "text",
    [
        "is A-3001 on its way?",
        "A-3001 ?",
        "et la A-1002 ?",
        "des nouvelles de A-1009 ?",
        "what about A-1002",
        "A-1009 expédiée ?",
        "parcel A-1002?",
        "ma commande A-1002",
        "how's A-1002 doing",
    ],
)
def test_short_question_about_a_value_is_looked_up(
    decider: CatalogRules, ask: Ask, text: str
) -> None:
    """A value with next to nothing beside it goes to the look-up that takes it."""
    assert "get_order_status" == decider.propose(ask(text)).tool


def test_our_own_question_names_nothing(decider: CatalogRules, ask: Ask) -> None:
    """What the assistant said about a write is no request for it."""
    request = ask(
        "A-1002",
        open_intent="cancel_order",
        answered_field="order_id",
        messages=(
            Message("customer", "Une chose avec ma commande"),
            Message("assistant", "Indiquez le numéro de la commande à annuler."),
            Message("customer", "A-1002"),
        ),
    )

    assert "uncertain" == decider.propose(request).reason_code
