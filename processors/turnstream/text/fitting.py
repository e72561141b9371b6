"""Learns what each feature says for each option, from the options' examples.

A multinomial logistic regression of scikit-learn, fitted once. Its coefficients are handed out as a
plain dictionary, since scoring a message adds up a few dozen numbers and needs no matrices.

scikit-learn is imported when something is learnt: whoever only reads a configuration does not wait
for it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from typing import Any, Final

Row = Mapping[str, float]
"""Feature to strength."""

_FREEDOM: Final = 20.0
"""How far the weights may go from 0 (`C`), by cross-validation: more follows single examples, less
lets the most frequent words decide."""

_STEPS: Final = 1_000
"""Far more than the fit takes; a bound on the time that strange examples could cost."""

ALWAYS_RARE: Final = "#"
"""First character of features that are told by their presence, however common: values."""

_DIGITS: Final = 4
"""Rounded, so that noise of the arithmetic never decides between two options."""


def rarities(rows: Sequence[Row]) -> dict[str, float]:
    """How much a feature tells by its rarity: 1 for the rarest.

    Args:
        rows: the features of every example.
    """
    seen = Counter([feature for row in rows for feature in row])
    most = log(1 + len(rows))
    return {
        feature: 1.0 if feature.startswith(ALWAYS_RARE) else log(1 + len(rows) / count) / most
        for feature, count in sorted(seen.items())
    }


def likeness(rows: Sequence[Row], others: Sequence[Row]) -> list[float]:
    """How alike each of the others is to the row that it resembles most (cosine, 0 to 1).

    Args:
        rows: the features of examples, weighed by rarity; not empty.
        others: the same of the examples to compare.
    """
    if not others:
        return []
    _, table = _table([*rows, *others])
    alike = table[len(rows) :] @ table[: len(rows)].T
    return [float(one) for one in alike.max(axis=1).toarray().ravel()]


def fit(rows: Sequence[Row], labels: Sequence[int], options: int) -> dict[str, tuple[float, ...]]:
    """What each feature says for each option.

    Args:
        rows: the features of each example, weighed by rarity.
        labels: the option of each example, from 0.
        options: number of options, at least 2; each counts alike, however many examples it has.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - see above
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - comes with scikit-learn

    # An option without examples must still compete: an empty one says nothing and gives it a place.
    absent = sorted({*range(options)} - {*labels})
    names, table = _table([*rows, *({} for _ in absent)])
    model = LogisticRegression(
        C=_FREEDOM, class_weight="balanced", fit_intercept=False, max_iter=_STEPS, solver="lbfgs"
    )
    # The vectors are short: threads would wait for one another, and could add up in another order.
    with threadpool_limits(limits=1):
        model.fit(table, [*labels, *absent])
    # Of two options only the difference is fitted.
    found = model.coef_ if options > 2 else [-model.coef_[0] / 2, model.coef_[0] / 2]  # noqa: PLR2004
    return {
        name: tuple([round(float(one), _DIGITS) for one in column])
        for name, column in zip(names, zip(*found, strict=True), strict=True)
    }


def _table(rows: Sequence[Row]) -> tuple[list[str], Any]:
    """The names of all features, sorted, and the rows as a sparse matrix of unit lengths."""
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415 - see above
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - see above

    vectorizer = DictVectorizer()
    table = normalize(vectorizer.fit_transform([dict(row) for row in rows]))
    return [*vectorizer.get_feature_names_out()], table
