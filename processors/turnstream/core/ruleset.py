"""A catalog made ready for use: everything that can be worked out before the first turn.

A :class:`Ruleset` is the configuration that comes in with every event of the conversation machine.
It is immutable; one is built per catalog version.
"""

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cached_property

from pydantic import JsonValue

from turnstream.core.bounds import CHECKPOINT_BYTES, RECORD_BYTES, worst_case
from turnstream.core.definitions import MISSING_PERMISSION, ArgumentSource, Catalog
from turnstream.core.errors import DefinitionError
from turnstream.core.evolution import dataclass
from turnstream.core.extraction import Extractor
from turnstream.core.ports import ToolOption


@dataclass(frozen=True, slots=True)
class ArgumentFault:
    """Why arguments break a tool's input schema."""

    path: str
    """JSON pointer into the arguments."""
    keyword: str
    """The schema keyword that failed."""
    message: str


ArgumentCheck = Callable[[Mapping[str, JsonValue]], ArgumentFault | None]
"""Validates arguments against a tool's input schema (JSON Schema 2020-12)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a conversation, all from the deployment's configuration."""

    max_turn_age_ms: int = 15 * 60 * 1000
    """Older customer turns enter the history and are handed off: their moment has passed."""
    conversation_ttl_ms: int = 7 * 24 * 3600 * 1000
    """Idle time after which a conversation is closed."""
    question_ttl_ms: int = 30 * 24 * 3600 * 1000
    """The same while a question without an expiry is open: even that must end some day."""
    answer_deadline_ms: int = 30_000
    """How long an answer may take to be composed before a person is brought in."""
    queue_allowance_ms: int = 30_000
    """Added to a tool's own time-outs: how long a call may wait for an executor."""
    history_messages: int = 30
    """Messages kept; older ones are cut first."""
    history_characters: int = 16_000
    """Characters kept of the whole history; with all the rest it must fit the record."""
    message_characters: int = 4_000
    """Characters kept of each message in the history. One pasted log must not fill the record."""
    result_bytes: int = 32_768
    """Longest result of a call, as JSON. A longer one would not fit the record: handed off."""
    facts_bytes: int = 49_152
    """All results kept together, as JSON; those of finished work are forgotten first."""
    remembered_facts: int = 8
    """Results kept beyond the work that they were got for."""
    passages_bytes: int = 24_576
    """Bytes kept of a turn's passages, as JSON; later passages are left out first."""
    remembered_turns: int = 256
    """Turns kept to recognise a repetition. An older one that comes again is stale by its time."""
    remembered_messages: int = 16
    """Hashes of our own messages kept to recognise an echo."""
    max_rejections: int = 2
    """Invalid replies to one question before a person is brought in."""
    bot_actors: frozenset[str] = frozenset()
    """Actor ids under which our own messages come back."""

    def __post_init__(self) -> None:
        """Refuse limits under which a record could outgrow its bound."""
        bytes_ = worst_case(
            history_messages=self.history_messages,
            history_characters=self.history_characters,
            remembered_turns=self.remembered_turns,
            remembered_messages=self.remembered_messages,
            facts_bytes=self.facts_bytes,
            passages_bytes=self.passages_bytes,
        )
        room = RECORD_BYTES - CHECKPOINT_BYTES
        if bytes_ > room:
            raise DefinitionError(
                f"these limits allow {bytes_} bytes of a record; beside a checkpoint {room} fit: "
                "keep less history, fewer turn ids, results or passages"
            )


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """One argument of a tool, worked out from its schema and the catalog."""

    name: str
    field: str
    required: bool
    source: ArgumentSource
    types: frozenset[str]
    """The JSON types that its schema allows; empty when it does not say."""

    @property
    def askable(self) -> bool:
        """Whether a customer may be asked for it."""
        provenance = self.source.provenance
        return "message" in provenance or "record" in provenance


@dataclass(frozen=True)
class Ruleset:
    """The compiled catalog, its versions and the deployment's limits."""

    catalog: Catalog
    decision_version: str
    presentation_version: str
    limits: Limits = field(default_factory=Limits)
    checks: Mapping[str, ArgumentCheck] = field(default_factory=dict)
    """Tool name to the validator of its arguments."""
    answer_checks: Mapping[str, ArgumentCheck] = field(default_factory=dict)
    """Agent to the validator of its final answer, for those that declare a schema."""

    def __post_init__(self) -> None:
        """Refuse a catalog that leaves the machine without a way out."""
        catalog = self.catalog
        if catalog.entry_agent not in catalog.agents:
            raise DefinitionError(f"entry_agent {catalog.entry_agent!r} is not among the agents")
        if catalog.default_queue not in catalog.queues:
            raise DefinitionError(f"default_queue {catalog.default_queue!r} is not a queue")
        demanding = [name for name, tool in catalog.tools.items() if tool.may_need_permissions]
        if demanding and MISSING_PERMISSION not in catalog.rules:
            raise DefinitionError(
                f"tool {demanding[0]!r} requires permissions, so rules needs a "
                f"{MISSING_PERMISSION!r} with the text of the refusal"
            )
        for name, answer in catalog.answers.items():
            if answer.of_tool is not None and answer.of_tool not in catalog.tools:
                raise DefinitionError(f"answer {name!r} is of an unknown tool {answer.of_tool!r}")

    @cached_property
    def extractor(self) -> Extractor:
        """Finds field values in what customers write."""
        return Extractor(self.catalog.fields)

    @cached_property
    def plans(self) -> Mapping[str, tuple[ArgumentPlan, ...]]:
        """Tool name to its arguments, in schema order."""
        return {
            name: _plan(tool.input_schema, tool.arguments)
            for name, tool in self.catalog.tools.items()
        }

    @cached_property
    def untouched(self) -> Mapping[str, tuple[frozenset[str], ToolOption]]:
        """Tool name to its fields, and to how it stands while none of them has a value."""
        return {
            name: (
                frozenset(plan.field for plan in plans),
                ToolOption(
                    name,
                    missing=tuple(p.field for p in plans if p.required and p.askable),
                    ambiguous=(),
                    blocked=tuple(p.field for p in plans if p.required and not p.askable),
                ),
            )
            for name, plans in self.plans.items()
        }

    @cached_property
    def placeholders(self) -> Mapping[str, tuple[str, ...]]:
        """Approved answer to the placeholder names of its texts, in the order of appearance."""
        return {
            name: tuple(dict.fromkeys(one for text in answer.text.values() for one in _names(text)))
            for name, answer in self.catalog.answers.items()
        }

    @cached_property
    def queue_of(self) -> Mapping[str, str]:
        """Handoff cause to the queue that takes it; other causes go to the default queue."""
        return {
            cause: name for name, queue in self.catalog.queues.items() for cause in queue.causes
        }


def _plan(
    schema: Mapping[str, JsonValue], sources: Mapping[str, ArgumentSource]
) -> tuple[ArgumentPlan, ...]:
    properties = schema.get("properties")
    required = schema.get("required")
    plans = []
    for name, subschema in (properties if isinstance(properties, dict) else {}).items():
        source = sources.get(name)
        if source is None:
            continue
        kind = subschema.get("type") if isinstance(subschema, dict) else None
        types = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
        plans.append(
            ArgumentPlan(
                name=name,
                field=source.field or name,
                required=isinstance(required, list) and name in required,
                source=source,
                types=frozenset(str(one) for one in types),
            )
        )
    return tuple(plans)


def _names(template: str) -> Iterator[str]:
    return (name for _, name, _, _ in string.Formatter().parse(template) if name)
