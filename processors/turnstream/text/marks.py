"""What a word may bring into a message, as bits.

Most words bring none of it, and most messages little: joined over a message's words, the marks tell
which parts of the reading there is anything to do for. The rarest come last: Python keeps one
object of each whole number up to 256.
"""

from typing import Final

CONTENT: Final = 1
"""It carries a request."""
BEGINS: Final = 2
"""It may begin a phrase, or the name of a value."""
COURTEOUS: Final = 4
"""It is a greeting, thanks or a good-bye."""
DENIES: Final = 8
"""It may negate a word after it, or say that it is over."""
SUBJECT: Final = 16
"""It is a pronoun; with a past tense right after it, that is over."""
ASKS: Final = 32
"""It asks by itself, like *where*."""
FOREIGN: Final = 64
"""It is a content word that no option knows."""
DIGRESSES: Final = 128
"""It may speak of the conversation itself, like *mistyped*."""
PAST: Final = 256
"""It ends like an English past tense."""
