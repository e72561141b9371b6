"""The embedded classifier: categories and a title from what the customer wrote, without any model.

Categories are those of the catalog, scored like a decider's options but independently of one
another: a conversation may be about a return *and* an invoice. They describe the conversation as
a whole, so every customer message of the window counts.

The title is the customer's own latest request, shortened. Contact details and long numbers are
left out: a title is read in lists, by more people than the conversation.
"""

import re
from typing import Final

from turnstream.core.definitions import Catalog
from turnstream.core.ports import Classification, Exchange
from turnstream.text import OptionTexts, Reading, TextIndex

VERSION: Final = "1"
"""Rises when the same catalog and exchange may get other labels."""

MAX_CATEGORIES: Final = 5
"""More would describe nothing; consumers size their columns for it."""

TITLE_WORDS: Final = 9
TITLE_CHARACTERS: Final = 70
"""Longest title, in words and in characters: what fits a line of a list."""

_LEAST_SCORE: Final = 1.2
"""About what one shared content word scores; below it the likeness is chance."""

_LEAST_SHARE: Final = 0.5
"""A message's second category must score at least this part of its first."""

_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*")
_PRIVATE: Final = re.compile(
    r"\S+@\S+|https?://\S+|www\.\S+|[+(]?\d(?:[\s().-]?\d){5,}|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,}"
)
"""Mail and web addresses, telephone, card and account numbers."""
_SPACES: Final = re.compile(r"\s+")


class EmbeddedClassifier:
    """Labels exchanges by the catalog's categories."""

    def __init__(self, catalog: Catalog) -> None:
        """Index the categories."""
        self._names = tuple(catalog.categories)
        self._model = f"embedded-{VERSION}"
        self._index = TextIndex(
            [
                OptionTexts(f"{name.replace('_', ' ')}. {one.description}", one.examples)
                for name, one in catalog.categories.items()
            ],
            languages=_languages(catalog),
        )

    def classify(self, exchange: Exchange) -> Classification:
        """Give the complete set of categories, best first, and a title."""
        best = [0.0] * len(self._names)
        title = ""
        for message in exchange.messages:
            if message.role != "customer":
                continue
            reading = self._index.read(message.text)
            if not reading.has_content:
                continue
            self._raise(best, reading)
            title = self._title(message.text) or title
        order = sorted(range(len(best)), key=lambda at: (-best[at], at))
        return Classification(
            title=title,
            categories=tuple([self._names[at] for at in order if best[at] > 0][:MAX_CATEGORIES]),
            model=self._model,
        )

    def _raise(self, best: list[float], reading: Reading) -> None:
        values = self._index.score(reading)
        least = max(_LEAST_SCORE, _LEAST_SHARE * max(values, default=0.0))
        for at, value in enumerate(values):
            if value >= least:
                best[at] = max(best[at], value)

    def _title(self, text: str) -> str:
        """The sentence that asks, else the one that says most, cut to a line."""
        said = ""
        most = (False, 0.0, 0)
        for sentence in _SENTENCE.findall(_PRIVATE.sub(" ", text)):
            reading = self._index.read(sentence)
            content = len({word.key for word in reading.words if word.kind == "content"})
            fit = max(self._index.score(reading), default=0.0)
            rank = (sentence.endswith("?"), fit, content)
            if content and rank >= most:
                said, most = sentence, rank
        return _shortened(self._without_greeting(said))

    def _without_greeting(self, sentence: str) -> str:
        clauses = sentence.split(",")
        while len(clauses) > 1 and not self._index.read(clauses[0]).has_content:
            clauses = clauses[1:]
        return ",".join(clauses)


def _shortened(sentence: str) -> str:
    words = _SPACES.sub(" ", sentence).strip(" ,;:.-").split(" ")
    title = " ".join(words[:TITLE_WORDS])[:TITLE_CHARACTERS].rstrip(" ,;:.-")
    return title[:1].upper() + title[1:]


def _languages(catalog: Catalog) -> tuple[str, ...]:
    tags = [catalog.default_locale]
    for answer in catalog.answers.values():
        tags.extend(answer.text)
    for queue in catalog.queues.values():
        tags.extend(queue.text)
    return tuple(dict.fromkeys(tag.split("-", 1)[0].lower() for tag in tags))
