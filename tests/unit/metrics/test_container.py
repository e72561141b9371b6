"""What is exposed: names, labels, closed lists, owned partitions."""

from typing import get_args

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from turnstream.metrics import CATALOGUE, Metric, Metrics, Pending, Scope
from turnstream.metrics.catalogue import DEAD_LETTER_REASONS, PREFIX
from turnstream.stream.handler import DeadLetterReason
from turnstream.stream.observer import Observer

TOPICS = {
    "staging.conversation.turns": "conversation.turns",
    "staging.tool.results": "tool.results",
}
TURNS = "staging.conversation.turns"
RESULTS = "staging.tool.results"


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry of the test's own."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    """The metrics of a deployment with one tool and two topics."""
    return Metrics(
        registry, tools=("get_order_status",), deciders=("catalog_rules",), topics=TOPICS
    )


def series(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Sample name and labels to value, from the text that a scrape gets."""
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def use_everything(metrics: Metrics, word: str, number: int = 1) -> None:
    """Calls every method that takes a text, with `word` for it."""
    metrics.turn(word)
    metrics.decided(action=word, reason_code=word, age_ms=number)
    metrics.handed_off(word)
    metrics.proposed(number)
    metrics.decider_failed(word)
    metrics.decider_retried(word, failure=word)
    metrics.decider_attempt_failed(word, failure=word)
    metrics.decider_read_and_wrote(word, read=abs(number), written=abs(number))
    metrics.decider_cost(word, abs(number), currency=word)
    metrics.outcome(of=word, outcome=word)
    metrics.tool_called(word, outcome=word)
    metrics.tool_attempted(word, seconds=number)
    metrics.tool_retried(word)
    metrics.tool_reconciled(word, verdict=word)
    metrics.tool_schema_changed(word)
    metrics.result_ignored(word)
    metrics.tool_arguments_altered(word, stage=word)
    metrics.model_call_rejected(word, gate=word)
    metrics.raw_text_lost()
    metrics.agent_told(told=number > 0)
    metrics.answered(word)
    metrics.classified(word)
    metrics.compared(word)
    metrics.handled(word, abs(number))
    metrics.skipped(word)
    metrics.dead_lettered(word, word)
    metrics.retried(word)
    metrics.mended(word, 1)
    metrics.lost(word, 1)
    metrics.committed(abs(number), number)
    metrics.held(word, 0, held=True)
    metrics.paused(word, 0, paused=True)
    metrics.oldest_unfinished(word, 0, 1)
    metrics.position(word, 0, committed=1)
    metrics.restored(0, abs(number), 1, number)


def test_the_last_contact_is_told_at_each_scrape(
    registry: CollectorRegistry, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time, so that it can be seen while nothing happens."""
    monkeypatch.setattr("turnstream.metrics.container.time.time", lambda: 1_000.0)
    silence = [30.0]
    metrics.watch_brokers(lambda: silence[0])
    name = ("turnstream_broker_contact_timestamp_seconds", ())
    before = series(registry)[name]
    silence[0] = 60.0

    assert (970.0, 940.0) == (before, series(registry)[name])


def test_the_exposition_is_the_catalogue(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Every metric of the catalogue is exposed with its type and help, and no other."""
    found = {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }

    expected = {
        metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name: (
            metric.kind,
            metric.help,
        )
        for metric in CATALOGUE
    }
    assert expected == found


def test_the_samples_have_the_labels_of_the_catalogue(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Each exposed sample carries exactly the label names that its catalogue entry lists."""
    use_everything(metrics, TURNS)
    metrics.parked(0, 1)
    metrics.unreadable(0, 1)
    metrics.full(0, full=True)
    metrics.watch_tools(lambda: {"get_order_status": "open"})
    metrics.watch_deciders(lambda: {"catalog_rules": "open"})
    metrics.watch_pending(lambda: [Pending(TURNS, 0, 1, 1)])

    by_name = {metric.name: metric for metric in CATALOGUE}
    seen: set[str] = set()
    for name, labels in series(registry):
        base = name
        for suffix in ("_bucket", "_sum", "_count"):
            candidate = name.removesuffix(suffix)
            if candidate in by_name:
                base = candidate
        names = {label for label, _ in labels if label != "le"}
        seen.add(base)
        assert set(by_name[base].labels) == names, name
    assert set(by_name) == seen


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """A name has the prefix, a counter ends in _total, and a time says its unit."""
    assert metric.name.startswith(PREFIX)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert ("seconds" in metric.unit) == metric.name.endswith("seconds")
    if "seconds" in metric.unit:
        assert metric.name.endswith(metric.unit)
    assert bool(metric.buckets) == (metric.kind == "histogram")


def test_hostile_values_make_no_series(registry: CollectorRegistry, metrics: Metrics) -> None:
    """A thousand events with invented values add no series and show nowhere."""
    use_everything(metrics, 'first-invented"\n{}')
    before = len(series(registry))

    for number in range(1_000):
        use_everything(metrics, f'invented-{number}"\n}} 1\nevil{{a="b"}}')

    text = generate_latest(registry).decode()
    assert before == len(series(registry))
    assert "invented" not in text
    assert "evil" not in text


def test_every_value_is_on_its_closed_list(registry: CollectorRegistry, metrics: Metrics) -> None:
    """What is exposed for a label is on the label's list, or is `other`."""
    for word in ("customer", "answer", "billing", "get_order_status", "done", TURNS, "<script>"):
        use_everything(metrics, word)

    by_name = {metric.name: metric for metric in CATALOGUE}
    for name, labels in series(registry):
        metric = by_name.get(name)
        for label, value in labels if metric is not None else ():
            assert metric is not None
            allowed = metric.labels[label]
            if allowed is Scope.PARTITIONS:
                assert value.isdecimal()
            else:
                values = metrics.closed_lists[allowed] if isinstance(allowed, Scope) else allowed
                assert value in {*values, "other"}, (name, label)


def test_known_values_keep_their_names(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Values on the lists are exposed as they are, topics under their logical names."""
    metrics.decided(action="ask", reason_code="missing_input", age_ms=1_500)
    metrics.handed_off(None)
    metrics.tool_called("get_order_status", outcome="failed")
    metrics.dead_lettered(TURNS, "malformed")

    found = series(registry)
    assert found[
        "turnstream_decisions_total", (("action", "ask"), ("reason_code", "missing_input"))
    ]
    assert found["turnstream_handoffs_total", (("cause", "proposed"),)] == 1
    assert found[
        "turnstream_tool_calls_total", (("outcome", "failed"), ("tool", "get_order_status"))
    ]
    assert found[
        "turnstream_dead_letters_total", (("reason", "malformed"), ("topic", "conversation.turns"))
    ]
    assert found["turnstream_decision_age_seconds_sum", ()] == 1.5


def test_a_revoked_partition_leaves_nothing(registry: CollectorRegistry, metrics: Metrics) -> None:
    """After `forget` no series of the partition is left, and it comes back with fresh values."""
    for partition in (0, 1):
        metrics.position(TURNS, partition, committed=7)
        metrics.oldest_unfinished(TURNS, partition, 5_000)
        metrics.held(RESULTS, partition, held=True)
        metrics.paused(RESULTS, partition, paused=True)
        metrics.parked(partition, 3)
        metrics.unreadable(partition, 2)
        metrics.keys(partition, 4)

    metrics.forget(1)

    assert {"0"} == {
        dict(labels)["partition"]
        for _, labels in series(registry)
        if len(labels) and "partition" in dict(labels)
    }
    metrics.position(TURNS, 1, committed=9)
    mine = {key: value for key, value in series(registry).items() if ("partition", "1") in key[1]}
    assert {
        (
            "turnstream_committed_offset",
            (("partition", "1"), ("topic", "conversation.turns")),
        ): 9.0
    } == mine


def test_pending_questions_are_those_owned_now(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Each scrape shows what the owner's callable says at that moment, nothing older."""
    owned = [Pending(TURNS, 0, 2, 5_000), Pending(TURNS, 1, 0, None)]
    metrics.watch_pending(lambda: tuple(owned))
    first = series(registry)
    owned.pop(0)
    second = series(registry)

    zero = (("partition", "0"), ("topic", "conversation.turns"))
    one = (("partition", "1"), ("topic", "conversation.turns"))
    assert first["turnstream_pending_questions", zero] == 2
    assert first["turnstream_oldest_pending_question_timestamp_seconds", zero] == 5
    assert first["turnstream_pending_questions", one] == 0
    assert ("turnstream_oldest_pending_question_timestamp_seconds", one) not in first
    assert [("turnstream_pending_questions", one)] == [
        key for key in second if "pending_question" in key[0]
    ]


def test_negative_values_become_zero_and_are_counted(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """A clock that went back raises nowhere: the value is 0, and the oddity is counted."""
    metrics.decided(action="ask", reason_code="missing_input", age_ms=-5_000)
    metrics.tool_attempted("get_order_status", seconds=-2.0)
    metrics.committed(10, -0.001)

    found = series(registry)
    assert found["turnstream_decision_age_seconds_sum", ()] == 0
    assert found["turnstream_decision_age_seconds_count", ()] == 1
    assert found["turnstream_impossible_values_total", ()] == 3


def test_two_instances_live_in_one_process() -> None:
    """Two containers with registries of their own do not clash."""
    one, two = CollectorRegistry(), CollectorRegistry()
    Metrics(one).turn("customer")
    Metrics(two)

    assert len(series(one)) == len(series(two)) + 1


def test_the_dead_letter_reasons_are_those_of_the_stream() -> None:
    """The catalogue's list of reasons is the stream's."""
    assert set(get_args(DeadLetterReason)) == set(DEAD_LETTER_REASONS)


def test_the_container_is_an_observer(metrics: Metrics) -> None:
    """The stream can report to the container directly."""
    observer: Observer = metrics

    observer.committed(1, 0.1)
