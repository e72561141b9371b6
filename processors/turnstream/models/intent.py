"""What a customer wants: the catalog's tools, answers and refusal rules ranked for one message.

Only what the customer wrote is read. Passages, tool results and the texts of the catalog's
answers never take part, so nothing that is written in them can choose a step.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import exp
from typing import Final

from turnstream.core.contract import Action
from turnstream.core.definitions import Catalog
from turnstream.core.ports import ToolOption
from turnstream.models.elsewhere import ELSEWHERE
from turnstream.models.naming import CUE, Naming
from turnstream.models.options import described_by, languages_of
from turnstream.models.ranking import NOTHING, Intent, IntentKind, Ranking
from turnstream.text import OptionTexts, Reading, TextIndex

TEMPERATURE: Final = 0.5
"""Divides the scores before the softmax, so that the probability of the best intent is a fair
estimate of how often it is right (a test checks four bands): the catalog's thresholds are compared
with it."""

_NONE_SCORE: Final = 0.2
"""Score of *nothing of the catalog*, which its own examples set to 0: better a person too often."""

_WRITE_HANDICAP: Final = 0.4
"""Taken off the score of tools that write: where the words fit a look-up as well, look up."""

_UNNAMED_HANDICAP: Final = 2.0
"""Taken off a write tool that nothing in the message names. It is never chosen then; but where it
would be the best even so, neither is anything else."""

_IMPLIED_HANDICAP: Final = 0.8
"""Taken off instead when it is only implied: *I do not want it any more* may mean a return, too."""

_RULE_HANDICAP: Final = 0.4
"""Taken off the score of refusal rules: a shared noun alone must not refuse a customer."""

_LONE_HANDICAP: Final = 0.9
"""Taken off as well when the rule hangs on one of several content words: *my neighbour's
cat* asks for nobody's data."""

_SUPPORTED: Final = 0.12
"""Least probability that a rule keeps without the word that says most for it."""

_FOREIGN_SCORE: Final = 0.8
"""Added to *nothing of the catalog* when the catalog knows none of the content words, and the part
of it that is unknown otherwise."""

_RECORD_BONUS: Final = 0.8
"""Added to tools that take a value which is known already, when the words point there at all: who
has an order open speaks of it."""

_SAID_SHARE: Final = 0.7
"""What another word must say for the action, next to the word that is denied. *Do not wait, cancel*
keeps its request; in *do not cancel, let it go* nothing is asked for."""

_COURTEOUS_SHARE: Final = 0.15
"""Part of an answer's examples that must be mere courtesies for it to be small talk."""

_IMPLIED: Final = exp(-_IMPLIED_HANDICAP / TEMPERATURE)
_UNNAMED: Final = exp(-_UNNAMED_HANDICAP / TEMPERATURE)
_LONE: Final = exp(-_LONE_HANDICAP / TEMPERATURE)
_RECORDED: Final = exp(_RECORD_BONUS / TEMPERATURE)

_OTHER_SHARE: Final = 0.5
"""Words of small talk that may speak for something else: *cheers mate* is about nobody."""

CLEAR: Final = 0.8
"""Probability from which a wish counts as clearly expressed."""


_AGREEING: Final[Mapping[IntentKind, tuple[IntentKind, ...]]] = {
    "tool": (),
    "answer": ("answer",),
    "rule": ("rule",),
    "person": ("person", "none"),
    "none": ("person", "none"),
}
"""Kind of intent to the kinds that lead to the same action."""


class Intents:
    """The intents of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        """Index the texts of the catalog."""
        described = list(described_by(catalog))
        self.all: tuple[Intent, ...] = (*(intent for intent, _ in described), NOTHING)
        self.of_tool = {one.name: one for one in self.all if one.kind == "tool"}
        self.of_answer = {one.name: one for one in self.all if one.kind == "answer"}
        self._handicaps = [
            (_WRITE_HANDICAP if one.writes else _RULE_HANDICAP if one.kind == "rule" else 0.0)
            / TEMPERATURE
            for one in self.all
        ]
        self._tools = {one.name: at for at, one in enumerate(self.all) if one.kind == "tool"}
        self._names = frozenset(self._tools)
        self._answers = self._places("answer")
        self._rules = self._places("rule")
        self._takers = {
            field: [at for at, one in enumerate(self.all) if field in one.fields]
            for field in {field for one in self.all for field in one.fields}
        }
        """Field to the tools that take its value."""
        self._conflicting = {
            kind: [at for at, one in enumerate(self.all) if one.kind not in agreeing]
            for kind, agreeing in _AGREEING.items()
        }
        self._lookups = [
            at for at, one in enumerate(self.all) if one.kind == "tool" and not one.writes
        ]
        self._index = TextIndex(
            [texts for _, texts in described],
            languages=languages_of(catalog),
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
            background=[text for one in languages_of(catalog) for text in ELSEWHERE.get(one, ())],
        )
        self._naming = Naming(
            self._index,
            names=[one.name if one.kind == "tool" else None for one, _ in described],
            texts=[texts for _, texts in described],
            lookups=self._lookups,
        )
        self._small_talk = frozenset(
            at
            for at, (intent, texts) in enumerate(described)
            if intent.kind == "answer" and self._is_small_talk(texts)
        )

    def _places(self, kind: IntentKind) -> slice:
        """Where the intents of a kind are; they stand side by side."""
        places = [at for at, one in enumerate(self.all) if one.kind == kind]
        return slice(places[0], places[-1] + 1) if places else slice(0)

    def _is_small_talk(self, texts: OptionTexts) -> bool:
        readings = [self._index.read(text) for text in texts.examples]
        mere = sum([one.courteous and not one.says_something for one in readings])
        return mere > _COURTEOUS_SHARE * len(readings)

    def rank(self, text: str, offered: frozenset[str], known: Collection[str] = ()) -> Ranking:
        """Rank the intents for a message.

        Args:
            text: what the customer wrote.
            offered: names of the tools that may be chosen; the others are left out.
            known: fields whose value is known already.
        """
        reading = self._index.read(text)
        weighed = self._weighed(reading, self._index.score(reading), offered, known)
        best, unnamed = self._settled(reading, weighed, offered, known)
        doubtful = taken_back = outright = False
        if self.all[best].writes:
            taken_back = self._taken_back(reading, best)
            outright = not taken_back and self._naming.outright(reading, best)
        if taken_back:
            # What is left must be another request, not the order that is not to be cancelled.
            skipped = {*reading.denied, *self._speaking_for(reading, best)}
            left = self._index.score(reading, skipped=skipped, words_only=True)
            weighed = self._weighed(reading, left, offered, known)
            best = weighed.index(max(weighed))
            doubtful = self.all[best].kind == "none" or weighed[best] < CLEAR * sum(weighed)
        return Ranking(
            intents=self.all,
            weights=weighed,
            total=sum(weighed),
            best=best,
            second=self._rival(best, weighed),
            fields=reading.fields,
            valued=reading.valued,
            content=reading.has_content,
            taken_back=taken_back,
            doubtful=doubtful or (taken_back and self.all[best].writes),
            outright=outright,
            unnamed=unnamed,
        )

    def _settled(
        self,
        reading: Reading,
        weighed: list[float],
        offered: frozenset[str],
        known: Collection[str],
    ) -> tuple[int, bool]:
        """Weigh down what the message does not bear out, until the best intent stands.

        Returns:
            Its position, and whether a write that nothing names came before it.
        """
        lowered: set[int] = set()
        unnamed = 0.0
        while True:
            best = weighed.index(max(weighed))
            intent = self.all[best]
            if best in lowered:
                break
            lowered.add(best)
            if intent.writes:
                if self._naming.words(reading, best):
                    break
                if self._naming.beside(reading, best):
                    weighed[best] *= _IMPLIED
                else:
                    unnamed = max(unnamed, weighed[best] * _UNNAMED)
                    weighed[best] = 0.0
            elif intent.kind == "rule":
                if not self._lone_cue(reading, best, offered, known):
                    break
                weighed[best] *= _LONE
            elif best in self._small_talk and not self._merely(reading, best):
                weighed[best] = 0.0
            else:
                break
        return best, unnamed > weighed[best]

    def _merely(self, reading: Reading, option: int) -> bool:
        """Whether a message consists of small talk and nothing else."""
        if reading.fields or reading.asks:
            return False
        mere = other = 0
        for word in reading.words:
            if word.kind == "courtesy":
                mere += 1
            elif word.kind == "content" and word.weights:
                own = word.weights[option]
                if own > CUE:
                    mere += 1
                elif max(word.weights[:-1]) > CUE:
                    other += 1
        return other <= _OTHER_SHARE * mere

    def names(self, text: str, intent: Intent) -> bool:
        """Whether a message names a tool, in any way and without taking it back."""
        option = self.all.index(intent)
        reading = self._index.read(text)
        if self._taken_back(reading, option):
            return False
        return bool(self._naming.words(reading, option)) or self._naming.beside(reading, option)

    def beside(
        self, text: str, pending: Intent, offered: frozenset[str], *, valued: bool
    ) -> tuple[Intent, float]:
        """What a reply asks for in so many words, beside what speaks for the pending intent.

        *It is order A-1001* then asks for nothing, *A-1001, where is it?* does: a look-up that
        takes the same value is wanted only when something is asked.

        Args:
            text: the reply.
            pending: the intent that the question was asked for.
            offered: names of the tools that may be chosen.
            valued: whether the reply has a value that the pending intent takes.
        """
        reading = self._index.read(text, reply=True)
        skipped = {*reading.denied}
        takers = [at for at, one in enumerate(self.all) if {*one.fields} & {*pending.fields}]
        if valued:
            spoken = Counter(at for taker in takers for at in self._speaking_for(reading, taker))
            # A word that speaks for two of them names what they are about, not what is wanted.
            skipped.update(at for at, times in spoken.items() if times > 1)
            skipped.update(self._speaking_for(reading, self.all.index(pending)))
        left = self._index.score(reading, skipped=skipped, words_only=valued)
        weighed = self._weighed(reading, left, offered, ())
        for at, one in enumerate(self.all):
            small = at in self._small_talk
            if small or (one.writes and not self._naming.outright(reading, at)):
                weighed[at] = 0.0
        if valued and "?" not in text and not reading.asks:
            for at in takers:
                if not self.all[at].writes:
                    weighed[at] = 0.0
        best = weighed.index(max(weighed))
        return self.all[best], weighed[best] / sum(weighed)

    def looked_up_by(self, fields: Collection[str], offered: frozenset[str]) -> list[Intent]:
        """The look-ups that take a value of one of the fields."""
        return [
            self.all[at]
            for at in self._lookups
            if self.all[at].name in offered and any(one in fields for one in self.all[at].fields)
        ]

    def _taken_back(self, reading: Reading, option: int) -> bool:
        """Whether the action is negated or said to be over, and not asked for in other words."""
        if not reading.denied:
            return False
        naming = self._naming.words(reading, option)
        denied = max((naming[at] for at in reading.denied if at in naming), default=0.0)
        said = max((own for at, own in naming.items() if at not in reading.denied), default=0.0)
        return denied > 0 and said < _SAID_SHARE * denied

    def _speaking_for(self, reading: Reading, option: int) -> list[int]:
        return [
            at
            for at, word in enumerate(reading.words)
            if word.kind == "content" and word.weights and word.weights[option] > CUE
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
        weighed = self._weighed(reading, without, offered, known)
        return weighed[rule] < _SUPPORTED * sum(weighed)

    def _weighed(
        self,
        reading: Reading,
        scores: list[float],
        offered: frozenset[str],
        known: Collection[str],
    ) -> list[float]:
        """What each intent weighs, compared with the others."""
        weighed = [
            exp(score / TEMPERATURE - handicap) if score else 0.0
            for handicap, score in zip(self._handicaps, scores, strict=False)
        ]
        if offered != self._names:
            for name in self._names - offered:
                weighed[self._tools[name]] = 0.0
        unsaid = [one for one in known if one not in reading.fields and one in self._takers]
        if unsaid:
            for at in {at for one in unsaid for at in self._takers[one]}:
                weighed[at] *= _RECORDED
        none = _NONE_SCORE + _FOREIGN_SCORE * reading.foreign_share
        weighed.append(exp(none / TEMPERATURE))
        return weighed

    def _rival(self, best: int, weighed: Sequence[float]) -> int:
        """The most probable intent that conflicts with the best one.

        Intents conflict when they lead to different actions, or to different tools. A wish for a
        person and *nothing of the catalog* both bring a person in; two rules both refuse.
        """
        second = best
        most = -1.0
        for at in self._conflicting[self.all[best].kind]:
            if weighed[at] > most and at != best:
                second, most = at, weighed[at]
        return second

    def by_action(self, ranking: Ranking, tools: Sequence[ToolOption]) -> dict[Action, float]:
        """The probability of each action: of all the intents that it would serve.

        Args:
            ranking: the ranking of a message.
            tools: how each tool stands that was offered.
        """
        weights, total = ranking.weights, ranking.total
        places = self._tools
        asked = called = 0.0
        for option in tools:
            at = places.get(option.name)
            if at is not None and not option.blocked:
                if option.missing or option.ambiguous:
                    asked += weights[at]
                else:
                    called += weights[at]
        answered = sum(weights[self._answers]) / total
        refused = sum(weights[self._rules]) / total
        asked /= total
        called /= total
        return {
            "answer": answered,
            "call_tool": called,
            "ask": asked,
            "refuse": refused,
            "handoff": max(0.0, 1.0 - answered - called - asked - refused),
        }
