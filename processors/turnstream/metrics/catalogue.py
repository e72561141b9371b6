"""The one list of every metric: name, type, unit, labels with their allowed values, help.

A label's values are a closed list: either a constant of the contract, or something that the
deployment fixes at start (its topics, its tools, the partitions it owns). Whatever else arrives is
counted under ``other``, so that no text of a customer, a client or a model can make a time series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, get_args

from turnstream.core.contract import ACTIONS, HANDOFF_CAUSES, REASON_CODES
from turnstream.core.events import Role, ToolOutcome
from turnstream.core.ports import ReconcileVerdict
from turnstream.core.publications import OutcomeKind, OutcomeOf, Verdict

PREFIX: Final = "turnstream_"

OTHER: Final = "other"
"""What every value outside its closed list is counted under."""

PROPOSED: Final = "proposed"
"""The cause of a handoff that the decider itself proposed."""


class Scope(Enum):
    """A closed list that the deployment fixes at start."""

    TOPICS = "the logical names of the topics"
    TOOLS = "the names of the catalog's tools"
    DECIDERS = "the configured names of the deciders of the catalog's agents and of the shadow"
    CURRENCIES = "the currencies of the configured prices, and USD"
    PARTITIONS = "the partition numbers that this process owns"


AlteredAt = Literal["gated", "sent", "used"]
"""Where the arguments of a call were found to differ from what was asked for."""

IgnoredAs = Literal["late", "duplicate", "unknown"]
"""Why a result of a call changes nothing."""

Allowed = tuple[str, ...] | Scope
Kind = Literal["counter", "gauge", "histogram"]

SECONDS_BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""Durations of work: from a transaction on a fast broker to a tool near its time-out."""

AGE_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0)
"""Ages of turns: up to 15 minutes, after which a turn is stale by default."""

DEAD_LETTER_REASONS: Final = (
    "missing_key",
    "missing_value",
    "oversized",
    "malformed",
    "invalid",
    "wrong_partition",
    "content_mismatch",
    "unsupported",
    "expired",
    "flood",
    "state_too_large",
    "output_too_large",
    "state_unreadable",
    "handler_failed",
)
"""The reasons that the stream gives; a test holds this list and the stream's equal."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as it is exposed."""

    name: str
    """With the prefix; a counter's ends in ``_total``."""
    kind: Kind
    unit: str
    """``seconds`` and ``timestamp_seconds`` are also the end of the name; others are counts."""
    help: str
    labels: Mapping[str, Allowed] = field(default_factory=dict)
    """Label name to its allowed values, in the order of exposition."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, in its unit; ``+Inf`` is added."""


def _metric(
    name: str,
    kind: Kind,
    unit: str,
    text: str,
    *,
    buckets: tuple[float, ...] = (),
    **labels: Allowed,
) -> Metric:
    return Metric(
        name=PREFIX + name, kind=kind, unit=unit, help=text, labels=labels, buckets=buckets
    )


# --- decisions --------------------------------------------------------------------------------

TURNS: Final = _metric(
    "turns_total", "counter", "turns", "Turns read, by who wrote them.", role=get_args(Role)
)
DECISIONS: Final = _metric(
    "decisions_total",
    "counter",
    "decisions",
    "Decisions published, by action and reason.",
    action=ACTIONS,
    reason_code=REASON_CODES,
)
HANDOFFS: Final = _metric(
    "handoffs_total",
    "counter",
    "handoffs",
    "Conversations handed to a person, by cause.",
    cause=(*HANDOFF_CAUSES, PROPOSED),
)
DECISION_AGE: Final = _metric(
    "decision_age_seconds",
    "histogram",
    "seconds",
    "Time from a turn's occurred_at to the decision about it.",
    buckets=AGE_BUCKETS,
)
DECIDER_SECONDS: Final = _metric(
    "decider_seconds",
    "histogram",
    "seconds",
    "Time that a decider took for one proposal.",
    buckets=SECONDS_BUCKETS,
)
DECIDER_FAILURES: Final = _metric(
    "decider_failures_total",
    "counter",
    "proposals",
    "Proposals that could not be had or were blocked.",
    failure=("unavailable", "blocked"),
)
DECIDER_RETRIES: Final = _metric(
    "decider_retries_total",
    "counter",
    "proposals",
    "Attempts at a proposal that failed and were followed by another.",
    decider=Scope.DECIDERS,
    failure=("timeout", "rate_limit", "unavailable", "unusable"),
)
DECIDER_ATTEMPTS_FAILED: Final = _metric(
    "decider_failed_attempts_total",
    "counter",
    "attempts",
    "Attempts at a proposal that failed, the last ones included; `unusable` are replies in another "
    "form than is documented, `refused` requests that the provider does not take.",
    decider=Scope.DECIDERS,
    failure=("timeout", "rate_limit", "unavailable", "unusable", "refused"),
)
DECIDER_TOKENS: Final = _metric(
    "decider_tokens_total",
    "counter",
    "tokens",
    "Tokens that models behind a decider read (in) and wrote (out), as far as they say so; replies "
    "that were not used are among them.",
    decider=Scope.DECIDERS,
    direction=("in", "out"),
)
DECIDER_COST: Final = _metric(
    "decider_cost_total",
    "counter",
    "currency_units",
    "What models behind a decider cost, by its configured price, else by what is known of it.",
    decider=Scope.DECIDERS,
    currency=Scope.CURRENCIES,
)
DECIDER_BREAKER: Final = _metric(
    "decider_breaker_state",
    "gauge",
    "state",
    "0 while a decider is asked, 2 while it is left alone, 1 while one conversation tries it.",
    decider=Scope.DECIDERS,
)
MODEL_CALLS_REJECTED: Final = _metric(
    "model_calls_rejected_total",
    "counter",
    "calls",
    "Calls that an agent model asked for and that did not pass a gate.",
    tool=Scope.TOOLS,
    gate=("parse", "schema", "provenance", "rule", "unknown_tool"),
)
RAW_TEXTS_LOST: Final = _metric(
    "raw_texts_lost_total",
    "counter",
    "texts",
    "Raw texts that could not be written to the restricted sink.",
)
OUTCOMES: Final = _metric(
    "outcomes_total",
    "counter",
    "outcomes",
    "Turns, replies and questions that led to no action of their own.",
    of=get_args(OutcomeOf),
    outcome=get_args(OutcomeKind),
)
PENDING_QUESTIONS: Final = _metric(
    "pending_questions",
    "gauge",
    "questions",
    "Questions waiting for a reply, over the partitions that this process owns.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)
OLDEST_PENDING_QUESTION: Final = _metric(
    "oldest_pending_question_timestamp_seconds",
    "gauge",
    "timestamp_seconds",
    "When the oldest waiting question was asked.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)

# --- effects ----------------------------------------------------------------------------------

TOOL_CALLS: Final = _metric(
    "tool_calls_total",
    "counter",
    "calls",
    "Tool calls ended, by outcome.",
    tool=Scope.TOOLS,
    outcome=get_args(ToolOutcome),
)
TOOL_RETRIES: Final = _metric(
    "tool_retries_total",
    "counter",
    "calls",
    "Attempts at a tool call after the first.",
    tool=Scope.TOOLS,
)
TOOL_RECONCILIATIONS: Final = _metric(
    "tool_reconciliations_total",
    "counter",
    "calls",
    "Times that a tool was asked what became of a call, by its answer.",
    tool=Scope.TOOLS,
    verdict=get_args(ReconcileVerdict),
)
TOOL_SCHEMA_CHANGES: Final = _metric(
    "tool_schema_changes_total",
    "counter",
    "calls",
    "Calls that were not made because the server lists another input schema than the catalog's.",
    tool=Scope.TOOLS,
)
TOOL_ARGUMENTS_ALTERED: Final = _metric(
    "tool_arguments_altered_total",
    "counter",
    "calls",
    "Calls whose arguments differ from what was asked for: from the model's, in what was about to "
    "leave, in what the tool says it used. None should be: see the log.",
    tool=Scope.TOOLS,
    stage=get_args(AlteredAt),
)
RESULTS_IGNORED: Final = _metric(
    "results_ignored_total",
    "counter",
    "results",
    "Results that changed nothing: late, of a write given up as unknown; duplicate, of a call that "
    "had one; unknown, of no call that is remembered.",
    reason=get_args(IgnoredAs),
)
AGENTS_TOLD: Final = _metric(
    "agents_told_total",
    "counter",
    "handoffs",
    "Handoffs to queues with an agent, by whether it took them; people have them in any case.",
    result=("taken", "not_taken"),
)
TOOL_BREAKER: Final = _metric(
    "tool_breaker_state",
    "gauge",
    "state",
    "0 while a tool is called, 2 while it is left alone, 1 while one call tries it.",
    tool=Scope.TOOLS,
)
TOOL_CALL_SECONDS: Final = _metric(
    "tool_call_seconds",
    "histogram",
    "seconds",
    "Time of one attempt at a tool call.",
    buckets=SECONDS_BUCKETS,
    tool=Scope.TOOLS,
)
ANSWERS: Final = _metric(
    "answers_total",
    "counter",
    "answers",
    "Answer actions carried out, or why none could be.",
    result=("published", "unknown_answer", "missing_value", "empty_text", "handler_failed"),
)
CLASSIFICATIONS: Final = _metric(
    "classifications_total",
    "counter",
    "exchanges",
    "Exchanges labelled, or that could not be.",
    result=("labelled", "failed"),
)
SHADOW_COMPARISONS: Final = _metric(
    "shadow_comparisons_total",
    "counter",
    "comparisons",
    "Shadow proposals set beside what was really done.",
    verdict=get_args(Verdict),
)

# --- delivery ---------------------------------------------------------------------------------

DEAD_LETTERS: Final = _metric(
    "dead_letters_total",
    "counter",
    "records",
    "Records put aside, by source topic and reason.",
    topic=Scope.TOPICS,
    reason=DEAD_LETTER_REASONS,
)
RECORDS_HANDLED: Final = _metric(
    "records_handled_total",
    "counter",
    "records",
    "Source records finished in a committed transaction.",
    topic=Scope.TOPICS,
)
RECORDS_SKIPPED: Final = _metric(
    "records_skipped_total",
    "counter",
    "records",
    "Source records skipped: met again after a restart, or of no concern to this role.",
    topic=Scope.TOPICS,
)
RECORDS_MENDED: Final = _metric(
    "records_mended_total",
    "counter",
    "records",
    "Source records with header names that are no UTF-8, or in place of an unreadable batch.",
    topic=Scope.TOPICS,
)
RECORDS_LOST: Final = _metric(
    "records_lost_total",
    "counter",
    "records",
    "Source records, at most, that were deleted from the topic before they were handled.",
    topic=Scope.TOPICS,
)
HANDLER_RETRIES: Final = _metric(
    "handler_retries_total",
    "counter",
    "records",
    "Source records handled again after a failure.",
    topic=Scope.TOPICS,
)
TRANSACTIONS: Final = _metric(
    "transactions_total", "counter", "transactions", "Transactions committed."
)
TRANSACTION_RECORDS: Final = _metric(
    "transaction_records_total", "counter", "records", "Records written in transactions."
)
TRANSACTION_SECONDS: Final = _metric(
    "transaction_seconds",
    "histogram",
    "seconds",
    "Time from the begin of a transaction to its commit.",
    buckets=SECONDS_BUCKETS,
)
HANDLERS_RUNNING: Final = _metric(
    "handlers_running", "gauge", "handlers", "Handlers that wait for something outside right now."
)
HANDLERS_RESTING: Final = _metric(
    "handlers_resting",
    "gauge",
    "handlers",
    "Handlers that wait to try again; their slots are lent to others.",
)
BROKER_CONTACT: Final = _metric(
    "broker_contact_timestamp_seconds",
    "gauge",
    "timestamp_seconds",
    "When a broker last answered a heartbeat, a fetch or another request of the consumer.",
)
PARTITIONS_OWNED: Final = _metric(
    "partitions_owned", "gauge", "partitions", "Partition numbers that this process owns."
)
PARTITION_HELD: Final = _metric(
    "partition_held",
    "gauge",
    "boolean",
    "1 while a source partition waits for a schema.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)
PARTITION_PAUSED: Final = _metric(
    "partition_paused",
    "gauge",
    "boolean",
    "1 while a source partition is full and not fetched.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)
OLDEST_UNFINISHED: Final = _metric(
    "oldest_unfinished_timestamp_seconds",
    "gauge",
    "timestamp_seconds",
    "Time of the oldest source record fetched and not finished.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)
COMMITTED_OFFSET: Final = _metric(
    "committed_offset",
    "gauge",
    "offset",
    "The next source record to handle after a restart.",
    topic=Scope.TOPICS,
    partition=Scope.PARTITIONS,
)
PARKED: Final = _metric(
    "parked_conversations",
    "gauge",
    "conversations",
    "Conversations whose state only a newer version can read.",
    partition=Scope.PARTITIONS,
)
UNREADABLE: Final = _metric(
    "unreadable_conversations",
    "gauge",
    "conversations",
    "Conversations whose state cannot be read: the next input of each hands it off.",
    partition=Scope.PARTITIONS,
)
PARTITION_FULL: Final = _metric(
    "partition_full",
    "gauge",
    "boolean",
    "1 while a partition has as many state records as it may and takes nothing new.",
    partition=Scope.PARTITIONS,
)
STATE_RECORDS: Final = _metric(
    "state_records",
    "gauge",
    "records",
    "Keys with a state record.",
    partition=Scope.PARTITIONS,
)
RESTORED_RECORDS: Final = _metric(
    "restored_records_total", "counter", "records", "Changelog records read to restore state."
)
RESTORE_SECONDS: Final = _metric(
    "restore_seconds",
    "histogram",
    "seconds",
    "Time to restore the state of one partition.",
    buckets=SECONDS_BUCKETS,
)
IMPOSSIBLE_VALUES: Final = _metric(
    "impossible_values_total",
    "counter",
    "values",
    "Negative durations and amounts, taken as 0: a clock went back, or a sender's runs ahead.",
)

CATALOGUE: Final[tuple[Metric, ...]] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Metric)
)
"""Every metric of this package, in the order of this file."""
