"""How long a service wants to be left alone."""

import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_CHARACTERS: Final = 40
"""Longest value that is read: dates have 29."""


def wished_rest(headers: Mapping[str, str]) -> float | None:
    """Seconds by `Retry-After`, a number or a date; None where it says nothing.

    Args:
        headers: of a reply; names in any case.
    """
    text = headers.get("Retry-After", "").strip()
    if not text or len(text) > _CHARACTERS:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() - time.time()
    except Exception:  # noqa: BLE001 - the parser names no bound on what it raises for any text
        return None
