"""Messages of tests that the embedded decider has as examples: they would prove nothing."""

import difflib
import re
from collections.abc import Iterable

from rapidfuzz import fuzz, process

from turnstream.core.definitions import Catalog
from turnstream.core.folding import folded
from turnstream.models.elsewhere import ELSEWHERE
from turnstream.models.person import PERSON_REQUESTS

NEAR_COPY = 0.80
"""Similarity from which a message is a copy of an example, or one with a few letters changed."""


def near_copies(texts: Iterable[str], catalog: Catalog) -> list[tuple[str, str]]:
    """Each text that is a near copy, with the example that it is a copy of.

    Args:
        texts: what customers write in a test.
        catalog: whose examples the decider learns from, beside those that every catalog has.
    """
    examples = [
        _words(example)
        for one in (catalog.tools, catalog.answers, catalog.rules, catalog.categories)
        for definition in one.values()
        for example in definition.examples
    ]
    for defaults in (PERSON_REQUESTS, ELSEWHERE):
        examples += [_words(example) for group in defaults.values() for example in group]
    return [
        (text, example)
        for text in texts
        # It never says less than difflib and is a hundred times as fast.
        for example, _, _ in process.extract(
            _words(text),
            examples,
            scorer=fuzz.ratio,
            score_cutoff=100 * NEAR_COPY - 0.01,
            limit=None,
        )
        if difflib.SequenceMatcher(None, _words(text), example).ratio() >= NEAR_COPY
    ]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", folded(text)))
