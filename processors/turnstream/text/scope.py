"""What a negation or a past tense reaches.

*I do not want to cancel*, *j'ai déjà annulé*: the word that names the request is there, the
request is not. The reach is a rule of thumb, the same for every word: a negation reaches the next
content word of its clause, the two halves of a French negation what stands between them as well,
and an auxiliary the participle right after it.
"""

from collections.abc import Sequence
from typing import Final

from turnstream.text.lexicon import Lexicon
from turnstream.text.words import BOUNDARY

_NEGATION_REACH: Final = 5
"""Words after a negation: *not asking you all to cancel*; further on another thing is spoken of."""

_COMPLETED_REACH: Final = 2
"""Words after an auxiliary: *have already cancelled*."""

_CLOSING_REACH: Final = 2
"""Words after a verb in which the second half of its negation is looked for."""

_INFINITIVES: Final = ("er", "ir", "re")
"""Endings after which the French *à* (folded like *a*) is a preposition: *une commande à
annuler*."""

_LINKS: Final = frozenset({"to", "de", "d"})
"""Tie a word to the verb before it: in *not asking you to cancel* both are negated."""

PAST_ENDING: Final = "ed"
SUBJECTS: Final = frozenset({"i", "we", "you", "they", "he", "she"})
"""Say of an English past tense right after them that it is over: *I cancelled it*."""


def denied_words(words: Sequence[str], content: Sequence[int], lexicon: Lexicon) -> tuple[int, ...]:
    """Positions of the content words that are negated or over.

    Args:
        words: the message, folded, with clause boundaries.
        content: positions of its content words, ascending.
        lexicon: the words of its languages.
    """
    reached = _reached(words, lexicon)
    return tuple(
        [
            at
            for at in content
            if (at in reached and _denied(words, at, content, lexicon))
            or (at and words[at - 1] in SUBJECTS and words[at].endswith(PAST_ENDING))
        ]
    )


def _reached(words: Sequence[str], lexicon: Lexicon) -> set[int]:
    """Positions near enough to a denying word to be worth a closer look."""
    reached: set[int] = set()
    for at, word in enumerate(words):
        if word in lexicon.denying:
            over = word not in lexicon.negation and word not in lexicon.opening
            reach = _COMPLETED_REACH if over else _NEGATION_REACH
            reached.update(range(at + 1, at + 1 + reach))
    return reached


def _denied(words: Sequence[str], at: int, content: Sequence[int], lexicon: Lexicon) -> bool:
    completed = lexicon.completed
    participle = not words[at].endswith(_INFINITIVES)
    for back in range(1, _NEGATION_REACH + 1):
        where = at - back
        if where < 0:
            return False
        word = words[where]
        if word == BOUNDARY or word in lexicon.clause or word in lexicon.courtesy:
            return False
        if word in lexicon.negation:
            return True
        if word in lexicon.opening and _closes(words, at, lexicon):
            return True
        if back <= _COMPLETED_REACH and participle and word in completed:
            between = words[where + 1 : at]
            if all(one in completed or one in lexicon.negation for one in between):
                return True
        if where in content and words[at - 1] not in _LINKS:
            return False
    return False


def _closes(words: Sequence[str], at: int, lexicon: Lexicon) -> bool:
    """Whether the second half of a negation follows: *n'annulez surtout pas*."""
    for word in words[at + 1 : at + 1 + _CLOSING_REACH]:
        if word in lexicon.negation:
            return True
        if word == BOUNDARY or word in lexicon.clause:
            return False
    return False
