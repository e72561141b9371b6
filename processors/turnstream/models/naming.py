"""Whether a message names what a tool does, and not only what it is about.

A tool that writes needs more than likeness: *wrong*, *late* or *I changed my mind* stand beside
many a cancellation and ask for none. A message names a tool in one of three ways:

- *outright*, by the word of its name (*cancel*, *annuler*) or one that its examples keep using;
- *loosely*, by a word that is said for such an action and is no look-up's (*drop*, *bin*);
- by a turn of phrase, or by not wanting something (*I do not want it any more*).

What it is about, what happened, to whom, and how it feels names nothing.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from turnstream.text import (
    CASUAL,
    NEAR,
    THINGS,
    OptionTexts,
    Reading,
    TextIndex,
    Word,
)

CUE: Final = 0.3
"""What a word must say for an option to speak for it."""

_NAMING: Final = 2.5
"""How much more a word must weigh for a write tool, and how much more often its examples must use
it, than for any look-up, to name what the tool does and not what both are about."""

_USUAL: Final = 0.1
"""Part of a tool's examples that must use a word for it to stand for the tool."""

_CACHED: Final = 8_192
"""Words and tools whose naming is kept: customers may write any number of different words."""


class Naming:
    """Finds the words that name the tools of a catalog."""

    def __init__(
        self,
        index: TextIndex,
        *,
        names: Sequence[str | None],
        texts: Sequence[OptionTexts],
        lookups: Sequence[int],
    ) -> None:
        """Learn what tools are called.

        Args:
            index: the index of the options.
            names: the tool's name of each option, None for an option that is no tool.
            texts: the texts of each option.
            lookups: positions of the tools that only read.
        """
        self._index = index
        self._lookups = lookups
        self._examples = [len(one.examples) for one in texts]
        self._used = [
            Counter[str]() if name is None else self._words_of(one)
            for name, one in zip(names, texts, strict=True)
        ]
        called = [self._called(name) for name in names]
        common = frozenset[str]().union(*(called[at] for at in lookups))
        self._called_alone = [one - common for one in called]
        self._acts = [
            one.union(*(near for name, near in NEAR.items() if name in one))
            for one in self._called_alone
        ]
        """What each tool is called, and the concepts that are said for it."""
        self._level = lru_cache(maxsize=_CACHED)(self._find_level)

    def _words_of(self, texts: OptionTexts) -> Counter[str]:
        """How many examples use each word."""
        return Counter(
            key
            for text in texts.examples
            for key in dict.fromkeys([word.key for word in self._index.read(text).words])
        )

    def _called(self, name: str | None) -> frozenset[str]:
        """The keys and concepts of the words of a tool's name."""
        words = () if name is None else self._index.read(name.replace("_", " ")).words
        content = [word for word in words if word.kind == "content"]
        # *Cancel order* is named by what it does; only a tool called after a thing is by the thing.
        acts = [word for word in content if word.concepts.isdisjoint(THINGS)] or content
        return frozenset[str]().union(*({word.key, *word.concepts} for word in acts))

    def words(self, reading: Reading, option: int) -> dict[int, float]:
        """Positions of the words that name a tool, with what they say for it."""
        return {at: own for at, own, _ in self._found(reading, option)}

    def outright(self, reading: Reading, option: int) -> bool:
        """Whether a word that is not denied names the tool outright."""
        return any(
            strictly and at not in reading.denied
            for at, _, strictly in self._found(reading, option)
        )

    def beside(self, reading: Reading, option: int) -> bool:
        """Whether a phrase or a negated word names the tool."""
        acts = self._acts[option]
        told = [one for one in reading.phrases if one in acts]
        for at in reading.denied:
            word = reading.words[at]
            if any(f"-{one}" in acts for one in word.concepts):
                told.extend(self._index.negated(word))
        return any(self._index.says(one, option) > CUE for one in told)

    def _found(self, reading: Reading, option: int) -> list[tuple[int, float, bool]]:
        found: list[tuple[int, float, bool]] = []
        for at, word in enumerate(reading.words):
            if word.kind == "content" and word.weights and at not in reading.aside:
                level = self._level(word.text, option)
                if level:
                    found.append((at, word.weights[option], level > 1))
        return found

    def _find_level(self, text: str, option: int) -> int:
        """0 for a word that does not name the tool, 2 for one that does so outright."""
        word = self._index.word(text)
        own = word.weights[option]
        if own <= CUE:
            return 0
        called = self._called_alone[option]
        if word.key in called:
            return 2
        if not self._is_own(word, option):
            return 0
        if not called.isdisjoint(word.concepts):
            return 1 if word.concepts & CASUAL else 2
        acts = not self._acts[option].isdisjoint(word.concepts)
        usual = self._used[option][word.key] >= _USUAL * self._examples[option]
        if usual and (acts or not word.concepts):
            return 2
        return 1 if acts else 0

    def _is_own(self, word: Word, option: int) -> bool:
        """The verb decides: a word that says about as much for a look-up names what both share."""
        if any(word.weights[option] <= _NAMING * word.weights[one] for one in self._lookups):
            return False
        looked_up = max((self._used[one][word.key] for one in self._lookups), default=0)
        return self._used[option][word.key] >= _NAMING * looked_up
