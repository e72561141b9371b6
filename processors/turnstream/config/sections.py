"""The sections of the configuration: what each key means, its default and its bounds."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from turnstream.config.connectors import ConnectorSettings
from turnstream.config.decisions import DecisionsSettings
from turnstream.config.secrets import SecretRef
from turnstream.config.section import Section

_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
"""What Kafka accepts as the name of a topic; anything else would fail on its first use."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,100}", re.ASCII)
"""A prefix that leaves room for the longest name within Kafka's 249 characters."""

_HOST_PATTERN: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9.\-:\[\]]+", re.ASCII)

_REBALANCE_MARGIN_SECONDS: Final = 10.0
"""Time that a rebalance has left after the grace, else a slow stop loses partitions mid-call."""

_LONGEST_SESSION_SECONDS: Final = 300.0
"""A lost process keeps its partitions for as long; brokers refuse more than half an hour."""

_SMALLEST_RECORD_LIMIT: Final = 32_768
"""The executor keeps half of it for everything but a tool's result, which would else never fit."""

_LARGEST_RECORD_LIMIT: Final = 1_048_576 - 16_384
"""What the topics take in one batch, less room for key and headers: more would be refused there."""

_DEAD_LETTERS: Final = ".dlq"


class TopicSettings(Section):
    """Physical names. A topic's own key gives its whole name; the prefix is for all others."""

    prefix: str = ""
    """Begins the name of every topic, group and transactional id that has no name of its own."""
    turns: str | None = None
    control: str | None = None
    actions: str | None = None
    outcomes: str | None = None
    outbound: str | None = None
    answers: str | None = None
    labels: str | None = None
    timers: str | None = None
    live_actions: str | None = None
    tool_results: str | None = None
    shadow_proposals: str | None = None
    shadow_comparisons: str | None = None
    schemas: str | None = None
    audit: str | None = None

    @field_validator("*")
    @classmethod
    def _is_a_topic_name(cls, value: str | None) -> str | None:
        if value and (not _TOPIC_NAME.fullmatch(value) or value in (".", "..")):
            raise ValueError("expected 1 to 249 of the characters A-Z a-z 0-9 . _ -")
        return value

    @field_validator("prefix")
    @classmethod
    def _leaves_room(cls, value: str) -> str:
        if not _PREFIX.fullmatch(value):
            raise ValueError("expected at most 100 of the characters A-Z a-z 0-9 . _ -")
        return value

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        taken: dict[str, str] = {}
        for logical in LOGICAL_TOPICS:
            name = self.name(logical)
            if name in taken:
                raise ValueError(f"{taken[name]} and {logical} are both named {name!r}")
            taken[name] = logical
        return self

    def name(self, logical: str) -> str:
        """The physical name of a topic, ``conversation.turns`` say, or of its ``.dlq``.

        Raises:
            KeyError: no such logical topic.
        """
        if logical.endswith(_DEAD_LETTERS):
            return self.name(logical.removesuffix(_DEAD_LETTERS)) + _DEAD_LETTERS
        own: str | None = getattr(self, LOGICAL_TOPICS[logical])
        return own or self.prefix + logical

    def logical(self, physical: str) -> str | None:
        """The logical name of a topic, or None when it is not one of ours."""
        if physical.endswith(_DEAD_LETTERS):
            source = self.logical(physical.removesuffix(_DEAD_LETTERS))
            return source + _DEAD_LETTERS if source else None
        return next((name for name in LOGICAL_TOPICS if self.name(name) == physical), None)


LOGICAL_TOPICS: Final[Mapping[str, str]] = {
    "conversation.turns": "turns",
    "conversation.control": "control",
    "conversation.actions": "actions",
    "conversation.outcomes": "outcomes",
    "conversation.outbound": "outbound",
    "conversation.answers": "answers",
    "conversation.labels": "labels",
    "conversation.timers": "timers",
    "conversation.live-actions": "live_actions",
    "tool.results": "tool_results",
    "shadow.proposals": "shadow_proposals",
    "shadow.comparisons": "shadow_comparisons",
    "turnstream.schemas": "schemas",
    "turnstream.audit": "audit",
}
"""Logical topic name to its key in `topics`."""


_REFERENCE: Final = re.compile(r"[0-9a-f]{16}|id:(0|[1-9][0-9]{0,9})", re.ASCII)

_LARGEST_SCHEMA_ID: Final = 0xFFFF_FFFF
"""What the four bytes of an id can hold: garbage behind a byte 00 reads as any of them, and it must
be possible to refuse whatever the log names."""


def _is_reference(value: str) -> str:
    named = _REFERENCE.fullmatch(value)
    if not named or int(named[1] or 0) > _LARGEST_SCHEMA_ID:
        raise ValueError(
            f"expected 16 hexadecimal digits, or id:NUMBER up to id:{_LARGEST_SCHEMA_ID}, in quotes"
        )
    return value


SchemaReference = Annotated[str, AfterValidator(_is_reference)]
"""A writer's schema as the log and the alerts name it."""


class RegistrySettings(Section):
    """A schema registry; without one, schemas travel on a topic of their own."""

    url: str = Field(pattern=r"^https?://[^\s/]+[^\s]*$")
    """Root of a Confluent-compatible schema registry."""
    auth: SecretRef | None = None
    """Reference to ``user:password``."""


class TurnsSettings(Section):
    """What is true of the turns that others write."""

    partitioner: Literal["murmur2", "crc32"] = "murmur2"
    """How the writers of turns choose partitions; librdkafka's default is crc32."""


class StreamOptions(Section):
    """The delivery machinery of one process."""

    slots: int = Field(default=1000, ge=1, le=100_000)
    """Handlers that may run at the same time in one process."""
    commit_gap_ms: int = Field(default=5, ge=0, le=10_000)
    """Pause before a transaction, in which more results come together."""
    grace_seconds: float = Field(default=15, gt=0)
    """How long running handlers are waited for when partitions leave or the process stops."""
    attempts: int = Field(default=3, ge=1, le=100)
    """Times that a record is handled before it becomes a dead letter."""
    session_timeout_seconds: float = Field(default=30, ge=6, le=_LONGEST_SESSION_SECONDS)
    """Silence after which a process counts as lost; it sends ten heartbeats in that time."""
    rebalance_timeout_seconds: float = Field(default=60, gt=0)
    """How long a group waits for its members when partitions move."""
    max_queued_per_partition: int = Field(default=2000, ge=1)
    """Records waiting to be handled at which a partition is not fetched."""
    max_queued_per_conversation: int = Field(default=100, ge=1)
    """Records waiting of one conversation; beyond, it is handed to a person (`flood`)."""
    max_ahead_per_partition: int = Field(default=50_000, ge=1)
    """Records taken from the first unfinished one on; at the bound the partition is not fetched.

    Neither is it while 16 MiB of dead letters wait: those of refused records do until all before
    them has ended.

    It goes on when that record has ended, which its own limits see to. Only the records of a parked
    conversation, whose state a newer version wrote, wait for that version.
    """
    retry_patience_seconds: float = Field(default=300, gt=0)
    """Age of a record, from its first attempt, at which it is not tried again but dead-lettered."""
    max_record_bytes: int = Field(
        default=262_144, ge=_SMALLEST_RECORD_LIMIT, le=_LARGEST_RECORD_LIMIT
    )
    """Largest accepted value, uncompressed."""
    group_instance_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """Static membership: unique per process and stable over restarts; a second one ends the first.
    """
    store: Literal["memory", "rocksdict"] = "memory"
    """Where the state of the owned partitions is kept besides the changelog.

    `memory` is read from the changelog at each assignment. `rocksdict` (extra `rocksdb`) is on
    this host's disk: memory holds only keys and timers, and a restart reads only what is new.
    """
    data_dir: Path | None = None
    """Directory of the `rocksdict` store: one sub-directory per group and partition.

    Its files stay when a partition moves away, for as long as the changelog keeps removals
    (`delete.retention.ms`); the next assignment on this host then removes them. They can be removed
    at any time while no process uses them, and must be where a role is not run any more: the
    changelog has everything. Processes of one host may share it.
    """

    @model_validator(mode="after")
    def _store_has_a_directory(self) -> Self:
        if self.store == "rocksdict" and self.data_dir is None:
            raise ValueError("store: rocksdict needs data_dir, a directory that outlives restarts")
        return self

    @model_validator(mode="after")
    def _grace_fits_into_a_rebalance(self) -> Self:
        limit = self.rebalance_timeout_seconds - _REBALANCE_MARGIN_SECONDS
        if self.grace_seconds >= limit:
            raise ValueError(
                f"grace_seconds must be below rebalance_timeout_seconds - "
                f"{_REBALANCE_MARGIN_SECONDS:g} = {limit:g}, got {self.grace_seconds:g}"
            )
        return self


_TARGET: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"


class CatalogRulesSettings(Section):
    """The embedded decider; needs no key and no network."""

    kind: Literal["catalog_rules"]


class PythonSettings(Section):
    """A decider or classifier of your own."""

    kind: Literal["python"]
    target: str = Field(pattern=_TARGET)
    """``package.module:factory``; called once, with the catalog first, then the options."""
    options: dict[str, JsonValue] = Field(default={})
    """Keyword arguments of the factory, as they are. A text in the form of a reference is one: no
    role that uses the section starts while it leads nowhere, and the factory resolves it at each
    use (`turnstream.config.SecretRef`)."""


class EmbeddedClassifierSettings(Section):
    """The embedded classifier; needs no key and no network."""

    kind: Literal["embedded"]


DeciderSettings = Annotated[
    CatalogRulesSettings | PythonSettings | DecisionsSettings | ConnectorSettings,
    Field(discriminator="kind"),
]
ClassifierSettings = Annotated[
    EmbeddedClassifierSettings | PythonSettings, Field(discriminator="kind")
]


class AskingSettings(Section):
    """How hard a role tries for a proposal of a decider that needs time, or fails."""

    decider_attempts: int = Field(default=3, ge=1, le=10)
    """Times that a decider is asked for one proposal, when it times out or cannot be reached."""
    decider_timeout_seconds: float = Field(default=20, gt=0)
    """How long one attempt may take."""
    decider_backoff_seconds: float = Field(default=0.5, gt=0)
    """Longest wait after the first attempt; doubles each time, and half of it is spread."""
    decider_backoff_max_seconds: float = Field(default=10, gt=0)
    """Bound of that wait. A provider's own Retry-After may be longer, up to the patience."""
    decider_patience_seconds: float = Field(default=60, gt=0)
    """Age of an input, from the first attempt, at which no other one is begun: without a
    proposal a person takes over.

    The time that an input waits while its decider is left alone counts, the last attempt does not.
    """
    decider_breaker_failures: int = Field(default=5, ge=1)
    """Failures in a row after which a decider is left alone, by all conversations of the process.

    They wait for it without using up their attempts, until a probe succeeds or their patience ends.
    A reply in another form than is documented does not count, nor does a refusal: it is there.
    """
    decider_breaker_cool_down_seconds: float = Field(default=10, gt=0)
    """How long it is left alone before one conversation tries it."""


class DecideSettings(AskingSettings):
    """The role that decides."""

    max_turn_age_seconds: float = Field(default=900, gt=0)
    """Older turns enter the history but are handed to a person instead of being decided."""
    conversation_ttl_seconds: float = Field(default=604_800, gt=0)
    """Idle time after which a conversation is closed."""
    history_messages: int = Field(default=30, ge=1, le=200)
    """Messages kept per conversation."""
    bot_actors: tuple[str, ...] = ()
    """Accounts under which our own messages come back as turns."""
    answer_deadline_seconds: float = Field(default=30, gt=0)
    """How long a final answer may take before the conversation is handed off."""
    calibrations: dict[str, Path] = Field(default={})
    """Decider to the file that `turnstream calibrate` wrote for it.

    Its temperature rescales probabilities and confidence; its thresholds apply where they are above
    the catalog's. A file made for another catalog or decider version refuses the start.
    """


class ExecuteSettings(Section):
    """The role that calls tools."""

    egress_allow: tuple[str, ...] | None = None
    """Hosts that tools and agents may be reached at, ``*.example.com`` for sub-domains.

    By default exactly the hosts of the catalog's bindings, its servers and its queues' agents.
    """
    journal_retention_seconds: float = Field(default=900, gt=0)
    """How long a call is remembered from its decision on; an older one is refused as expired."""
    journal_max_entries: int = Field(default=50_000, ge=1)
    """Calls remembered per partition; at the bound no new one is taken until older ones expire.

    It allows this number divided by the retention as calls per second, 55 by default, for each
    partition for as long as one likes. An entry takes about 1 KiB of memory.
    """

    @field_validator("egress_allow")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for pattern in value or ():
            if not _HOST_PATTERN.fullmatch(pattern):
                raise ValueError(f"expected host, host:port or *.domain, got {pattern!r}")
        return value


class RawSinkSettings(Section):
    """The restricted sink of raw texts: rejected arguments of models, invalid results of tools.

    They are customers' words, so they are in no log and no topic. `decide` and `execute` write them
    here as JSON lines, with the ids of conversation, turn, action and call.
    """

    directory: Path | None = None
    """A folder for them; off when not given. It is made for the process's user alone (0700, files
    0600), and one that others may read is refused: in a mounted volume, name a folder inside it.
    Erasing a conversation does not reach into it: `max_age_seconds` and the other bounds say for
    how long texts stay. Whoever turns the sink off, or names another folder, empties this one."""
    max_bytes: int = Field(default=16_777_216, ge=1_048_576)
    """Largest file; then another one is begun."""
    files: int = Field(default=4, ge=1, le=1_000)
    """Files kept per process; the oldest goes."""
    max_age_seconds: float = Field(default=604_800, ge=60)
    """Longest that a text stays, and 10 minutes more at most. Any process with this folder removes
    what is older, also of processes that have ended. Texts go file by file, so some go sooner, by
    up to this divided by `files`."""


class ClassifySettings(Section):
    """The role that labels exchanges."""

    classifier: str = "embedded"
    """Name of one of `classifiers`."""


class ShadowSettings(AskingSettings):
    """The role that lets a candidate decide without acting."""

    name: str = Field(default="candidate", pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """What the candidate is called in its proposals."""
    catalog: Path | None = None
    """The candidate's catalog; the main one when not given."""
    decider: str = "catalog_rules"
    """Name of one of `deciders`; it decides for every agent."""
    compare_with: Literal["decide", "people"] = "decide"
    """Whose actions are the live side: those of `decide`, or those on conversation.live-actions."""
    calibration: Path | None = None
    """The file that `turnstream calibrate` wrote for the decider with the candidate's catalog."""
    pair_within_seconds: float = Field(default=86_400, gt=0)
    """How long a proposal waits for the live action that it is compared with."""


class MetricsSettings(Section):
    """Where `/metrics` and `/healthz` are served."""

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=0, le=65_535)
    """Not served when not given; 0 takes any free port."""
