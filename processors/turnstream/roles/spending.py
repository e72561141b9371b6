"""What proposals take: tokens, cost, attempts. Counted by decider, and added up for each decision.

A decision may take several proposals (one broke a rule, or was cut off) and each of them several
attempts (a time-out, a rate limit). The diagnostics of a proposal say what its own reply took.
Where there was more than that, `in_all` beside them says what the whole decision took, as far as
it is known: a request that timed out was paid for, but nobody says how much. It stands as well with
a decision that no proposal led to, because the attempts were used up.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from turnstream.core.effects import Undecided
from turnstream.core.ports import Proposal
from turnstream.metrics import Metrics

IN_ALL: Final = "in_all"

_WRITER: Final = "arguments"
"""Where a decision model notes what the model that wrote the arguments took."""

_LARGEST: Final = 2**53
"""Most that is added up: a count of hundreds of digits is no number of tokens, and no float."""

_DIGITS: Final = 9
"""Of a cost: a token costs millionths."""


@dataclass(slots=True)
class Spending:
    """What one decision has taken so far."""

    proposals: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    """Currency to amount."""
    failed: Counter[str] = field(default_factory=Counter)
    """Kind of failure to attempts."""

    def failure(self, kind: str, diagnostics: Mapping[str, JsonValue]) -> None:
        """An attempt failed."""
        self.failed[kind] += 1
        self._add(diagnostics)

    def reply(self, proposal: Proposal) -> Proposal:
        """The same proposal, with what all of the decision took."""
        self.proposals += 1
        self._add(proposal.diagnostics)
        if self.proposals == 1 and not self.failed:
            return proposal
        return replace(proposal, diagnostics={**proposal.diagnostics, IN_ALL: self._in_all()})

    def undecided(self, detail: str) -> Undecided:
        """The end of the attempts, with what they took."""
        if not self.proposals and not self.failed:
            return Undecided(detail)
        return Undecided(detail, {IN_ALL: self._in_all()})

    def _in_all(self) -> dict[str, JsonValue]:
        in_all: dict[str, JsonValue] = {
            "proposals": self.proposals,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        if self.failed:
            in_all["failed_attempts"] = dict(self.failed)
        if self.costs:
            costs = sorted(self.costs.items())
            in_all["cost"] = {currency: round(cost, _DIGITS) for currency, cost in costs}
        return in_all

    def _add(self, diagnostics: Mapping[str, JsonValue]) -> None:
        for one in _replies(diagnostics):
            self.input_tokens += _tokens(one, "input_tokens")
            self.output_tokens += _tokens(one, "output_tokens")
            cost = _amount(one, "cost")
            if cost is not None:
                currency = _currency(one)
                self.costs[currency] = self.costs.get(currency, 0.0) + cost


def count_spent(metrics: Metrics, decider: str, diagnostics: Mapping[str, JsonValue]) -> None:
    """Count what one attempt took."""
    for one in _replies(diagnostics):
        read, written = _tokens(one, "input_tokens"), _tokens(one, "output_tokens")
        if read or written:
            metrics.decider_read_and_wrote(decider, read=read, written=written)
        cost = _amount(one, "cost")
        if cost is not None:
            metrics.decider_cost(decider, cost, currency=_currency(one))


def _replies(diagnostics: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    """The notes on each model's reply."""
    yield diagnostics
    written = diagnostics.get(_WRITER)
    if isinstance(written, Mapping):
        yield written


def _tokens(notes: Mapping[str, JsonValue], name: str) -> int:
    return int(_amount(notes, name) or 0)


def _amount(notes: Mapping[str, JsonValue], name: str) -> float | None:
    """A number that may be added up; a decider of the user's own may note anything."""
    value = notes.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LARGEST else None


def _currency(notes: Mapping[str, JsonValue]) -> str:
    """Its code; empty where a service names a cost and no currency."""
    named = notes.get("currency")
    return named if isinstance(named, str) else ""
