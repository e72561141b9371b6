"""Text scoring: the words of a message, and how well it fits one of several options.

A leaf: knows no catalog and no conversation, only texts.
"""

from turnstream.text.index import OptionTexts, Reading, TextIndex, Word

__all__ = ["OptionTexts", "Reading", "TextIndex", "Word"]
