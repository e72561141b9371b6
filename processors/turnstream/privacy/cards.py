"""Payment card numbers: a length and a prefix that a network issues, and the Luhn check digit.

Prefixes and lengths are those of ISO/IEC 7812-1 as the networks publish them, less two that shops
have numbers of their own in: 13 digits (Visa's of long ago) is the length of bar codes (EAN),
German ones of which begin with 4, and every IMEI of 15 digits has a Luhn digit, so of this length
only American Express counts. The check is :mod:`stdnum.luhn`; numbers of UnionPay that were issued
without a check digit are not found.

Recall comes first here, for a card number that is kept is the dearest mistake (PCI DSS
requirement 3): no word before the number excuses it. An order number of 16 digits is taken for a
card where it begins like one and its check digit is right: three in a hundred random numbers. A
shop whose order numbers look like that leaves this kind out, or ends them with a letter.

Whatever breaks a number into groups, it is found when it stands alone. In a longer run of digits -
a card with its expiry date and code - only groups as cards have them count: all of one size from
two digits on, or those of American Express and Diners Club. Any groups at all would find a card in
most tables.
"""

from collections.abc import Iterator
from typing import Final

from stdnum import luhn

from turnstream.privacy.digits import Group, runs, stands_free

_LONGEST: Final = 19
_SHORTEST: Final = 14

_LENGTHS: Final = {
    "visa": (16, 19),
    "usual": (16,),
    "amex": (15,),
    "long": (16, 17, 18, 19),
    "diners": (14, 16, 17, 18, 19),
}
"""Name of a group of networks to the lengths of its numbers."""

_RANGES: Final = (
    ("4", "4", "visa"),
    ("51", "55", "usual"),  # Mastercard
    ("2221", "2720", "usual"),  # Mastercard
    ("34", "34", "amex"),
    ("37", "37", "amex"),
    ("6011", "6011", "long"),  # Discover
    ("644", "659", "long"),  # Discover, RuPay, Troy
    ("60", "60", "usual"),  # RuPay, Hipercard
    ("62", "62", "long"),  # UnionPay
    ("81", "82", "long"),  # UnionPay, RuPay
    ("508", "508", "usual"),  # RuPay
    ("300", "305", "diners"),
    ("3095", "3095", "diners"),
    ("36", "36", "diners"),
    ("38", "39", "diners"),
    ("3528", "3589", "long"),  # JCB
    ("2200", "2204", "long"),  # Mir
    ("9792", "9792", "usual"),  # Troy
    ("5018", "5018", "long"),
    ("5020", "5020", "long"),
    ("5038", "5038", "long"),
    ("5893", "5893", "long"),
    ("6304", "6304", "long"),
    ("6759", "6759", "long"),
    ("6761", "6763", "long"),
)
"""First and last prefix of a range, and the lengths of its numbers."""

_FIRST_DIGITS: Final = frozenset(low[0] for low, _, _ in _RANGES)

_GROUPINGS: Final = frozenset({(4, 6, 5), (4, 6, 4)})
"""Groups of American Express and Diners Club."""


def cards(text: str) -> Iterator[tuple[int, int]]:
    """Where a reading has card numbers.

    From each group at most the 19 digits after it are tried.
    """
    for run in runs(text):
        size = sum(group.size for group in run)
        if size < _SHORTEST:
            continue
        if size <= _LONGEST and _is_card_at(text, run):
            yield run[0].start, run[-1].end
        else:
            yield from _within(text, run)


def _within(text: str, run: list[Group]) -> Iterator[tuple[int, int]]:
    after = 0
    for first, group in enumerate(run):
        if first < after or group.size == 1 or text[group.start] not in _FIRST_DIGITS:
            continue
        sizes: tuple[int, ...] = ()
        for last in range(first, len(run)):
            sizes = (*sizes, run[last].size)
            if sum(sizes) > _LONGEST or not _may_be_grouped(sizes):
                break
            if sum(sizes) >= _SHORTEST and _is_card_at(text, run[first : last + 1]):
                yield group.start, run[last].end
                after = last + 1
                break


def _may_be_grouped(sizes: tuple[int, ...]) -> bool:
    """Whether groups of such sizes are, or begin, those of a card: of one size but for the last."""
    if len(set(sizes[:-1])) <= 1 and sizes[-1] <= sizes[0]:
        return True
    return any(sizes == grouping[: len(sizes)] for grouping in _GROUPINGS)


def _is_card_at(text: str, groups: list[Group]) -> bool:
    digits = "".join(text[group.start : group.end] for group in groups)
    return is_card(digits) and stands_free(text, groups[0].start, groups[-1].end)


def is_card(digits: str) -> bool:
    """Whether digits are the number of a payment card."""
    return _is_issued(digits) and luhn.is_valid(digits)


def _is_issued(digits: str) -> bool:
    return any(
        low <= digits[: len(low)] <= high and len(digits) in _LENGTHS[lengths]
        for low, high, lengths in _RANGES
    )
