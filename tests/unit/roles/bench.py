"""What role tests share: records as Kafka gives them, a lane that remembers, a clock by hand."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiokafka.structs import ConsumerRecord
from prometheus_client import CollectorRegistry

from turnstream.config import TopicSettings
from turnstream.core.definitions import Catalog
from turnstream.core.events import ConversationTurn, Event, Source, Versions
from turnstream.core.ports import Decider
from turnstream.core.publications import ActionEvent
from turnstream.metrics import Metrics
from turnstream.roles.asking import Asking, Effort, Provider
from turnstream.roles.breaker import CircuitBreaker
from turnstream.roles.intake import Intake
from turnstream.roles.publishing import TOPIC_OF, Publisher
from turnstream.stream import Handled, Publication
from turnstream.stream.codec import Codec
from turnstream.stream.role import OwnershipUncertain
from turnstream.stream.topic_definitions import RoleName

S = TypeVar("S")

NOW = 1_800_000_000_000
"""The time of every test, milliseconds UTC."""

TOPICS = TopicSettings()
CODEC = Codec()

_ALL = (
    "conversation.turns",
    "conversation.control",
    "conversation.actions",
    "conversation.answers",
    "conversation.labels",
    "conversation.timers",
    "tool.results",
)


def intake(role: RoleName = "decide") -> Intake:
    """The checks of records, on one partition."""
    return Intake(
        CODEC,
        topics={topic: topic for topic in _ALL},
        role=role,
        partitions=1,
        partitioner=lambda _key, _count: 0,
        max_record_bytes=262_144,
    )


def publisher(role: str) -> Publisher:
    """The encoder of a role's events."""
    return Publisher(CODEC, TOPICS, role=role)


class Counted:
    """Metrics whose values can be read."""

    def __init__(self, catalog: Catalog) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(
            self.registry,
            tools=catalog.tools,
            deciders=("model",),
            topics={topic: topic for topic in _ALL},
        )

    def value(self, name: str, **labels: str) -> float:
        """A sample's value; 0 when it does not exist."""
        return self.registry.get_sample_value(f"turnstream_{name}", labels) or 0.0


@dataclass
class Clock:
    """A clock in seconds that only rests move."""

    now: float = 1_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class FakeLane(Generic[S]):
    """A lane that commits at once, rests without waiting, and remembers both."""

    partition = 0

    def __init__(self, clock: Clock | None = None) -> None:
        self.committed: list[tuple[bytes, S, list[Event]]] = []
        self.rests: list[float] = []
        self.owned = True
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """What happens while something is committed."""
        self.handled: dict[str, int] = {}
        """Topic to the offset before which everything is handled."""
        self._clock = clock or Clock()

    async def commit(self, key: bytes, state: S, publications: Sequence[Publication] = ()) -> None:
        """Remember."""
        if self.meanwhile is not None:
            await self.meanwhile()
        self.committed.append((key, state, events(publications)))

    def ensure_owned(self) -> None:
        """Fail as the process would."""
        if not self.owned:
            raise OwnershipUncertain

    def passed(self, topic: str, offset: int) -> bool:
        """Whether an offset is below what a test says is handled."""
        return offset < self.handled.get(topic, 0)

    async def rest(self, seconds: float) -> None:
        """Move the clock."""
        self.rests.append(seconds)
        self._clock.now += seconds


EFFORT = Effort(attempts=2, timeout=0.01, backoff=0.5, backoff_max=4.0, patience=60.0)
"""How hard proposals are tried for, unless a test says else."""


def provider(decider: Decider, clock: Clock, *, failures: int = 5) -> Provider:
    """A decider named `model`, in good health."""
    breaker = CircuitBreaker(failures=failures, cool_down_seconds=10.0, now=clock)
    return Provider("model", decider, breaker)


def asked_of(
    decider: Decider, metrics: Metrics, *, clock: Clock, effort: Effort = EFFORT
) -> dict[str, Any]:
    """What a decide handler needs to ask the shop's one decider."""
    providers: Mapping[str, Provider] = {"shop": provider(decider, clock)}
    return {"providers": providers, "asking": Asking(effort, metrics=metrics, clock=clock)}


def events(published: Sequence[Publication] | Handled[Any]) -> list[Event]:
    """The events of publications, decoded."""
    publications = published.publications if isinstance(published, Handled) else published
    kinds = {topic: kind for kind, topic in TOPIC_OF.items()}
    return [
        CODEC.decode_as(kinds[publication.topic], publication.value or b"")
        for publication in publications
    ]


def record(
    event: Event, offset: int = 0, *, topic: str, key: bytes = b"c-1"
) -> "ConsumerRecord[bytes, bytes]":
    """The record of an event."""
    return ConsumerRecord(
        topic=topic,
        partition=0,
        offset=offset,
        timestamp=NOW,
        timestamp_type=0,
        key=key,
        value=CODEC.encode(event),
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=(),
    )


def turn(text: str, **changes: Any) -> ConversationTurn:
    """A customer's turn."""
    fields: dict[str, Any] = {
        "turn_id": "t-1",
        "conversation_id": "c-1",
        "channel_id": "web",
        "role": "customer",
        "text": text,
        "locale": "fr",
        "occurred_at": NOW,
    }
    return ConversationTurn.model_validate(fields | changes)


_REASONS = {
    "answer": "context_sufficient",
    "call_tool": "lookup_required",
    "ask": "missing_input",
    "refuse": "policy_block",
    "handoff": "unsupported",
}


def action(kind: str, payload: dict[str, Any], **changes: Any) -> ActionEvent:
    """An action of a kind with its payload."""
    names = {"call_tool": "call", "ask": "question", "refuse": "refusal"}
    fields: dict[str, Any] = {
        "action_id": "a-1",
        "decision_id": "d-1",
        "conversation_id": "c-1",
        "channel_id": "web",
        "source": Source(topic="conversation.turns", partition=0, offset=0),
        "turn_id": "t-1",
        "input_no": 1,
        "seen": {"conversation.turns": 0},
        "step": 1,
        "sequence": NOW,
        "decision": {
            "action": kind,
            "tool": payload.get("tool") if kind == "call_tool" else None,
            "missing_field": payload.get("field") if kind == "ask" else None,
            "reason_code": _REASONS[kind],
        },
        names.get(kind, kind): payload,
        "agent": "shop",
        "versions": Versions(decision_version="d", presentation_version="p", model="m/1"),
        "diagnostics_json": "{}",
        "decided_at": NOW,
    }
    return ActionEvent.model_validate(fields | changes)


def catalog(**changes: Any) -> Catalog:
    """A small shop."""
    order_schema = {
        "type": "object",
        "required": ["order_id"],
        "additionalProperties": False,
        "properties": {"order_id": {"type": "string", "pattern": "^A-[0-9]{4}$"}},
    }
    tool = {
        "description": "Tells where an order is.",
        "input_schema": order_schema,
        "result_schema": {"type": "object", "properties": {"status": {"type": "string"}}},
        "effect": "read",
        "retry": {"attempts": 3, "backoff_seconds": 1.0, "max_backoff_seconds": 1.5},
        "binding": {"kind": "function", "target": "nowhere:nothing"},
    }
    write = tool | {"effect": "write", "required_permissions": ["orders:write"]}
    fields: dict[str, Any] = {
        "default_locale": "en",
        "entry_agent": "shop",
        "default_queue": "general",
        "queues": {"general": {"description": "d", "text": {"en": "A person will reply."}}},
        "channels": {"web": {"type": "webchat"}},
        "agents": {"shop": {"description": "d"}},
        "tools": {
            "get_order_status": tool,
            "cancel_order": write,
            "create_label": write | {"idempotent": True, "required_permissions": []},
            "list_stores": tool | {"data_scope": "public"},
        },
        "answers": {
            "order_status": {
                "description": "d",
                "text": {"en": "Order {order_id} is {status}.", "fr": "{order_id} : {status}."},
                "words": {"status": {"shipped": {"en": "on its way", "fr": "expédiée"}}},
            },
            "blank": {"description": "d", "text": {"en": " {order_id} "}},
        },
        "rules": {"missing_permission": {"description": "d", "text": {"en": "Not allowed."}}},
        "categories": {"delivery": {"description": "d"}, "returns": {"description": "d"}},
    }
    return Catalog.model_validate(fields | changes)
