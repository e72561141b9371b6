"""Where a new group may start, and what topics must take."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersionError,
)
from aiokafka.protocol.commit import OffsetFetchResponse_v3
from aiokafka.structs import TopicPartition

from turnstream.stream import start, transaction
from turnstream.stream.clients import started
from turnstream.stream.imprint import IMPRINT_KEY, imprint_of
from turnstream.stream.reachability import Unreachable
from turnstream.stream.role import LaneFailed, StartRefused
from turnstream.stream.start import start_time_ms
from turnstream.stream.topic_ids import TopicIds
from turnstream.stream.transaction import MAX_BATCH_BYTES

from .lane_fakes import CHANGELOG, OUT, RESULTS, TURNS, settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T02:00:01+02:00", 1_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1970-01-02", 86_400_000),
    ],
)
def test_reads_iso_times(text: str, expected: int) -> None:
    """A time without a zone is UTC."""
    assert expected == start_time_ms(text)


def test_refuses_anything_else() -> None:
    """The message says what is allowed."""
    with pytest.raises(StartRefused, match="latest"):
        start_time_ms("yesterday")


def test_topics_must_take_the_largest_batch_that_this_role_sends_them() -> None:
    """Where the broker does not tell, nothing is refused; a dead letter can be cut short."""
    of = settings(
        writes=frozenset({OUT}), max_publication_bytes=300_000, max_record_bytes=1_000_000
    )
    largest = start._largest_batches(of, dead_letters=[f"{TURNS}.dlq"])

    assert {
        OUT: 301_024,
        CHANGELOG: 1_001_024,
        f"{TURNS}.dlq": MAX_BATCH_BYTES,
    } == largest

    start._check_limits({}, largest=largest)
    start._check_limits({OUT: 301_024, CHANGELOG: 1_048_588}, largest=largest)
    with pytest.raises(StartRefused) as refused:
        start._check_limits({OUT: 301_023, CHANGELOG: 5}, largest=largest)
    assert (
        f"topic {OUT} takes 301,023 bytes, this role writes up to 301,024; topic {CHANGELOG} takes "
        "5 bytes, this role writes up to 1,001,024: raise max.message.bytes of each"
    ) == str(refused.value)


def test_small_publications_still_come_in_whole_batches() -> None:
    """Many records share a batch: a topic that takes one of them takes not all."""
    of = settings(writes=frozenset({OUT}), max_publication_bytes=100)

    assert MAX_BATCH_BYTES == start._largest_batches(of, dead_letters=[])[OUT]


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ({TURNS: 4, RESULTS: 6, CHANGELOG: 4}, "same number of partitions: turns has 4, results"),
        ({TURNS: 4, RESULTS: 4, CHANGELOG: 6}, "changelog 'changelog' was made for 6 partitions"),
        ({TURNS: 4, RESULTS: 0, CHANGELOG: 0}, "topics do not exist: results, changelog; create"),
    ],
)
def test_topics_that_do_not_fit_together_refuse_the_start(
    counts: dict[str, int], problem: str
) -> None:
    """The message names them, and what each has."""
    with pytest.raises(StartRefused, match=problem):
        start._check_partition_counts(counts, settings=settings())


class NewGroup:
    """A consumer of a group that has committed nothing."""

    def assign(self, tps: Sequence[TopicPartition]) -> None:
        """Accept."""

    async def beginning_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """All are empty."""
        return dict.fromkeys(tps, 0)

    _client = None


class Unauthorized:
    """A producer whose transactional id the broker does not allow to this user."""

    client = None

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.stopped = False
        made.append(self)

    async def start(self) -> None:
        """Be refused."""
        raise TransactionalIdAuthorizationFailed

    async def stop(self) -> None:
        """Take note."""
        self.stopped = True


made: list[Unauthorized] = []


async def test_a_transactional_id_that_is_not_allowed_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message says what was tried and what the broker said; no client is left open."""

    async def nothing(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(start, "any_committed", nothing)
    monkeypatch.setattr(transaction, "AIOKafkaProducer", Unauthorized)
    monkeypatch.setattr(transaction, "wait_for_nodes", lambda *_, **__: None)
    made.clear()
    with pytest.raises(StartRefused, match=r"where group 'group' starts: Transactional.*Failed"):
        await start._check_offsets(
            cast("AIOKafkaConsumer", NewGroup()),
            partitions=2,
            held=frozenset({0, 1}),
            settings=settings(start_from="earliest"),
        )

    assert [("group-start", True)] == [
        (each.options["transactional_id"], each.stopped) for each in made
    ]


IDS = TopicIds("cluster", {TURNS: "id-1", RESULTS: "id-2", CHANGELOG: "id-3"})


class Starting:
    """The producer that commits where a group starts, and what a changelog of two partitions has.

    It keeps what was committed, by partition of the changelog, and the offsets.
    """

    client = None

    def __init__(self, *, known: bool, held: frozenset[int]) -> None:
        self.known = known
        self.held = held
        self.imprints: dict[int, tuple[bytes, bytes]] = {}
        self.offsets: Mapping[TopicPartition, int] = {}
        self.transactions = 0
        self.error: KafkaError | None = None

    async def start(self) -> None:
        """Fail, if told to."""
        if self.error is not None:
            raise self.error

    async def stop(self) -> None:
        """Disconnect."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Count."""
        self.transactions += 1
        yield

    async def send_and_wait(self, topic: str, value: bytes, *, key: bytes, partition: int) -> None:
        """Keep."""
        assert CHANGELOG == topic
        self.imprints[partition] = (key, value)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: str
    ) -> None:
        """Keep."""
        self.offsets = offsets

    async def checked(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        """Check the offsets of the group."""

        async def any_committed(*_: object, **__: object) -> bool:
            return self.known

        async def held_partitions(*_: object, **__: object) -> frozenset[int]:
            return self.held

        async def topic_ids(*_: object) -> TopicIds:
            return IDS

        monkeypatch.setattr(start, "any_committed", any_committed)
        monkeypatch.setattr(start, "held_partitions", held_partitions)
        monkeypatch.setattr(start, "topic_ids", topic_ids)
        monkeypatch.setattr(start, "group_producer", lambda *_, **__: self)
        monkeypatch.setattr(start, "_ATTEMPT_SECONDS", 0)
        await start._check_offsets(
            cast("AIOKafkaConsumer", NewGroup()),
            partitions=2,
            held=self.held,
            settings=settings(start_from="earliest", **options),
        )


async def test_a_group_with_offsets_and_an_empty_changelog_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was made anew: what was handled beyond the offsets would be done twice."""
    starting = Starting(known=True, held=frozenset())
    with pytest.raises(StartRefused) as refused:
        await starting.checked(monkeypatch)

    for part in (
        "changelog 'changelog' was recreated or emptied: group 'group' has committed offsets",
        "restore the changelog",
        "`kafka-consumer-groups --delete --group group`",
        "start_from",
    ):
        assert part in str(refused.value)
    assert 0 == starting.transactions


@pytest.mark.parametrize(
    ("known", "held", "marked"),
    [
        (False, (), {0, 1}),  # a new group
        (False, (1,), {0}),  # its offsets expired
        (False, (0, 1), set()),
        (True, (1,), {0}),  # of an earlier version, with a partition that never had a record
        (True, (0, 1), set()),
    ],
)
async def test_a_changelog_says_what_it_is_for_from_the_first_commit_on(
    monkeypatch: pytest.MonkeyPatch,
    known: bool,
    held: tuple[int, ...],
    marked: set[int],
) -> None:
    """In each partition that is empty: what another says of itself is left as it is."""
    starting = Starting(known=known, held=frozenset(held))
    await starting.checked(monkeypatch)

    assert dict.fromkeys(marked, (IMPRINT_KEY, imprint_of(2, IDS))) == starting.imprints
    assert (0 if known else 4) == len(starting.offsets)
    assert bool(marked or not known) == starting.transactions


async def test_a_start_that_another_one_fences_has_nothing_left_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one has committed where the group starts, and marked the changelog."""
    starting = Starting(known=False, held=frozenset())

    async def fenced() -> None:
        starting.known, starting.held = True, frozenset({0, 1})
        raise ProducerFenced

    monkeypatch.setattr(starting, "start", fenced)
    await starting.checked(monkeypatch)

    assert 0 == starting.transactions


@pytest.mark.parametrize("error", [KafkaTimeoutError(), KafkaConnectionError()])
async def test_brokers_that_go_away_before_the_first_commit_refuse_nothing(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    """The process is started again, and they may be back."""
    starting = Starting(known=False, held=frozenset())
    starting.error = error
    with pytest.raises(LaneFailed, match="cannot commit where group 'group' starts: Kafka"):
        await starting.checked(monkeypatch)


@pytest.mark.parametrize(("lasting", "ends"), [(False, LaneFailed), (True, StartRefused)])
async def test_only_what_lasts_refuses_the_start_of_a_client(
    monkeypatch: pytest.MonkeyPatch,
    lasting: bool,
    ends: type[Exception],
) -> None:
    """A broker that restarts is there again for the next start; a wrong password is not right."""

    async def why(*_: object) -> Unreachable:
        return Unreachable("no Kafka", "start it", lasting=lasting)

    async def starting() -> None:
        raise KafkaConnectionError

    monkeypatch.setattr(start, "why_unreachable", why)
    with pytest.raises(ends, match="no Kafka; start it"):
        await start._reached(starting(), settings())


class Cluster:
    """Admin client and consumer of a cluster that refuses one question."""

    def __init__(self, question: str, error: KafkaError | None) -> None:
        self._question = question
        self._error = error
        self.hidden: frozenset[str] = frozenset()

    def _ask(self, question: str) -> None:
        if question == self._question and self._error is not None:
            raise self._error

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Disconnect."""

    async def close(self) -> None:
        """Disconnect."""

    def assign(self, tps: Sequence[TopicPartition]) -> None:
        """Accept."""

    async def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        """Two partitions each, of those that may be seen."""
        self._ask("describe")
        return [
            {
                "topic": topic,
                "error_code": 29 if topic in self.hidden else 0,
                "partitions": [] if topic in self.hidden else [0, 1],
            }
            for topic in topics
        ]

    async def describe_configs(self, resources: object) -> list[Any]:
        """Tell nothing."""
        return []

    async def beginning_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """All are empty."""
        self._ask("beginnings")
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """All are empty."""
        return dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Accept."""

    async def any_committed(self, *_: object, **__: object) -> bool:
        """Something is."""
        self._ask("committed")
        return True


def clustered(
    monkeypatch: pytest.MonkeyPatch, question: str, error: KafkaError | None = None
) -> Cluster:
    """Let the start meet such a cluster."""
    cluster = Cluster(question, error)
    monkeypatch.setattr(start, "AIOKafkaAdminClient", lambda **_: cluster)
    monkeypatch.setattr(start, "AIOKafkaConsumer", lambda **_: cluster)
    monkeypatch.setattr(start, "any_committed", cluster.any_committed)
    return cluster


@pytest.mark.parametrize(
    ("question", "error", "remedy"),
    [
        ("committed", GroupAuthorizationFailedError("group"), "grant READ on group 'group'"),
        ("committed", TopicAuthorizationFailedError(TURNS), "DESCRIBE and READ on 'turns', and"),
        ("beginnings", TopicAuthorizationFailedError(), "'changelog', 'results', 'turns', and"),
        ("beginnings", TopicAuthorizationFailedError({CHANGELOG}), "READ on 'changelog', and"),
        (
            "committed",
            TransactionalIdAuthorizationFailed(),
            "WRITE on the transactional ids that begin with 'group-'",
        ),
        ("describe", ClusterAuthorizationFailedError(), "IDEMPOTENT_WRITE on the cluster"),
        ("describe", UnsupportedVersionError(), "does not answer what a start asks (Unsupported"),
    ],
)
async def test_a_right_that_is_missing_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch, question: str, error: KafkaError, remedy: str
) -> None:
    """Another start would end the same way: it says which right, and on what."""
    clustered(monkeypatch, question, error)
    with pytest.raises(StartRefused) as refused:
        await start.check_start(settings())

    assert remedy in str(refused.value)
    assert "nowhere:1 (kafka.bootstrap_servers)" in str(refused.value)
    assert type(error).__name__ in str(refused.value)


@pytest.mark.parametrize("error", [RequestTimedOutError(), KafkaTimeoutError()])
async def test_an_error_that_may_pass_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    """It ends the process, which is started again."""
    clustered(monkeypatch, "beginnings", error)
    with pytest.raises(type(error)):
        await start.check_start(settings())


async def test_a_topic_that_may_not_be_seen_is_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To create it would help nobody."""
    clustered(monkeypatch, "none").hidden = frozenset({RESULTS, f"{TURNS}.dlq"})
    with pytest.raises(StartRefused, match=r"READ on 'results', 'turns\.dlq', and WRITE"):
        await start.check_start(settings())


async def test_who_waits_in_vain_says_what_was_answered() -> None:
    """Without the last answer nobody knows where to look."""
    group = Group(GroupLoadInProgressError.errno)
    with pytest.raises(LaneFailed, match=r"within 0\.05 s, and said last: GroupLoadInProgress"):
        await start._any_committed(
            cast("AIOKafkaConsumer", group),
            [TopicPartition(TURNS, 0)],
            settled=False,
            settings=settings(
                request_timeout_ms=50, session_timeout_ms=40, heartbeat_interval_ms=10
            ),
        )


async def test_a_client_that_stops_among_brokers_that_are_away_hides_no_error() -> None:
    """Aiokafka then lets out a cancellation of its own, which nobody catches as an error."""

    class Away:
        async def start(self) -> None:
            raise KafkaTimeoutError

        async def stop(self) -> None:
            raise asyncio.CancelledError

    with pytest.raises(KafkaTimeoutError):
        async with started(cast("AIOKafkaConsumer", Away())):
            pass


class Group:
    """A group whose coordinator answers with the same error for ever."""

    group_id = "group"

    def __init__(self, error_code: int) -> None:
        self._answer = OffsetFetchResponse_v3(0, [], error_code)
        self._coordinator = self

    async def ensure_coordinator_known(self) -> None:
        """It is."""

    async def _send_req(self, _: object) -> OffsetFetchResponse_v3:
        return self._answer


class Timeless:
    """A consumer of a broker that does not find records by their time, as the embedded one."""

    def __init__(self, end: int) -> None:
        self.end = end

    async def beginning_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Begin at 0."""
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """End where told."""
        return dict.fromkeys(tps, self.end)

    async def offsets_for_times(
        self, times: dict[TopicPartition, int]
    ) -> dict[TopicPartition, None]:
        """Find nothing."""
        return dict.fromkeys(times)


async def test_a_time_is_no_start_where_the_broker_knows_none() -> None:
    """It would pass over everything that is there; an empty topic has nothing to pass over."""
    tp = TopicPartition(TURNS, 0)

    with pytest.raises(StartRefused, match="does not find records by their time"):
        await start._resolve(
            cast("AIOKafkaConsumer", Timeless(9)), [tp], start_from="2026-11-30T00:00Z"
        )
    empty = await start._resolve(
        cast("AIOKafkaConsumer", Timeless(0)), [tp], start_from="2026-11-30T00:00Z"
    )
    assert {tp: 0} == empty
