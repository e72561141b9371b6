"""Personal data: what it is, where it stands, and texts without it.

Everything here is rules on texts: no file, no clock, no network. A text reads the same whenever and
wherever it is read, and what a rule costs grows with the text and no faster.
"""

from turnstream.privacy.conflicts import Conflict, conflict
from turnstream.privacy.detector import Detector
from turnstream.privacy.kinds import KINDS, MARKERS, Finding, Kind, Redaction
from turnstream.privacy.national_numbers import COUNTRIES, Country
from turnstream.privacy.phones import is_region, region_of
from turnstream.privacy.values import JsonRedaction, TooDeep, redacted_json

__all__ = [
    "COUNTRIES",
    "KINDS",
    "MARKERS",
    "Conflict",
    "Country",
    "Detector",
    "Finding",
    "JsonRedaction",
    "Kind",
    "Redaction",
    "TooDeep",
    "conflict",
    "is_region",
    "redacted_json",
    "region_of",
]
