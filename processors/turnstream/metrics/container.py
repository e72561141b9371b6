"""The metrics of one process: typed methods over the catalogue's entries.

Nothing is registered globally, so several instances live in one process without clashing. The
instance is also what the stream reports to (it has the methods of the stream's observer).

Gauges of partitions are not kept as time series: they are made at each scrape from what is owned at
that moment, so a partition that was revoked or lost leaves nothing behind.
"""

import functools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from turnstream.metrics import catalogue
from turnstream.metrics.catalogue import OTHER, PROPOSED, Metric, Scope
from turnstream.metrics.series import counters, histograms

_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class Pending:
    """The open questions of one owned partition."""

    topic: str
    """Physical name of the topic whose conversations they belong to."""
    partition: int
    count: int
    oldest_at: int | None
    """When the oldest was asked, milliseconds UTC; None without questions."""


PendingSource = Callable[[], Iterable[Pending]]
"""Tells the open questions of the partitions owned now; called from the scrape's thread."""


_LIST_PRICES: Final = "USD"
"""The currency of the prices that providers publish."""

_BREAKER_STATES: Final = ("closed", "half_open", "open")
"""In the order of the gauge's values."""

BreakerSource = Callable[[], Mapping[str, str]]
"""Tells the state of the breaker of each tool or decider; called from the scrape's thread."""


class Metrics:
    """All metrics of one process.

    Label values are closed: what is not on a metric's list becomes ``other``.

    Args:
        registry: where they are exposed.
        tools: the names of the catalog's tools.
        deciders: the configured names of the deciders of the catalog's agents and of the shadow.
        currencies: the currencies of the configured prices.
        topics: physical topic name to the logical name that is exposed.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        tools: Collection[str] = (),
        deciders: Collection[str] = (),
        currencies: Collection[str] = (),
        topics: Mapping[str, str] | None = None,
    ) -> None:
        self._topics = dict(topics or {})
        self.closed_lists: Mapping[Scope, frozenset[str]] = {
            Scope.TOOLS: frozenset(tools),
            Scope.DECIDERS: frozenset(deciders),
            Scope.CURRENCIES: frozenset(currencies) | {_LIST_PRICES},
            Scope.TOPICS: frozenset(self._topics.values()),
        }
        # The creation time of each counter would double the number of series for no dashboard.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._counters = {
            metric.name: counters(metric, self.closed_lists, registry)
            for metric in catalogue.CATALOGUE
            if metric.kind == "counter"
        }
        self._histograms = {
            metric.name: histograms(metric, self.closed_lists, registry)
            for metric in catalogue.CATALOGUE
            if metric.kind == "histogram"
        }
        self._impossible = self._counters[catalogue.IMPOSSIBLE_VALUES.name][()]
        self._turns = self._counters[catalogue.TURNS.name]
        self._decisions = self._counters[catalogue.DECISIONS.name]
        self._decision_age = self._histograms[catalogue.DECISION_AGE.name][()]
        self._decider_seconds = self._histograms[catalogue.DECIDER_SECONDS.name][()]
        running, owned = catalogue.HANDLERS_RUNNING, catalogue.PARTITIONS_OWNED
        self._running = Gauge(running.name, running.help, registry=registry)
        resting, breaker = catalogue.HANDLERS_RESTING, catalogue.DECIDER_BREAKER
        self._resting = Gauge(resting.name, resting.help, registry=registry)
        self._decider_breaker = Gauge(
            breaker.name, breaker.help, tuple(breaker.labels), registry=registry
        )
        contact = catalogue.BROKER_CONTACT
        self._contact = Gauge(contact.name, contact.help, registry=registry)
        self._owned = Gauge(owned.name, owned.help, registry=registry)
        breaker = catalogue.TOOL_BREAKER
        self._tool_breaker = Gauge(
            breaker.name, breaker.help, tuple(breaker.labels), registry=registry
        )
        self._partitions = _PartitionGauges(self._topics)
        registry.register(self._partitions)

    # --- decisions ----------------------------------------------------------------------------

    def turn(self, role: str) -> None:
        """A turn was read."""
        self._turns[role,].inc()

    def decided(self, *, action: str, reason_code: str, age_ms: int | None = None) -> None:
        """A decision was published, `age_ms` after its turn was written."""
        self._decisions[action, reason_code].inc()
        if age_ms is not None:
            self._decision_age.observe(self._possible(age_ms / _MILLIS))

    def handed_off(self, cause: str | None) -> None:
        """A conversation was handed to a person; without a cause, because the decider said so."""
        self._count(catalogue.HANDOFFS, cause or PROPOSED)

    def proposed(self, seconds: float) -> None:
        """A decider has replied."""
        self._decider_seconds.observe(self._possible(seconds))

    def decider_failed(self, failure: str) -> None:
        """No proposal could be had (``unavailable``) or it broke a rule (``blocked``)."""
        self._count(catalogue.DECIDER_FAILURES, failure)

    def decider_retried(self, decider: str, *, failure: str) -> None:
        """An attempt at a proposal failed and is followed by another."""
        self._count(catalogue.DECIDER_RETRIES, decider, failure)

    def decider_attempt_failed(self, decider: str, *, failure: str) -> None:
        """An attempt at a proposal failed, whatever follows."""
        self._count(catalogue.DECIDER_ATTEMPTS_FAILED, decider, failure)

    def decider_read_and_wrote(self, decider: str, *, read: int, written: int) -> None:
        """A reply took so many tokens."""
        self._count(catalogue.DECIDER_TOKENS, decider, "in", amount=read)
        self._count(catalogue.DECIDER_TOKENS, decider, "out", amount=written)

    def decider_cost(self, decider: str, cost: float, *, currency: str) -> None:
        """A reply cost so much."""
        self._count(catalogue.DECIDER_COST, decider, currency, amount=cost)

    def watch_deciders(self, states: BreakerSource) -> None:
        """Take the gauge of the deciders' breakers from `states` at each scrape."""
        # Only those that this process asks: the shadow's has no breaker in `decide`.
        own = self.closed_lists[Scope.DECIDERS] & states().keys()
        _watch(self._decider_breaker, own, states)

    def model_call_rejected(self, tool: str, *, gate: str) -> None:
        """A call that an agent model asked for did not pass a gate."""
        self._count(catalogue.MODEL_CALLS_REJECTED, tool, gate)

    def raw_text_lost(self) -> None:
        """A raw text could not be written to the restricted sink."""
        self._count(catalogue.RAW_TEXTS_LOST)

    def outcome(self, *, of: str, outcome: str) -> None:
        """A turn, reply or question ended without an action of its own."""
        self._count(catalogue.OUTCOMES, of, outcome)

    def watch_pending(self, source: PendingSource) -> None:
        """Take the gauges of open questions from `source` at each scrape."""
        self._partitions.pending = source

    # --- effects ------------------------------------------------------------------------------

    def tool_called(self, tool: str, *, outcome: str) -> None:
        """A tool call has ended."""
        self._count(catalogue.TOOL_CALLS, tool, outcome)

    def tool_attempted(self, tool: str, *, seconds: float) -> None:
        """One attempt at a tool call has ended."""
        self._observe(catalogue.TOOL_CALL_SECONDS, seconds, tool)

    def tool_retried(self, tool: str) -> None:
        """A tool call is tried again."""
        self._count(catalogue.TOOL_RETRIES, tool)

    def tool_reconciled(self, tool: str, *, verdict: str) -> None:
        """A tool was asked what became of a call."""
        self._count(catalogue.TOOL_RECONCILIATIONS, tool, verdict)

    def result_ignored(self, reason: str) -> None:
        """A result changed nothing."""
        self._count(catalogue.RESULTS_IGNORED, reason)

    def tool_schema_changed(self, tool: str) -> None:
        """A call was not made: its tool is not what the catalog says."""
        self._count(catalogue.TOOL_SCHEMA_CHANGES, tool)

    def tool_arguments_altered(self, tool: str, *, stage: str) -> None:
        """A call does not carry what was asked for."""
        self._count(catalogue.TOOL_ARGUMENTS_ALTERED, tool, stage)

    def agent_told(self, *, told: bool) -> None:
        """A handoff to a queue with an agent has been told to it, or could not be."""
        self._count(catalogue.AGENTS_TOLD, "taken" if told else "not_taken")

    def watch_tools(self, states: BreakerSource) -> None:
        """Take the gauge of the tools' breakers from `states` at each scrape."""
        _watch(self._tool_breaker, self.closed_lists[Scope.TOOLS], states)

    def answered(self, result: str) -> None:
        """An answer action was carried out, or could not be."""
        self._count(catalogue.ANSWERS, result)

    def classified(self, result: str) -> None:
        """An exchange was labelled, or could not be."""
        self._count(catalogue.CLASSIFICATIONS, result)

    def compared(self, verdict: str) -> None:
        """A shadow proposal was compared."""
        self._count(catalogue.SHADOW_COMPARISONS, verdict)

    # --- delivery: what the stream reports ----------------------------------------------------

    def handled(self, topic: str, count: int) -> None:
        """Records of a source topic were finished in a committed transaction."""
        self._count(catalogue.RECORDS_HANDLED, self._logical(topic), amount=count)

    def skipped(self, topic: str) -> None:
        """A record was met again and skipped."""
        self._count(catalogue.RECORDS_SKIPPED, self._logical(topic))

    def dead_lettered(self, topic: str, reason: str) -> None:
        """A record was put aside."""
        self._count(catalogue.DEAD_LETTERS, self._logical(topic), reason)

    def mended(self, topic: str, count: int) -> None:
        """Records had odd header names, or stand in for a batch that cannot be read."""
        self._count(catalogue.RECORDS_MENDED, self._logical(topic), amount=count)

    def lost(self, topic: str, count: int) -> None:
        """Records were deleted before they were handled."""
        self._count(catalogue.RECORDS_LOST, self._logical(topic), amount=count)

    def retried(self, topic: str) -> None:
        """A handler raised and will be called again."""
        self._count(catalogue.HANDLER_RETRIES, self._logical(topic))

    def committed(self, records: int, seconds: float) -> None:
        """A transaction with that many records was committed."""
        self._count(catalogue.TRANSACTIONS)
        self._count(catalogue.TRANSACTION_RECORDS, amount=records)
        self._observe(catalogue.TRANSACTION_SECONDS, seconds)

    def running(self, tasks: int) -> None:
        """Number of handlers running now."""
        self._running.set(tasks)

    def resting(self, tasks: int) -> None:
        """Number of handlers that wait to try again, without a slot."""
        self._resting.set(tasks)

    def lanes(self, open_lanes: int) -> None:
        """Number of partition numbers owned now."""
        self._owned.set(open_lanes)

    def watch_brokers(self, silence: Callable[[], float]) -> None:
        """Take the time of the last contact from `silence`, in seconds, at each scrape."""
        self._contact.set_function(lambda: time.time() - silence())

    def held(self, topic: str, partition: int, held: bool) -> None:  # noqa: FBT001 - a gauge
        """A source partition waits for a schema, or goes on."""
        self._partitions.set(catalogue.PARTITION_HELD, float(held), partition, topic)

    def paused(self, topic: str, partition: int, paused: bool) -> None:  # noqa: FBT001 - a gauge
        """A source partition is not fetched, or is fetched again."""
        self._partitions.set(catalogue.PARTITION_PAUSED, float(paused), partition, topic)

    def parked(self, partition: int, keys: int) -> None:
        """Number of conversations that wait for a newer version."""
        self._partitions.set(catalogue.PARKED, keys, partition)

    def full(self, partition: int, full: bool) -> None:  # noqa: FBT001 - a gauge
        """A partition has as many state records as it may, or has room again."""
        self._partitions.set(catalogue.PARTITION_FULL, float(full), partition)

    def unreadable(self, partition: int, keys: int) -> None:
        """Number of conversations whose state cannot be read and that are not yet handed off."""
        self._partitions.set(catalogue.UNREADABLE, keys, partition)

    def restored(self, partition: int, records: int, keys: int, seconds: float) -> None:
        """The state of a partition was read from its changelog."""
        self._count(catalogue.RESTORED_RECORDS, amount=records)
        self._observe(catalogue.RESTORE_SECONDS, seconds)
        self._partitions.set(catalogue.STATE_RECORDS, keys, partition)

    def keys(self, partition: int, count: int) -> None:
        """Number of keys with a state record."""
        self._partitions.set(catalogue.STATE_RECORDS, count, partition)

    def oldest_unfinished(self, topic: str, partition: int, timestamp: int | None) -> None:
        """Time (ms) of the oldest record fetched and not finished; None if there is none."""
        if timestamp is None:
            self._partitions.unset(catalogue.OLDEST_UNFINISHED, partition, topic)
        else:
            value = timestamp / _MILLIS
            self._partitions.set(catalogue.OLDEST_UNFINISHED, value, partition, topic)

    def position(self, topic: str, partition: int, *, committed: int) -> None:
        """A transaction committed this offset."""
        self._partitions.set(catalogue.COMMITTED_OFFSET, committed, partition, topic)

    def forget(self, partition: int) -> None:
        """The partition is not ours any more: its gauges end."""
        self._partitions.forget(partition)

    # --- closed lists and impossible values ---------------------------------------------------

    def _logical(self, physical: str) -> str:
        return self._topics.get(physical, OTHER)

    def _possible(self, amount: float) -> float:
        if amount >= 0:
            return amount
        self._impossible.inc()
        return 0.0

    def _count(self, metric: Metric, *values: str, amount: float = 1) -> None:
        self._counters[metric.name][values].inc(self._possible(amount))

    def _observe(self, metric: Metric, amount: float, *values: str) -> None:
        self._histograms[metric.name][values].observe(self._possible(amount))


def _watch(gauge: Gauge, names: Iterable[str], states: BreakerSource) -> None:
    def value(name: str) -> float:
        return float(_BREAKER_STATES.index(states().get(name, "closed")))

    for name in names:
        gauge.labels(name).set_function(functools.partial(value, name))


class _PartitionGauges(Collector):
    """The gauges of owned partitions, made anew at each scrape."""

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = topics
        self._lock = threading.Lock()  # the event loop writes, the scrape's thread reads
        self._values: dict[tuple[int, str | None, str], float] = {}
        """(partition, physical topic or None, metric name) to its value."""
        self.pending: PendingSource = tuple

    def set(self, metric: Metric, value: float, partition: int, topic: str | None = None) -> None:
        # Two topics under `other` would be one series twice, which makes a scrape invalid.
        if topic is None or topic in self._topics:
            with self._lock:
                self._values[partition, topic, metric.name] = value

    def unset(self, metric: Metric, partition: int, topic: str | None = None) -> None:
        with self._lock:
            self._values.pop((partition, topic, metric.name), None)

    def forget(self, partition: int) -> None:
        with self._lock:
            for key in [key for key in self._values if key[0] == partition]:
                del self._values[key]

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without samples, so that registration needs no scrape."""
        return self._families().values()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = self._families()
        with self._lock:
            values = tuple(self._values.items())
        for (partition, topic, name), value in values:
            labels = [str(partition)]
            if topic is not None:
                labels.insert(0, self._topics[topic])
            families[name].add_metric(labels, value)
        for pending in self.pending():
            labels = [self._topics[pending.topic], str(pending.partition)]
            families[catalogue.PENDING_QUESTIONS.name].add_metric(labels, pending.count)
            if pending.oldest_at is not None:
                oldest = families[catalogue.OLDEST_PENDING_QUESTION.name]
                oldest.add_metric(labels, pending.oldest_at / _MILLIS)
        yield from families.values()

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {
            metric.name: GaugeMetricFamily(metric.name, metric.help, labels=tuple(metric.labels))
            for metric in catalogue.CATALOGUE
            if metric.kind == "gauge" and Scope.PARTITIONS in metric.labels.values()
        }
