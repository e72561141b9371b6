"""The questions behind one proposal: what was chosen, how surely, and what it took."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pydantic import JsonValue

from turnstream.config.decisions import DecisionsSettings
from turnstream.core.contract import Action
from turnstream.models.decision_wire import Answered, Choice, DecisionsClient, Question

STEPS: Final = ("answer", "tool", "ask", "cannot")
"""The options of every first question."""

NONE: Final = "(none)"
"""No tool or answer has such a name: theirs are letters, digits, _ and -."""

MERGED: Final = "tool:"
"""Before a tool's name among the options of a merged question; a tool may be called `ask`."""

UNLISTED: Final = "unlisted_option"
"""What is proposed for a step that was not among the options: no action, so it is blocked."""

BY_PROBABILITY: Final = "probability of what was chosen"
BY_NOTHING: Final = "none: the service gives no number"


@dataclass(slots=True)
class Trail:
    """Puts the questions of one proposal and remembers what came of them."""

    client: DecisionsClient
    state: Mapping[str, JsonValue]
    questions: list[Question] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)

    async def choose(self, question: Question) -> Choice:
        """Put a question.

        Raises:
            DeciderUnavailable: as `DecisionsClient.choose`.
        """
        answered = await self.client.choose(question, self.state)
        self.questions.append(question)
        self.answered.append(answered)
        return answered.choice

    @property
    def choices(self) -> list[Choice]:
        """What was chosen, in order."""
        return [one.choice for one in self.answered]

    @property
    def margin(self) -> float | None:
        """The least distance between two best options of any question."""
        margins = [one.margin for one in self.choices if one.margin is not None]
        return min(margins, default=None)

    def confidence(self, settings: DecisionsSettings) -> tuple[float, str]:
        """How surely all of it was chosen, 0 to 1, and what the number means."""
        own = [one.confidence for one in self.choices if one.confidence is not None]
        if settings.confidence == "provider" and len(own) == len(self.choices):
            return min(own), f"confidence of the service: {settings.confidence_means}"
        product = 1.0
        for one in self.choices:
            if one.probability is None:
                return 0.0, BY_NOTHING
            product *= one.probability
        return product, BY_PROBABILITY

    def by_action(self, *, refused: bool) -> dict[Action, float]:
        """The probability of each action, as the first question tells them apart.

        Args:
            refused: whether *cannot* means a refusal here, and not a person.
        """
        shares = self.choices[0].probabilities
        if not shares:
            return {}
        cannot = shares["cannot"]
        merged = sum(share for option, share in shares.items() if option.startswith(MERGED))
        return {
            "answer": shares["answer"],
            "call_tool": shares.get("tool", merged),
            "ask": shares["ask"],
            "refuse": cannot if refused else 0.0,
            "handoff": 0.0 if refused else cannot,
        }

    def notes(self, settings: DecisionsSettings) -> dict[str, JsonValue]:
        """What is worth keeping: names of ours and numbers, no customer's words."""
        step = self.choices[0]
        notes: dict[str, JsonValue] = {
            "requests": len(self.answered),
            "step": step.option if step.listed else UNLISTED,
            "latency_ms": round(sum(one.seconds for one in self.answered) * 1000),
        }
        for question, choice in zip(self.questions, self.choices, strict=True):
            tools = _tool_shares(question, choice)
            if tools:
                notes["tool_probabilities"] = tools
        if any(not one.listed for one in self.choices):
            notes["unlisted"] = True
        tokens_in = _sum(one.input_tokens for one in self.answered)
        tokens_out = _sum(one.output_tokens for one in self.answered)
        cost, price = _sum(one.cost for one in self.answered), settings.price
        if cost is None and price is not None and tokens_in is not None and tokens_out is not None:
            cost = tokens_in * price.input_per_million + tokens_out * price.output_per_million
            cost /= 1_000_000
            notes["currency"] = price.currency
        counted = {"input_tokens": tokens_in, "output_tokens": tokens_out, "cost": cost}
        notes.update({name: amount for name, amount in counted.items() if amount is not None})
        served_by = {one.model for one in self.answered if one.model is not None}
        if served_by:
            notes["served_by"] = ", ".join(sorted(served_by))
        return notes


N = TypeVar("N", int, float)


def _sum(amounts: Iterable[N | None]) -> N | None:
    """The sum; None where one is not known: half a cost would pass for the whole."""
    known = list(amounts)
    return None if None in known else sum(one for one in known if one is not None)


def _tool_shares(question: Question, choice: Choice) -> dict[str, JsonValue]:
    """Tool to probability, where a question was about tools."""
    if question.name == "tool":
        return {name: share for name, share in choice.probabilities.items() if name != NONE}
    return {
        option.removeprefix(MERGED): share
        for option, share in choice.probabilities.items()
        if option.startswith(MERGED)
    }
