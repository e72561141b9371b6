"""What the topics say about a run, read_committed and nothing else."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from aiokafka.structs import ConsumerRecord

from benchmarks.broker import read_all
from turnstream.config import Settings
from turnstream.core.contract import ACTIONS, faults
from turnstream.core.events import Answer, ConversationTurn, Event, Label, ToolResult
from turnstream.core.publications import (
    PAYLOAD_OF,
    ActionEvent,
    OutboundMessage,
    Outcome,
    ShadowComparison,
    ShadowProposal,
)
from turnstream.stream.codec import Codec

CLOSING = frozenset(
    {"rejected", "duplicate", "late", "duplicate_turn", "buffered", "held_by_person"}
)
"""Outcomes by which a customer turn ends without an action; the others are about questions."""


E = TypeVar("E", bound=Event)


class Findings(NamedTuple):
    """The result of a run."""

    turns: int
    accounted: int
    faults: dict[str, int]
    actions: dict[str, int]
    handoff_causes: dict[str, int]
    outcomes: dict[str, int]
    tool_outcomes: dict[str, int]
    events: dict[str, int]
    agreement: dict[str, dict[str, int]]
    """Shadow's action to the human's to the number of turns."""
    verdicts: dict[str, int]
    steps: dict[int, int]

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON."""
        return self._asdict()


async def read_events(
    settings: Settings, logical: str, model: type[E]
) -> list[tuple[ConsumerRecord[Any, Any], E]]:
    """Read a topic; decoding validates each value against its schema and its model."""
    codec = Codec()
    records = await read_all(
        settings.kafka.bootstrap_servers, settings.topics.name(logical), settings.partitions
    )
    return [(record, codec.decode_as(model, record.value)) for record in records]


async def dead_letters(settings: Settings) -> dict[str, int]:
    """Count the dead letters of the turns."""
    name = settings.topics.name("conversation.turns.dlq")
    found: Counter[str] = Counter()
    for record in await read_all(settings.kafka.bootstrap_servers, name, 1):
        reason = dict(record.headers).get("turnstream.error.reason", b"?").decode()
        found[reason] += 1
    return dict(found)


async def accounted(settings: Settings) -> set[tuple[int, int]]:
    """Return the turns that are the source of an action or of a closing outcome."""
    turns = settings.topics.name("conversation.turns")
    found: set[tuple[int, int]] = set()
    for _, event in await read_events(settings, "conversation.actions", ActionEvent):
        if event.source.topic == turns:
            found.add((event.source.partition, event.source.offset))
    for _, said in await read_events(settings, "conversation.outcomes", Outcome):
        if said.source.topic == turns and said.outcome in CLOSING:
            found.add((said.source.partition, said.source.offset))
    return found


async def examine(settings: Settings) -> Findings:
    """Read everything and check it."""
    turns_topic = settings.topics.name("conversation.turns")
    wrong: Counter[str] = Counter()
    turns = await read_events(settings, "conversation.turns", ConversationTurn)
    sources = {(record.partition, record.offset) for record, _ in turns}
    actions = await read_events(settings, "conversation.actions", ActionEvent)
    outcomes = await read_events(settings, "conversation.outcomes", Outcome)
    acted: Counter[tuple[int, int]] = Counter()
    decided: dict[tuple[int, int], set[str]] = defaultdict(set)
    order: dict[str, tuple[int, int]] = {}
    ids: Counter[str] = Counter()
    for record, event in actions:
        ids[event.action_id] += 1
        source = event.source
        if source.topic == turns_topic:
            acted[source.partition, source.offset] += 1
            decided[source.partition, source.offset].add(event.decision_id)
        if record.key.decode() != event.conversation_id:
            wrong["events under another key"] += 1
        before = order.get(event.conversation_id, (0, 0))
        now = (event.sequence, event.input_no)
        if now[0] <= before[0] or now[1] < before[1]:
            wrong["actions out of order"] += 1
        order[event.conversation_id] = now
        decision = event.decision
        if faults(decision.action, decision.tool, decision.missing_field, decision.reason_code):
            wrong["decisions outside the contract table"] += 1
        payloads = [name for name in PAYLOAD_OF.values() if getattr(event, name) is not None]
        if payloads != [PAYLOAD_OF[decision.action]]:
            wrong["actions without exactly their payload"] += 1
    ended: Counter[tuple[int, int]] = Counter()
    numbers: dict[str, int] = {}
    for _, said in outcomes:
        if said.input_no < numbers.get(said.conversation_id, 0):
            wrong["outcomes out of order"] += 1
        numbers[said.conversation_id] = said.input_no
        if said.source.topic == turns_topic and said.outcome in CLOSING:
            ended[said.source.partition, said.source.offset] += 1
    wrong["turns without an action or outcome"] = len(sources - acted.keys() - ended.keys())
    wrong["turns with an action and an outcome"] = len(acted.keys() & ended.keys())
    wrong["turns with more than one batch"] = sum(len(one) > 1 for one in decided.values())
    wrong["turns with more than one outcome"] = sum(count > 1 for count in ended.values())
    wrong["sources that are no turn"] = len((acted.keys() | ended.keys()) - sources)
    wrong["action ids repeated"] = sum(count > 1 for count in ids.values())
    wrong["turns dead-lettered"] = sum((await dead_letters(settings)).values())
    wrong |= await _sequences(settings)
    return Findings(
        turns=len(sources),
        accounted=len(sources & (acted.keys() | ended.keys())),
        faults={name: count for name, count in wrong.items() if count},
        actions=_counted(event.decision.action for _, event in actions),
        handoff_causes=_counted(
            event.handoff.cause or "(the decider's own)"
            for _, event in actions
            if event.handoff is not None
        ),
        outcomes=_counted(f"{event.of}: {event.outcome}" for _, event in outcomes),
        tool_outcomes=_counted(
            event.outcome for _, event in await read_events(settings, "tool.results", ToolResult)
        ),
        events={
            "actions": len(actions),
            "outcomes": len(outcomes),
            "answers": len(await read_events(settings, "conversation.answers", Answer)),
            "labels": len(await read_events(settings, "conversation.labels", Label)),
            "shadow proposals": len(
                await read_events(settings, "shadow.proposals", ShadowProposal)
            ),
        },
        **await _shadow(settings, turns),
        steps=_counted(event.step for _, event in actions),
    )


async def _sequences(settings: Settings) -> Counter[str]:
    """Check the outbound messages: ids unique, the sequence never going back."""
    wrong: Counter[str] = Counter()
    before: dict[str, int] = {}
    ids: Counter[str] = Counter()
    for record, message in await read_events(settings, "conversation.outbound", OutboundMessage):
        ids[message.message_id] += 1
        # Answers are composed by another role: they may follow a later question's message.
        if message.kind == "answer":
            continue
        if message.sequence <= before.get(message.conversation_id, 0):
            wrong["messages out of order"] += 1
        before[message.conversation_id] = message.sequence
        assert record.key.decode() == message.conversation_id
    wrong["message ids repeated"] = sum(count > 1 for count in ids.values())
    return wrong


async def _shadow(
    settings: Settings, turns: Sequence[tuple[Any, ConversationTurn]]
) -> Mapping[str, dict[str, Any]]:
    table: dict[str, dict[str, int]] = {
        mine: dict.fromkeys((*ACTIONS, "unlabelled"), 0) for mine in ACTIONS
    }
    verdicts: Counter[str] = Counter()
    known = {turn.turn_id for _, turn in turns}
    for _, event in await read_events(settings, "shadow.comparisons", ShadowComparison):
        assert event.turn_id in known
        table[event.proposed.action][event.live_action] += 1
        verdicts[event.verdict] += 1
    return {"agreement": table, "verdicts": dict(verdicts)}


def _counted(values: Any) -> dict[Any, int]:
    return dict(Counter(values).most_common())
