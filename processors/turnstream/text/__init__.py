"""Text scoring: the words of a message, and how well it fits one of several options.

A leaf: knows no catalog and no conversation, only texts.
"""

from turnstream.text.acts import CASUAL, NEAR, THINGS
from turnstream.text.index import TextIndex
from turnstream.text.reading import OptionTexts, Reading, Word

__all__ = ["CASUAL", "NEAR", "THINGS", "OptionTexts", "Reading", "TextIndex", "Word"]
