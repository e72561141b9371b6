"""How often the embedded decider does what a person would do, on requests written for this test."""

from collections.abc import Callable
from pathlib import Path

import yaml

from tests.copies import near_copies
from turnstream.core.contract import ACTIONS
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.models.catalog_rules import CatalogRules

Ask = Callable[..., DecisionRequest]

REQUESTS: list[tuple[str, str, str]] = [
    (text, action, target)
    for text, action, target in yaml.safe_load(
        (Path(__file__).parent / "dev_requests.yaml").read_text(encoding="utf-8")
    )
]

RIGHT = 592
"""Requests whose action and target must be right: 594 of 629 were when this was measured (94 %),
less two that another linear algebra library may round the other way."""
RIGHT_ACTIONS = 598
"""Requests whose action must be right; 600 were."""


def _target(proposal: Proposal) -> str:
    if proposal.action == "handoff":
        return proposal.handoff_cause or proposal.reason_code
    found = proposal.tool or proposal.needed_for or proposal.answer_id or proposal.rule
    return found or ""


def _right(proposal: Proposal, target: str) -> bool:
    return target in (_target(proposal), proposal.reason_code)


def test_requests_are_no_copies_of_examples(catalog: Catalog) -> None:
    """No request is an example of the catalog or of the decider, or nearly one."""
    assert [] == near_copies([text for text, _, _ in REQUESTS], catalog)


def test_accuracy_does_not_fall(decider: CatalogRules, ask: Ask) -> None:
    """Action and target together are right at least as often as when this was measured."""
    wrong = [
        (text, action, target, proposal.action, _target(proposal))
        for text, action, target in REQUESTS
        if (proposal := decider.propose(ask(text))).action != action or not _right(proposal, target)
    ]

    assert len(REQUESTS) == 629
    assert len(REQUESTS) - len(wrong) >= RIGHT, wrong


def test_actions_are_right(decider: CatalogRules, ask: Ask) -> None:
    """The action alone is right at least as often as measured, and every action occurs."""
    proposed = [decider.propose(ask(text)).action for text, _, _ in REQUESTS]
    right = sum(action == wanted for action, (_, wanted, _) in zip(proposed, REQUESTS, strict=True))

    assert right >= RIGHT_ACTIONS
    assert set(ACTIONS) == set(proposed)


def test_no_write_is_called_against_the_customers_wish(decider: CatalogRules, ask: Ask) -> None:
    """A request that a person would not cancel for is never a call of a tool that cancels."""
    called = [
        text
        for text, _, target in REQUESTS
        if target != "cancel_order" and decider.propose(ask(text)).tool == "cancel_order"
    ]

    assert [] == called


def test_confidence_is_calibrated(decider: CatalogRules, ask: Ask) -> None:
    """Within four bands of confidence the share of right intents is near the mean confidence."""
    bands: dict[int, list[tuple[float, bool]]] = {}
    for text, action, target in REQUESTS:
        proposal = decider.propose(ask(text))
        right = proposal.action == action and _right(proposal, target)
        band = min(int(proposal.confidence * 4), 3)
        bands.setdefault(band, []).append((proposal.confidence, right))
    error = sum(
        abs(sum(confidence for confidence, _ in band) - sum(right for _, right in band))
        for band in bands.values()
    ) / len(REQUESTS)

    assert error < 0.1
