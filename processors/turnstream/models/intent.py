"""What a customer wants: the catalog's tools, answers and refusal rules ranked for one message.

Only what the customer wrote is read. Passages, tool results and the texts of the catalog's
answers never take part, so nothing that is written in them can choose a step.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import Final, Literal

from turnstream.core.definitions import Catalog
from turnstream.models.person import PERSON_REQUESTS
from turnstream.text import OptionTexts, Reading, Scores, TextIndex

IntentKind = Literal["tool", "answer", "rule", "person", "none"]

TEMPERATURE: Final = 0.9
"""Divides the scores before the softmax. Of the values 0.4 to 1.4 that were tried, the one with
the least log loss on two thirds of the development requests beside the tests. It makes the
probability of the best intent a fair estimate of how often it is right (a test checks four bands),
and that is what the catalog's thresholds are compared with."""

_NONE_SCORE: Final = 1.4
"""Score of *nothing of the catalog*. One shared content word is less than this, two are more."""

_FOREIGN_SCORE: Final = 0.9
"""What each content word that the catalog does not know adds to *nothing of the catalog*."""

_MOST_FOREIGN: Final = 4
"""Foreign words that count: the story around a request is not evidence against the request."""

_WRITE_HANDICAP: Final = 0.5
"""Taken off the score of tools that write: where the words fit a look-up as well, look up."""

_UNNAMED_HANDICAP: Final = 2.0
"""Taken off as well when no word names what a write tool does, only what it does it to."""

_NAMING: Final = 1.5
"""How much more a word must weigh for a write tool than for any look-up to name what the tool
does."""

_RULE_HANDICAP: Final = 0.8
"""Taken off the score of refusal rules: a shared noun alone must not refuse a customer."""

_AFFIRMED_SHARE: Final = 0.6
"""Part of a write tool's score that must come from words which are not denied. *Cancel it, I do
not want it any more* keeps most of it; in *I do not want to cancel my order* only the order is
left."""

CLEAR: Final = 0.8
"""Probability from which a wish counts as clearly expressed."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that a customer may want."""

    kind: IntentKind
    name: str
    writes: bool = False
    fields: tuple[str, ...] = ()
    """Fields that a tool's arguments come from."""


NOTHING: Final = Intent("none", "")
PERSON: Final = Intent("person", "")


@dataclass(frozen=True, slots=True)
class Ranking:
    """The intents of one message with their probabilities."""

    intents: tuple[Intent, ...]
    probabilities: tuple[float, ...]
    """In the order of `intents`; they sum to 1."""
    best: int
    second: int
    """Position of the best intent that conflicts with `best`."""
    fields: tuple[str, ...]
    """Fields that the message gives a value for."""
    content: bool
    """Whether the message has content words, beside such values."""
    doubtful: bool
    """True when the best intent rests on words that the customer negated or said to be over."""

    @property
    def intent(self) -> Intent:
        """The best intent."""
        return self.intents[self.best]

    @property
    def confidence(self) -> float:
        """The probability of the best intent."""
        return self.probabilities[self.best]

    @property
    def margin(self) -> float:
        """Distance to the best intent that would lead to another step."""
        return self.probabilities[self.best] - self.probabilities[self.second]

    def of(self, intent: Intent) -> float:
        """The probability of an intent; 0 for one that was not offered."""
        for one, probability in zip(self.intents, self.probabilities, strict=True):
            if one == intent:
                return probability
        return 0.0


class Intents:
    """The intents of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        """Index the texts of the catalog."""
        described = list(_described(catalog))
        self.all: tuple[Intent, ...] = (*(intent for intent, _ in described), NOTHING)
        self.of_tool = {one.name: one for one in self.all if one.kind == "tool"}
        self.of_answer = {one.name: one for one in self.all if one.kind == "answer"}
        self._handicaps = [
            _WRITE_HANDICAP if one.writes else _RULE_HANDICAP if one.kind == "rule" else 0.0
            for one in self.all
        ]
        self._index = TextIndex(
            [texts for _, texts in described],
            languages=_languages(catalog),
            patterns={
                name: field.pattern
                for name, field in catalog.fields.items()
                if field.pattern is not None
            },
            wordings={
                name: [
                    wording
                    for value, choice in field.choices.items()
                    for wording in (
                        value.replace("_", " "),
                        *choice.label.values(),
                        *choice.aliases,
                    )
                ]
                for name, field in catalog.fields.items()
                if field.choices
            },
        )

    def rank(self, text: str, offered: frozenset[str]) -> Ranking:
        """Rank the intents for a message.

        Args:
            text: what the customer wrote.
            offered: names of the tools that may be chosen; the others are left out.
        """
        reading = self._index.read(text)
        scores = self._index.score(reading)
        probabilities = self._probabilities(scores, offered)
        best = probabilities.index(max(probabilities))
        if self.all[best].writes and not self._named(reading, best):
            scores.values[best] -= _UNNAMED_HANDICAP
            probabilities = self._probabilities(scores, offered)
            best = probabilities.index(max(probabilities))
        doubtful = False
        if self.all[best].writes and reading.denied:
            affirmed = self._index.score(reading, without_denied=True)
            if affirmed.values[best] < _AFFIRMED_SHARE * scores.values[best]:
                probabilities = self._probabilities(affirmed, offered)
                best = probabilities.index(max(probabilities))
                doubtful = self.all[best].writes or probabilities[best] < CLEAR
        return Ranking(
            intents=self.all,
            probabilities=tuple(probabilities),
            best=best,
            second=self._rival(best, probabilities, courtesy=not reading.says_something),
            fields=reading.fields,
            content=reading.has_content,
            doubtful=doubtful,
        )

    def _named(self, reading: Reading, option: int) -> bool:
        """Whether a content word stands for the action of a write tool: the verb decides."""
        for word in reading.words:
            if word.kind != "content":
                continue
            own = looked_up = 0.0
            for at, weight in word.weights:
                if at == option:
                    own = weight
                elif weight > looked_up and self.all[at].kind == "tool" and not self.all[at].writes:
                    looked_up = weight
            if own > _NAMING * looked_up:
                return True
        return False

    def _probabilities(self, scores: Scores, offered: frozenset[str]) -> list[float]:
        none = _NONE_SCORE + _FOREIGN_SCORE * min(scores.foreign, _MOST_FOREIGN)
        weighed = [
            exp((score - handicap - none) / TEMPERATURE)
            if score > 0 and (intent.kind != "tool" or intent.name in offered)
            else 0.0
            for intent, handicap, score in zip(
                self.all, self._handicaps, scores.values, strict=False
            )
        ]
        weighed.append(1.0)
        total = sum(weighed)
        return [one / total for one in weighed]

    def _rival(self, best: int, probabilities: list[float], *, courtesy: bool) -> int:
        """The most probable intent that conflicts with the best one.

        A wish for a person and *nothing of the catalog* both bring a person in. Two courtesies do
        not conflict either: nobody minds a greeting answered with thanks.
        """
        agreeing: tuple[IntentKind, ...] = ()
        if self.all[best].kind in ("person", "none"):
            agreeing = ("person", "none")
        elif courtesy:
            agreeing = (self.all[best].kind,)
        second = -1
        for at, probability in enumerate(probabilities):
            if at == best or self.all[at].kind in agreeing:
                continue
            if second < 0 or probability > probabilities[second]:
                second = at
        return best if second < 0 else second


def _described(catalog: Catalog) -> Iterator[tuple[Intent, OptionTexts]]:
    for name, tool in catalog.tools.items():
        fields = tuple(
            [
                source.field or argument
                for argument, source in tool.arguments.items()
                if "message" in source.provenance or "record" in source.provenance
            ]
        )
        yield (
            Intent("tool", name, writes=tool.effect == "write", fields=fields),
            OptionTexts(_with_name(name, tool.description), tool.examples, fields),
        )
    for name, answer in catalog.answers.items():
        # An answer that presents a result is chosen by the result, never by words.
        if answer.of_tool is None:
            yield (
                Intent("answer", name),
                OptionTexts(_with_name(name, answer.description), answer.examples),
            )
    for name, rule in catalog.rules.items():
        # A rule without examples is one that code applies (a missing permission).
        if rule.examples:
            yield (
                Intent("rule", name),
                OptionTexts(_with_name(name, rule.description), rule.examples),
            )
    languages = _languages(catalog)
    requests = [text for one in languages for text in PERSON_REQUESTS.get(one, ())]
    yield PERSON, OptionTexts(examples=requests)


def _with_name(name: str, description: str) -> str:
    return f"{name.replace('_', ' ')}. {description}"


def _languages(catalog: Catalog) -> tuple[str, ...]:
    """The primary tags of every locale that the catalog has texts in, its default first."""
    tags = [catalog.default_locale]
    for field in catalog.fields.values():
        tags.extend(field.question or ())
    for answer in catalog.answers.values():
        tags.extend(answer.text)
    for rule in catalog.rules.values():
        tags.extend(rule.text)
    for queue in catalog.queues.values():
        tags.extend(queue.text)
    return tuple(dict.fromkeys(tag.split("-", 1)[0].lower() for tag in tags))
