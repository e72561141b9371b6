"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import zlib
from typing import Final

_STEPS: Final = 2.0**33
"""Twice the hashes there are: the spread covers half of the wait."""


def backoff(attempt: int, *, first: float, longest: float, seed: str) -> float:
    """Return the wait after an attempt that failed: doubling, and spread.

    Between half of the wait and all of it, so that what failed together does not return together;
    by the seed and not by chance, so that the same input waits as long wherever it is tried.

    Args:
        attempt: Number of the attempt that failed, from 1.
        first: Longest wait after the first, in any unit.
        longest: Bound of the wait, in the same unit.
        seed: Names what is tried, the coordinates of a record say.

    Returns:
        The wait, in the unit given.
    """
    wait = min(first * 2.0 ** (attempt - 1), longest)
    return wait * (0.5 + zlib.crc32(f"{seed}/{attempt}".encode()) / _STEPS)
