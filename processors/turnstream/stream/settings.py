"""Settings of one role's stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import ssl

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

StoreKind = Literal["memory", "rocksdict"]


@dataclass(frozen=True, slots=True)
class Security:
    """How every client of the stream connects."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    def client_options(self) -> dict[str, Any]:
        """Return the options that aiokafka's clients take."""
        options: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self.ssl_context is not None:
            options["ssl_context"] = self.ssl_context
        if self.sasl_mechanism is not None:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Settings of one role's stream; times are milliseconds unless the name says otherwise."""

    bootstrap_servers: str
    """`host:port[,host:port...]`."""
    group: str
    """Consumer group, and prefix of the transactional ids `<group>-<partition>`."""
    sources: tuple[str, ...]
    """Physical source topics; all have the same partition count."""
    role: str
    """Name of the role: its dead letters say who gave the record up."""
    changelog: str
    """Compacted topic of the role's state records; as many partitions as the sources."""
    priority: frozenset[str] = frozenset()
    """Sources whose records are submitted before those of the others."""
    writes: frozenset[str] | None = None
    """Physical topics that handlers may publish to; any, when not given. Another is refused."""
    dlq_suffix: str = ".dlq"
    dead_letter_topic: str | None = None
    """One topic for all dead letters of this role, in place of each source's own."""
    rejected_elsewhere: frozenset[str] = frozenset()
    """Sources of which another role dead-letters the records that `Handler.admit` rejects.

    Here they are passed over, so that a bad record has one dead letter however many roles read it.
    """
    security: Security = field(default_factory=Security)
    start_from: str | None = None
    """`latest`, `earliest` or an ISO 8601 time: where a group without commits starts."""
    instance_id: str | None = None
    """Static member id, unique in the group: a restart within the session moves no partition."""
    client_id: str = "turnstream"
    check_crcs: bool = True
    """False only for the embedded broker, whose transactional batches carry a wrong checksum."""

    slots: int = 1000
    """Handlers running at once in this process: bounds open calls and memory."""
    max_queued_per_partition: int = 1000
    """Records taken and not started, per source partition; at the bound it is not fetched."""
    max_queued_per_key: int = 100
    """More waiting records of one key than this go to `Handler.flood`."""
    max_resting: int = 10_000
    """Handlers that wait to try again without a slot: bounds memory; more keep their slots."""
    max_ahead_per_partition: int = 50_000
    """Records taken from the first unfinished one on: bounds memory and what a restart meets again.

    At the bound the partition is not fetched, the others go on. The same bound in bytes holds for
    the dead letters among them: `max_transaction_bytes`. It is fetched again as soon as the
    first unfinished record ends, which its own bounds see to: a handler's waits have limits, and
    attempts and age of a retry too. What hangs in spite of them stops all commits of its lane now,
    so the process reports itself unhealthy. Only the records of a parked key, whose state is a
    newer version's, wait without end: for that version.
    """
    attempts: int = 3
    """Calls of `Handler.handle` for one record before `Handler.abandon`."""
    retry_backoff_ms: int = 200
    """Wait before the second call; doubles each time."""
    retry_backoff_max_ms: int = 10_000
    """Bound of that wait: it delays the key's later records."""
    retry_patience_ms: int = 300_000
    """Age of a record, from its first attempt, at which no other attempt is begun.

    Where attempts are slow, this and not their number bounds how long a key's later records wait.
    """

    grace_seconds: float = 15.0
    """Wait for running handlers on revoke and stop; must be below `rebalance_timeout_ms - 10 s`."""
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    request_timeout_ms: int = 40_000
    transaction_timeout_ms: int = 10_000
    """The broker ends a transaction older than this: bounds how long a dead worker hides others."""
    commit_gap_ms: int = 5
    """Wait for more finished records before a transaction begins."""
    max_transaction_records: int = 5_000
    """Finished inputs per transaction: keeps one transaction far below its timeout."""
    max_transaction_bytes: int = 16 * 1024 * 1024
    """Bytes per transaction, checked after each input: same purpose, for large records.

    Dead letters of records that were refused have as much again, a share for each source. More than
    this of a source's dead letters wait for no transaction: its partition is not fetched until they
    are out, which those of refused records are once all before them is finished.
    """
    max_record_bytes: int = 1024 * 1024 - 1024
    """Largest key plus value that a topic takes; a larger state is a failure of its handler."""
    max_publication_bytes: int = 1024 * 1024 - 1024
    """Largest key plus value that a handler may publish: no more than its readers accept.

    A larger one is a failure of its handler, given up at once: it would be as large again.
    """
    max_poll_records: int = 2_000
    """Records handed over per fetch: bounds what is fetched and not yet accepted."""
    fetch_max_wait_ms: int = 200
    """Longest wait of the broker for new records: a partition left out of a fetch waits as long."""
    schema_retry_ms: int = 1_000
    """Wait between two lookups of an unknown schema."""
    max_keys_per_partition: int | None = None
    """State records of a lane at which its intake stops until some expire; no bound when `None`.

    For a role that has to remember each key for a time: its memory is bounded and nothing that it
    still needs is removed. What has been taken before goes on, so the bound can be passed by
    `max_queued_per_partition` and the slots. Records found at the start that only their own next
    inputs can settle do not count: those inputs would never be taken.
    """
    hot_states: int = 4_096
    """Decoded states kept per lane besides the encoded ones: saves decoding for active keys."""
    store: StoreKind = "memory"
    """Where a lane's committed records are: in memory, or on this host's disk."""
    data_dir: str | None = None
    """Directory of the stores on disk, one sub-directory per group and partition."""

    def __post_init__(self) -> None:
        """Check what would otherwise fail late.

        Raises:
            ValueError: A setting contradicts another; the message names both.
        """
        if not self.sources or len(set(self.sources)) != len(self.sources):
            message = f"sources must name each source topic once, got {self.sources!r}"
            raise ValueError(message)
        if self.changelog in self.sources:
            message = f"changelog {self.changelog!r} is also a source topic"
            raise ValueError(message)
        if unknown := self.priority - set(self.sources):
            message = f"priority names topics that are no sources: {sorted(unknown)!r}"
            raise ValueError(message)
        limit = self.rebalance_timeout_ms / 1000 - 10
        if self.grace_seconds >= limit:
            message = (
                f"grace_seconds={self.grace_seconds} must be below rebalance_timeout_ms - 10 s "
                f"({limit} s): else partitions move before their last commit"
            )
            raise ValueError(message)
        if self.session_timeout_ms > self.request_timeout_ms:
            message = (
                f"session_timeout_ms={self.session_timeout_ms} must not be above "
                f"request_timeout_ms={self.request_timeout_ms}"
            )
            raise ValueError(message)
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            message = (
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be at most a third of "
                f"session_timeout_ms={self.session_timeout_ms}"
            )
            raise ValueError(message)
        if self.store != "memory" and not self.data_dir:
            message = f"store={self.store!r} needs a data_dir"
            raise ValueError(message)
        for name in (
            "slots",
            "max_resting",
            "max_queued_per_partition",
            "max_queued_per_key",
            "max_ahead_per_partition",
            "attempts",
            "max_transaction_records",
        ):
            if getattr(self, name) < 1:
                message = f"{name} must be at least 1, got {getattr(self, name)!r}"
                raise ValueError(message)
