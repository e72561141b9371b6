"""What a decision has taken, over all of its proposals and attempts."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from tests.catalogs import RULES
from tests.unit.roles.bench import Counted
from turnstream.core.effects import Undecided
from turnstream.core.ports import Proposal
from turnstream.models.scripted import answer
from turnstream.roles.spending import IN_ALL, Spending, count_spent

REPLY = answer("hours")


def taking(**notes: JsonValue) -> Proposal:
    """A proposal that says what its reply took."""
    return replace(REPLY, diagnostics=notes)


def test_one_reply_says_it_all_itself() -> None:
    """Nothing is added where nothing else was needed."""
    proposal = taking(input_tokens=10, output_tokens=2)

    assert proposal == Spending().reply(proposal)


def test_blocked_proposals_and_failed_attempts_are_added_up() -> None:
    """Tokens and cost of every reply, and how often there was none."""
    spending = Spending()
    spending.failure("timeout", {})
    spending.failure("unavailable", {"input_tokens": 5, "output_tokens": 1})
    spending.reply(taking(input_tokens=10, output_tokens=2, cost=0.1, currency="EUR"))
    found = spending.reply(
        taking(
            input_tokens=20,
            output_tokens=3,
            cost=0.2,
            currency="EUR",
            arguments={"input_tokens": 100, "output_tokens": 7, "cost": 1, "currency": "USD"},
        )
    )

    assert 20 == found.diagnostics["input_tokens"], "a reply's own figures stay its own"
    assert {
        "proposals": 2,
        "input_tokens": 135,
        "output_tokens": 13,
        "failed_attempts": {"timeout": 1, "unavailable": 1},
        "cost": {"EUR": 0.3, "USD": 1.0},
    } == found.diagnostics[IN_ALL]


def test_what_no_proposal_came_of_was_paid_for_all_the_same() -> None:
    """The end of the attempts says what they took; one that nobody was asked for took nothing."""
    spending = Spending()
    assert Undecided("no time") == spending.undecided("no time")

    spending.failure("unavailable", {"input_tokens": 5, "cost": 0.25, "currency": "EUR"})
    assert {
        "proposals": 0,
        "input_tokens": 5,
        "output_tokens": 0,
        "failed_attempts": {"unavailable": 1},
        "cost": {"EUR": 0.25},
    } == spending.undecided("no proposal").diagnostics[IN_ALL]


@pytest.mark.parametrize("amount", [-1, True, "12", None, float("nan"), float("inf"), [1], 10**400])
def test_what_is_no_amount_is_not_counted(amount: Any) -> None:
    """A decider of one's own may note anything under these names."""
    counted = Counted(RULES.catalog)
    notes = {"input_tokens": amount, "output_tokens": 4, "cost": amount, "currency": 5}
    count_spent(counted.metrics, "model", notes)

    def tokens(direction: str) -> float:
        return counted.value("decider_tokens_total", decider="model", direction=direction)

    assert (0, 4) == (tokens("in"), tokens("out"))
    assert 0 == counted.value("decider_cost_total", decider="model", currency="other")


def test_labels_come_from_the_configuration_alone() -> None:
    """A decider or a currency that is not configured is counted under `other`."""
    counted = Counted(RULES.catalog)
    for currency in ("USD", "XYZ"):
        count_spent(counted.metrics, "model", {"cost": 2, "currency": currency})
    count_spent(counted.metrics, "model", {"cost": 3})
    count_spent(counted.metrics, "made up", {"input_tokens": 1})

    def cost(currency: str) -> float:
        return counted.value("decider_cost_total", decider="model", currency=currency)

    assert (2, 5) == (cost("USD"), cost("other"))
    assert 1 == counted.value("decider_tokens_total", decider="other", direction="in")
