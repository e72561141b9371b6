"""Reads PromQL as far as the chart's alerts and dashboard use it, and infers each result's labels.

Labels are what goes wrong in practice: an aggregation by a label that no series has, or two sides
of an operator that never match, are valid PromQL and silently give nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnstream.config import LOGICAL_TOPICS
from turnstream.metrics.catalogue import CATALOGUE, OTHER, Metric, Scope

TARGET_LABELS: Final = frozenset({"namespace", "pod", "component"})
"""What the scrape adds to every series: `templates/monitoring.yaml`."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<string>\"[^\"\\]*\")"
    r"|(?P<duration>\d+(?:ms|[smhdw]))"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[a-zA-Z_:][\w:]*)"
    r"|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/<>=(){}\[\],]))"
)
_AGGREGATIONS: Final = frozenset({"sum", "min", "max", "count", "avg"})
_OF_COUNTERS: Final = frozenset({"rate", "increase"})
_OF_GAUGES: Final = frozenset({"deriv"})
_PRECEDENCE: Final[Sequence[frozenset[str]]] = (
    frozenset({"or"}),
    frozenset({"and", "unless"}),
    frozenset({"==", "!=", ">", "<", ">=", "<="}),
    frozenset({"+", "-"}),
    frozenset({"*", "/"}),
)


class BadQuery(Exception):
    """The expression is not PromQL, or names something that the catalogue does not have."""


@dataclass(frozen=True, slots=True)
class Series:
    """A vector's kind and labels; `labels` is None for a scalar."""

    labels: frozenset[str] | None
    kind: str = "value"
    ranged: bool = False


@dataclass
class _Query:
    """One expression being read."""

    tokens: Sequence[tuple[str, str]]
    position: int = 0
    metrics: set[str] = field(default_factory=set)

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def take(self, kind: str | None = None) -> str:
        if self.position == len(self.tokens):
            raise BadQuery("the expression ends too early")
        found, text = self.tokens[self.position]
        if kind is not None and found != kind:
            raise BadQuery(f"expected a {kind}, got {text!r}")
        self.position += 1
        return text

    def accept(self, text: str) -> bool:
        if self.peek() != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise BadQuery(f"expected {text!r}, got {self.peek()!r}")

    # --- grammar ------------------------------------------------------------------------------

    def expression(self, level: int = 0) -> Series:
        if level == len(_PRECEDENCE):
            return self.operand()
        left = self.expression(level + 1)
        while self.peek() in _PRECEDENCE[level]:
            sign = self.take()
            left = _combined(sign, left, self.expression(level + 1))
        return left

    def operand(self) -> Series:
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.peek()[:1].isdigit():
            self.take("number")
            return Series(None)
        name = self.take("name")
        if name in _AGGREGATIONS:
            return self.aggregation()
        if self.peek() == "(":
            return self.call(name)
        return self.selector(name)

    def aggregation(self) -> Series:
        self.expect("by")
        self.expect("(")
        by = frozenset(self.listed(lambda: self.take("name")))
        self.expect("(")
        inner = self.expression()
        self.expect(")")
        if inner.labels is None or inner.ranged:
            raise BadQuery("an aggregation takes an instant vector")
        if unknown := by - inner.labels:
            raise BadQuery(f"by ({', '.join(sorted(unknown))}): no such label")
        return Series(by, inner.kind)

    def call(self, name: str) -> Series:
        self.expect("(")
        if name == "time":
            self.expect(")")
            return Series(None)
        if name == "histogram_quantile":
            self.take("number")
            self.expect(",")
        inner = self.expression()
        self.expect(")")
        if inner.labels is None:
            raise BadQuery(f"{name}() takes a vector")
        if name in _OF_COUNTERS | _OF_GAUGES:
            wanted = "counter" if name in _OF_COUNTERS else "gauge"
            if not inner.ranged or inner.kind != wanted:
                raise BadQuery(f"{name}() takes a range of a {wanted}")
            return Series(inner.labels)
        if name == "histogram_quantile" and "le" in inner.labels:
            return Series(inner.labels - {"le"})
        raise BadQuery(f"{name}() is unknown or does not fit")

    def selector(self, name: str) -> Series:
        metric, labels, kind = _found(name)
        self.metrics.add(metric.name)
        if self.accept("{"):
            while not self.accept("}"):
                self.matcher(metric, labels)
                if self.peek() != "}":
                    self.expect(",")
        ranged = self.accept("[")
        if ranged:
            self.take("duration")
            self.expect("]")
        if self.accept("offset"):
            self.take("duration")
        return Series(labels, kind, ranged)

    def matcher(self, metric: Metric, labels: frozenset[str]) -> None:
        label, sign, text = self.take("name"), self.take("sign"), self.take("string")
        if label not in labels or sign not in ("=", "!=", "=~", "!~"):
            raise BadQuery(f"{metric.name} has no label {label!r} to be {sign}")
        allowed = _values(metric, label)
        asked = {text[1:-1]} if "~" not in sign else set(text[1:-1].split("|"))
        if allowed is not None and (unknown := asked - allowed):
            raise BadQuery(f"{label} of {metric.name} is never {sorted(unknown)}")

    def listed(self, item: Callable[[], str]) -> Sequence[str]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(")")
        return items


def _combined(sign: str, left: Series, right: Series) -> Series:
    if left.ranged or right.ranged:
        raise BadQuery(f"{sign} takes no ranges")
    if left.labels is None or right.labels is None:
        return Series(left.labels if right.labels is None else right.labels)
    if left.labels != right.labels:
        raise BadQuery(f"the sides of {sign} have different labels and never match")
    return Series(left.labels)


def _found(name: str) -> tuple[Metric, frozenset[str], str]:
    """The metric behind a series' name, its labels and what it counts as."""
    for metric in CATALOGUE:
        labels = frozenset(metric.labels) | TARGET_LABELS
        if metric.kind != "histogram" and name == metric.name:
            return metric, labels, metric.kind
        if metric.kind == "histogram" and name == f"{metric.name}_bucket":
            return metric, labels | {"le"}, "counter"
        if metric.kind == "histogram" and name in (f"{metric.name}_count", f"{metric.name}_sum"):
            return metric, labels, "counter"
    raise BadQuery(f"no metric {name!r} in the catalogue")


def _values(metric: Metric, label: str) -> frozenset[str] | None:
    """The values that a label can have; None where the deployment or the scrape says."""
    match metric.labels.get(label):
        case tuple() as closed:
            return frozenset(closed) | {OTHER}
        case Scope.TOPICS:
            return frozenset(LOGICAL_TOPICS) | {OTHER}
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an expression asks for."""

    metrics: frozenset[str]
    """Names of the catalogue's metrics."""
    labels: frozenset[str]
    """Labels of each series of its result."""


def read(expression: str, *, variables: Mapping[str, str] | None = None) -> Reading:
    """Read an expression.

    Args:
        expression: PromQL, with Grafana's variables.
        variables: what stands in for each variable, by its name with the dollar sign.

    Raises:
        BadQuery: it cannot be read, or names what does not exist.
    """
    text = expression
    for name, value in (variables or {}).items():
        text = text.replace(name, value)
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text.rstrip()):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise BadQuery(f"cannot read {text[position:]!r}")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        position = found.end()
    query = _Query(tokens)
    result = query.expression()
    if query.peek():
        raise BadQuery(f"nothing may follow: {query.peek()!r}")
    if result.labels is None or result.ranged:
        raise BadQuery("the result is no instant vector")
    return Reading(frozenset(query.metrics), result.labels)
