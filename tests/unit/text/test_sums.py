"""Rows as whole numbers, and the table of the words that were met."""

from hypothesis import given
from hypothesis import strategies as st

from turnstream.text.reading import CACHED_WORDS, Word, Words
from turnstream.text.sums import UNIT, Columns

COLUMNS = Columns(3)
_NUMBER = st.integers(-10 * UNIT, 10 * UNIT).map(lambda one: one / UNIT)


@given(rows=st.lists(st.tuples(_NUMBER, _NUMBER, _NUMBER), max_size=50))
def test_sum_of_rows(rows: list[tuple[float, float, float]]) -> None:
    """Each number of a sum is the sum of the numbers at its place, also of negative ones."""
    packed = sum([COLUMNS.packed(row) for row in rows])

    expected = tuple([round(sum([row[at] for row in rows]) * UNIT) for at in range(3)])
    assert expected == COLUMNS.unpacked(packed)


def test_words_are_bounded() -> None:
    """However many different words customers write, only so many are kept."""
    words = Words(lambda piece: Word(piece, "content", piece))
    most = 0
    for number in range(2 * CACHED_WORDS + 1):
        assert str(number) == words[str(number)].text
        most = max(most, len(words))

    assert most == CACHED_WORDS
