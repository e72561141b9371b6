"""How much two descriptions say the same: what a decider has to tell them by is the rest."""

import re
from typing import Final

from rapidfuzz import fuzz, process

from turnstream.core.folding import folded

OVERLAP: Final = 70.0
"""Similarity of two descriptions, 0 to 100, from which a decider has too little to tell them by."""

_SAME_WORD: Final = 80.0
"""Similarity of two words, 0 to 100, from which one is taken for a form of the other."""

_FUNCTION_WORDS: Final = frozenset(
    """
    a an and are at be by can for from has have how in is it its of on one or that the their this to
    what when where which whether with you your
    au aux avec ce ces cette dans de des du elle en est et il la le les leur on ou par pour que quel
    quelle qui sa ses son sur un une vos votre
    fetches get gets gives look looks provides retrieve retrieves shows tells up
    affiche donne fournit indique obtient recupere
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""Words without a subject, verbs of telling included; sharing only these is no overlap."""

_WORD: Final = re.compile(r"\w+")


def overlap(one: str, other: str) -> float:
    """How much two descriptions say the same, 0 to 100: the share of words that they share.

    Function words do not count, the order of words does not matter, and a word equals its other
    forms (order, orders).
    """
    words, others = _content(one), _content(other)
    shared = 0
    rest = list(others)
    for word in words:
        found = process.extractOne(word, rest, scorer=fuzz.ratio, score_cutoff=_SAME_WORD)
        if found is not None:
            shared += 1
            del rest[found[2]]
    return 200 * shared / (len(words) + len(others)) if words or others else 0.0


def _content(text: str) -> list[str]:
    words = dict.fromkeys(_WORD.findall(folded(text)))
    return [word for word in words if word not in _FUNCTION_WORDS and len(word) > 1]
