"""Names of persons that the session has told: no names are guessed.

A name is found word for word, whatever its case and accents, with hyphen or without. Its parts
count alone too, except those that would make other texts unreadable: parts of one or two letters,
particles, and names that are words of everyday use (*Will*, *Rose*, *Petit*). Such a part counts
next to another part of its name, with a capital in the middle of a sentence, after *my name is* and
the like, and where it is all that a message says - the reply to *What is your name?*.

In scripts that put no space between words there are no whole words: there the whole name counts
wherever it stands, from two characters on.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from turnstream.privacy.reading import UNSPACED, Reading, folded
from turnstream.privacy.surroundings import told, words

_SHORTEST: Final = 3
"""Letters from which a part of a name counts alone: *Li* and *An* are too much else."""

_PARTS: Final = 12
"""Parts of one name; a claim with more is a text, whose every word would be removed everywhere."""

_WORD: Final = re.compile(r"[^\W_]+")
_JOINT: Final = re.compile(r"(?:[ \t\u00a0.'\u2019\-\u2010\u2011]|, ?){1,3}")
"""What may stand between the parts of a name."""
_ATTACHED: Final = re.compile(r"['\u2019\-\u2010\u2011]")
_OPENING: Final = " \t\"'([*_\u00ab\u201c"
"""Stands before a name within its sentence."""
_LOOK_BACK: Final = 8
"""Characters looked at for the end of the sentence before; the whole text would be, for each."""
_SENTENCE_END: Final = frozenset(".!?:;\n\u2026")

_ORDINARY: Final = words(
    """
    al am an ann april art august autumn baker bank bean berry best bill bird black blue bond
    brook brown buck bush cash case chance chase cherry church close cook crew day dawn dean
    dear do drew east else faith field fields fish flower ford forest fox frank free game gene
    glass gold golden good grace grant gray green grey guy hall hand heart hill home hope hunt
    iris ivy jack jean joy june justice king knight lace lake lance lane law little long love
    low major mark march marsh mason may mercy miles mill mills more new noble north olive
    page park parks pat peace pearl penny pierce pink pool poppy power price prince queen rain
    ray read rice rich ridge ring rock rod rose ruby rush sage sandy short silver skip small
    snow south spring star stone storm street sue summer swan swift temple van violet walker
    wall ward warren waters way wells west white will willow winter wise wolf wood woods worth
    young aime ange beau berger blanc bois bon bonnet brun chevalier clair claire constant
    content desire ferme fleur fontaine france francs gros grand legrand lune marchand noel
    noir pain paris parfait petit pierre pont prune rey riviere roche violette alba alegria
    angel cruz dolores flores luz mar mercedes paz pilar rosa rosario santos sol iglesias
    gross klein kraft lang lange recht reich schwarz stark weiss bianco fiore
    """
)
"""Names that customers use as words as well, in English, French, Spanish and German."""

_INTRODUCTIONS: Final = words(
    """
    name named called mr mrs ms miss sir madam dr nom prénom appelle appelé nommé monsieur madame
    mademoiselle mme mlle nombre llamo señor señora heiße heisse nachname vorname herr frau nome
    signor signora naam mijnheer mevrouw
    """
)
"""Words before a name."""

_LEADING: Final = 24
"""Characters looked at for such a word, from the last comma on."""

_PARTICLES: Final = words(
    """
    da das de degli dei del della den der des di do dos du el la las le les los mc saint san santa
    st ste ten ter van vom von y zu zum zur bin ben ibn al abu mr mrs ms dr jr sr mme mlle herr frau
    and or the of is for not et ou und oder los por con och og
    """
)
"""Never a name by themselves; a claim may hold two names, or a name in a sentence."""


class _Word(NamedTuple):
    start: int
    end: int
    text: str


class Names:
    """The names that are to be found, ready to be looked for."""

    __slots__ = ("_in_order", "_neighbours", "_parts", "_strong", "_unspaced")

    def __init__(self, names: Iterable[str]) -> None:
        self._strong: set[str] = set()
        self._parts: set[str] = set()
        self._neighbours: set[tuple[str, str]] = set()
        self._in_order: set[tuple[str, ...]] = set()
        self._unspaced: set[str] = set()
        for name in names:
            self._add(name)

    def __bool__(self) -> bool:
        return bool(self._parts or self._unspaced)

    def _add(self, name: str) -> None:
        reading = folded(name).text
        parts = [one for one in _WORD.findall(reading) if not one.isdigit()]
        if not parts or len(parts) > _PARTS:
            return
        if UNSPACED.search(reading) is not None:
            whole = "".join(parts)
            self._unspaced |= {whole} if len(whole) > 1 else set()
            return
        # O'Brien and Jean-Pierre are written in one word as well.
        attached = {
            "".join(_WORD.findall(word)) for word in reading.split() if _ATTACHED.search(word)
        }
        known = [*parts, *attached]
        self._parts.update(known)
        self._strong.update(one for one in known if _counts_alone(one))
        self._in_order.update(itertools.pairwise(parts))
        initials = {one[0] for one in parts}
        self._parts |= initials
        for one in known:
            others = {other for other in known if other != one} | (initials - {one})
            self._neighbours |= {(one, other) for other in others}
            self._neighbours |= {(other, one) for other in others}

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where names stand in a text, in code points."""
        reading = folded(text)
        for name in self._unspaced:
            at = reading.text.find(name)
            while at >= 0:
                yield reading.span(at, at + len(name))
                at = reading.text.find(name, at + len(name))
        if not any(part in reading.text for part in self._parts if len(part) > 1):
            return
        group: list[_Word] = []
        alone = True
        for match in _WORD.finditer(reading.text):
            word = _Word(*match.span(), match.group())
            known = word.text in self._parts
            if group and not (known and self._belong(reading, group, word)):
                yield from self._named(reading, group, alone=False)
                group, alone = [], False
            if known:
                group.append(word)
            else:
                alone = False
        if group:
            yield from self._named(reading, group, alone=alone)

    def _belong(self, reading: Reading, group: list[_Word], word: _Word) -> bool:
        """Whether a word goes on with the name that a group has begun."""
        last = group[-1]
        return (
            (last.text, word.text) in self._neighbours
            and all(one.text != word.text for one in group)
            and _JOINT.fullmatch(reading.text, last.end, word.start) is not None
        )

    def _named(
        self, reading: Reading, group: list[_Word], *, alone: bool
    ) -> Iterator[tuple[int, int]]:
        """The name that a group of neighbouring parts is, if it is one.

        Args:
            reading: of the text.
            group: the parts.
            alone: there is no other word in the text.
        """
        first, last = 0, len(group)
        while first < last and self._is_loose(reading, group[first : min(first + 2, last)], 0):
            first += 1
        while first < last and self._is_loose(reading, group[max(first, last - 2) : last], -1):
            last -= 1
        group = group[first:last]
        if not group:
            return
        strong = any(one.text in self._strong for one in group)
        several = sum(len(one.text) > 1 and one.text not in _PARTICLES for one in group) > 1
        if strong or several or self._stands_out(reading, group[0], alone=alone):
            yield reading.span(group[0].start, group[-1].end)

    def _is_loose(self, reading: Reading, edge: list[_Word], at: int) -> bool:
        """Whether a small part at the edge is rather a word: *a smith*, *smith will call*."""
        word = edge[at]
        if _is_capital(reading, word):
            return False
        if len(word.text) == 1 or (at < 0 and word.text in _PARTICLES):
            return True
        pair = tuple(one.text for one in edge)
        return word.text in _ORDINARY and len(edge) > 1 and pair not in self._in_order

    def _stands_out(self, reading: Reading, part: _Word, *, alone: bool) -> bool:
        """Whether one part that is a word as well is meant as a name."""
        if len(part.text) == 1 or part.text in _PARTICLES:
            return False
        # Only what comes before it: "may I have your name" does not name anybody May.
        near = reading.text[max(0, part.start - _LEADING) : part.end].rpartition(",")[2]
        if alone or told(near, len(near) - len(part.text), len(near), yes=_INTRODUCTIONS):
            return True
        before = reading.text[max(0, part.start - _LOOK_BACK) : part.start].rstrip(_OPENING)
        return _is_capital(reading, part) and bool(before) and before[-1] not in _SENTENCE_END


def _counts_alone(part: str) -> bool:
    return len(part) >= _SHORTEST and part not in _ORDINARY and part not in _PARTICLES


def _is_capital(reading: Reading, word: _Word) -> bool:
    start, _ = reading.span(word.start, word.end)
    return reading.source[start].isupper()
