"""What a customer wants: the catalog's tools, answers and refusal rules ranked for one message.

Only what the customer wrote is read. Passages, tool results and the texts of the catalog's
answers never take part, so nothing that is written in them can choose a step.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import exp
from typing import Final, Literal

from turnstream.core.definitions import Catalog
from turnstream.models.elsewhere import ELSEWHERE
from turnstream.models.person import PERSON_REQUESTS
from turnstream.text import OptionTexts, Reading, TextIndex, Word

IntentKind = Literal["tool", "answer", "rule", "person", "none"]

TEMPERATURE: Final = 0.5
"""Divides the scores before the softmax, so that the probability of the best intent is a fair
estimate of how often it is right (a test checks four bands): the catalog's thresholds are compared
with it."""

_NONE_SCORE: Final = 0.2
"""Score of *nothing of the catalog*, which its own examples set to 0: better a person too often."""

_WRITE_HANDICAP: Final = 0.4
"""Taken off the score of tools that write: where the words fit a look-up as well, look up."""

_UNNAMED_HANDICAP: Final = 2.0
"""Taken off as well when no word names what a write tool does, only what it does it to."""

_IMPLIED_HANDICAP: Final = 0.8
"""Taken off instead when it is only implied: *I do not want it any more* may mean a return, too."""

_RULE_HANDICAP: Final = 0.4
"""Taken off the score of refusal rules: a shared noun alone must not refuse a customer."""

_LONE_HANDICAP: Final = 0.9
"""Taken off as well when the rule hangs on one of several content words: *my neighbour's
cat* asks for nobody's data."""

_SUPPORTED: Final = 0.12
"""Least probability that a rule keeps without the word that says most for it."""

_CUE: Final = 0.3
"""What a word must say for an option to speak for it."""

_FOREIGN_SCORE: Final = 0.8
"""Added to *nothing of the catalog* when the catalog knows none of the content words, and the part
of it that is unknown otherwise."""

_RECORD_BONUS: Final = 0.8
"""Added to tools that take a value which is known already, when the words point there at all: who
has an order open speaks of it."""

_SAID_SHARE: Final = 0.7
"""What another word must say for the action, next to the word that is denied. *Do not wait, cancel*
keeps its request; in *do not cancel, let it go* nothing is asked for."""

_NAMING: Final = 2.5
"""How much more a word must weigh for a write tool, and how much more often its examples must use
it, than for any look-up, to name what the tool does and not what both are about."""

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
    taken_back: bool
    """True when the message negates a write, or says that it is over."""
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
        self._lookups = [
            at for at, one in enumerate(self.all) if one.kind == "tool" and not one.writes
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
            background=[text for one in _languages(catalog) for text in ELSEWHERE.get(one, ())],
        )
        self._used = [self._words_of(intent, texts) for intent, texts in described]

    def _words_of(self, intent: Intent, texts: OptionTexts) -> Counter[str]:
        """How many examples of a tool use each word."""
        if intent.kind != "tool":
            return Counter()
        return Counter(
            key
            for text in texts.examples
            for key in dict.fromkeys([word.key for word in self._index.read(text).words])
        )

    def rank(self, text: str, offered: frozenset[str], known: Collection[str] = ()) -> Ranking:
        """Rank the intents for a message.

        Args:
            text: what the customer wrote.
            offered: names of the tools that may be chosen; the others are left out.
            known: fields whose value is known already.
        """
        reading = self._index.read(text)
        scores = self._index.score(reading)
        probabilities = self._probabilities(reading, scores, offered, known)
        best = probabilities.index(max(probabilities))
        if self.all[best].writes:
            scores[best] -= self._unnamed(reading, best)
            probabilities = self._probabilities(reading, scores, offered, known)
            best = probabilities.index(max(probabilities))
        elif self.all[best].kind == "rule" and self._lone_cue(reading, best, offered, known):
            scores[best] -= _LONE_HANDICAP
            probabilities = self._probabilities(reading, scores, offered, known)
            best = probabilities.index(max(probabilities))
        doubtful = False
        taken_back = False
        if self.all[best].writes and self._taken_back(reading, best):
            taken_back = True
            # What is left must be another request, not the order that is not to be cancelled.
            skipped = {*reading.denied, *self._speaking_for(reading, best)}
            left = self._index.score(reading, skipped=skipped, words_only=True)
            probabilities = self._probabilities(reading, left, offered, known)
            best = probabilities.index(max(probabilities))
            doubtful = self.all[best].kind == "none" or probabilities[best] < CLEAR
        return Ranking(
            intents=self.all,
            probabilities=tuple(probabilities),
            best=best,
            second=self._rival(best, probabilities),
            fields=reading.fields,
            content=reading.has_content,
            taken_back=taken_back,
            doubtful=doubtful,
        )

    def beside(self, text: str, pending: Intent, offered: frozenset[str]) -> tuple[Intent, float]:
        """The best intent of a reply without its values and what speaks for the pending one.

        *It is order A-1001* then says nothing, *A-1001, where is it?* asks.
        """
        reading = self._index.read(text)
        takers = [at for at, one in enumerate(self.all) if {*one.fields} & {*pending.fields}]
        spoken = Counter(at for taker in takers for at in self._speaking_for(reading, taker))
        # A word that speaks for two of them names what they are about, not what is wanted.
        skipped = {at for at, times in spoken.items() if times > 1}
        skipped.update(self._speaking_for(reading, self.all.index(pending)))
        left = self._index.score(reading, skipped=skipped, words_only=True)
        probabilities = self._probabilities(reading, left, offered, ())
        best = probabilities.index(max(probabilities))
        return self.all[best], probabilities[best]

    def _naming(self, reading: Reading, option: int) -> dict[int, float]:
        """Positions of the content words that stand for the action of a write tool.

        The verb decides: a word that says about as much for a look-up names what both are about.
        """
        found: dict[int, float] = {}
        for at, word in enumerate(reading.words):
            if word.kind == "content" and word.weights:
                own = word.weights[option]
                if own > _CUE and self._is_action(word, option):
                    found[at] = own
        return found

    def _is_action(self, word: Word, option: int) -> bool:
        if any(word.weights[option] <= _NAMING * word.weights[one] for one in self._lookups):
            return False
        looked_up = max((self._used[one][word.key] for one in self._lookups), default=0)
        return self._used[option][word.key] >= _NAMING * looked_up

    def _unnamed(self, reading: Reading, option: int) -> float:
        """What to take off a write tool whose action is not named, or only by a turn of phrase."""
        if self._naming(reading, option):
            return 0.0
        beside = self._index.beside_words(reading)
        return _IMPLIED_HANDICAP if any(one[option] > _CUE for one in beside) else _UNNAMED_HANDICAP

    def _taken_back(self, reading: Reading, option: int) -> bool:
        """Whether the action is negated or said to be over, and not asked for in other words."""
        naming = self._naming(reading, option) if reading.denied else {}
        denied = max((naming[at] for at in reading.denied if at in naming), default=0.0)
        said = max((own for at, own in naming.items() if at not in reading.denied), default=0.0)
        return denied > 0 and said < _SAID_SHARE * denied

    def _speaking_for(self, reading: Reading, option: int) -> list[int]:
        return [
            at
            for at, word in enumerate(reading.words)
            if word.kind == "content" and word.weights and word.weights[option] > _CUE
        ]

    def _lone_cue(
        self, reading: Reading, rule: int, offered: frozenset[str], known: Collection[str]
    ) -> bool:
        """Whether a single one of several content words makes the rule likely."""
        content = [
            (word.weights[rule] if word.weights else 0.0, at)
            for at, word in enumerate(reading.words)
            if word.kind == "content"
        ]
        if len(content) <= 1:
            return False
        strongest = max(content)[1]
        without = self._index.score(reading, skipped=(strongest,))
        return self._probabilities(reading, without, offered, known)[rule] < _SUPPORTED

    def _probabilities(
        self,
        reading: Reading,
        scores: list[float],
        offered: frozenset[str],
        known: Collection[str],
    ) -> list[float]:
        none = _NONE_SCORE + _FOREIGN_SCORE * reading.foreign_share
        weighed = [
            exp((score - handicap - none) / TEMPERATURE)
            if score != 0 and (intent.kind != "tool" or intent.name in offered)
            else 0.0
            for intent, handicap, score in zip(self.all, self._handicaps, scores, strict=False)
        ]
        unsaid = [one for one in known if one not in reading.fields]
        if unsaid:
            for at, intent in enumerate(self.all[:-1]):
                if any(one in unsaid for one in intent.fields):
                    weighed[at] *= exp(_RECORD_BONUS / TEMPERATURE)
        weighed.append(1.0)
        total = sum(weighed)
        return [one / total for one in weighed]

    def _rival(self, best: int, probabilities: list[float]) -> int:
        """The most probable intent that conflicts with the best one.

        Intents conflict when they lead to different actions, or to different tools. A wish for a
        person and *nothing of the catalog* both bring a person in; two rules both refuse.
        """
        kind = self.all[best].kind
        agreeing: tuple[IntentKind, ...] = ()
        if kind in ("person", "none"):
            agreeing = ("person", "none")
        elif kind in ("answer", "rule"):
            agreeing = (kind,)
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
