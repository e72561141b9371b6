"""Rows of numbers, dozens of which are added up for every message.

A row is one whole number: each of its numbers in fixed point, in 64 bits of its own. So a row is
added to another by one addition, in one piece of memory, and the sum is exact: it does not depend
on the order, nor on the machine.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

UNIT: Final = 1 << 44
"""What stands for 1. The rest of 64 bits holds sums up to 500,000; a message of two thousand
characters stays below 20,000. The error of a number, 3e-14, is far below what decides anything."""

_BITS: Final = 64

Row = int


class Columns:
    """Packs and unpacks rows of one length."""

    def __init__(self, count: int) -> None:
        """Prepare.

        Args:
            count: how many numbers a row has.
        """
        self._format = Struct(f"<{count}q")
        # In a sum a negative number borrows from the next. The top bit of each, added to it, is
        # there to be borrowed; flipped, it makes a sign of the result.
        self._tops = sum([1 << (_BITS * at + _BITS - 1) for at in range(count)])

    def packed(self, numbers: Sequence[float]) -> Row:
        """Pack a row."""
        fixed = self._format.pack(*[round(one * UNIT) for one in numbers])
        return (int.from_bytes(fixed, "little") ^ self._tops) - self._tops

    def unpacked(self, row: Row) -> tuple[int, ...]:
        """The numbers of a row or of a sum of rows, in :data:`UNIT`."""
        fixed = (row + self._tops) ^ self._tops
        return self._format.unpack(fixed.to_bytes(self._format.size, "little"))
