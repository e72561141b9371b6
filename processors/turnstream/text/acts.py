"""Which concepts are actions, and which only what actions are about.

A shared concept makes two texts alike; whether it names a request is another question.
"""

from collections.abc import Mapping
from typing import Final

THINGS: Final = frozenset(
    {"@order", "@parcel", "@goods", "@appliance", "@customer", "@store", "@account", "@invoice"}
)
"""Features of concepts that many requests are about, whatever they ask for."""

CASUAL: Final = frozenset({"@drop"})
"""Features of concepts whose words are said of other things as well: *drop that, I meant the other*
need not be about an order."""

NEAR: Final[Mapping[str, frozenset[str]]] = {
    "@cancel": frozenset({"@drop", "@stop", "@unwanted", "-@send"}),
    "@return": frozenset({"@label", "@unwanted", "@unsuitable"}),
    "@refund": frozenset({"@return"}),
    "@exchange": frozenset({"@unsuitable"}),
}
"""Feature of a concept that is an action, to those of concepts that customers say for it; with a
minus sign where they say it by a negation (*do not send it*)."""

ASIDE: Final = frozenset({"@mind"})
"""Features of concepts whose phrases, next to a value, say that another value is meant."""
