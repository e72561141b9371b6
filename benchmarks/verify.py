"""Was the work done? Every run is read back, read_committed, and held to the same rules."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from benchmarks.broker import read_all
from turnstream.config import Settings
from turnstream.core.events import ConversationTurn
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.core.record import load
from turnstream.stream.codec import Codec
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.partitioner import partitioner


class Checked(NamedTuple):
    """What a run left behind."""

    last_at: float
    """When the broker took the last event that is timed, seconds since 1970."""
    events: int
    faults: dict[str, int]
    """Kind of fault to its count; empty for a correct run."""
    decisions: dict[str, tuple[Any, ...]]
    """turn id to (action, tool, missing field)."""


async def check(
    settings: Settings,
    turns: Sequence[ConversationTurn],
    *,
    changelog: str | None,
    timed: int | None = None,
) -> Checked:
    """Read a run's topics and compare them with the turns that were sent.

    Args:
        settings: The run.
        turns: Everything that was sent.
        changelog: Where the state was written, if anywhere.
        timed: How many of the first turns count for the last event's time; all by default.
    """
    codec = Codec()
    servers, partitions = settings.kafka.bootstrap_servers, settings.partitions
    expected = Counter(turn.conversation_id for turn in turns)
    faults: Counter[str] = Counter()
    sources: Counter[tuple[str, int, int]] = Counter()
    order: dict[str, list[tuple[int, int]]] = defaultdict(list)
    decisions: dict[str, tuple[Any, ...]] = {}
    ids: Counter[str] = Counter()
    turn_at = _places(settings, turns)
    counting = set(islice(turn_at, timed))
    last_at = 0.0
    for logical in ("conversation.actions", "conversation.outcomes"):
        for record in await read_all(servers, settings.topics.name(logical), partitions):
            event = codec.decode(logical, record.value)
            assert isinstance(event, ActionEvent | Outcome)
            source = event.source
            if (source.partition, source.offset) in counting:
                last_at = max(last_at, record.timestamp / 1000)
            sources[source.topic, source.partition, source.offset] += 1
            if isinstance(event, ActionEvent):
                ids[event.action_id] += 1
                order[event.conversation_id].append((event.input_no, event.sequence))
                decision = event.decision
                decisions[turn_at[source.partition, source.offset]] = (
                    decision.action,
                    decision.tool,
                    decision.missing_field,
                )
    faults["turns without an action or outcome"] = len(turns) - len(sources)
    faults["turns decided more than once"] = sum(count > 1 for count in sources.values())
    faults["action ids repeated"] = sum(count > 1 for count in ids.values())
    for conversation, seen in order.items():
        if seen != sorted(seen) or len({number for _, number in seen}) != len(seen):
            faults["conversations out of order"] += 1
        if seen[-1][0] > expected[conversation]:
            faults["conversations that count more inputs than were sent"] += 1
    if changelog is not None:
        counted: dict[str, int] = {}
        for record in await read_all(servers, changelog, partitions):
            if record.value and record.key != IMPRINT_KEY:
                key, value = _state(record.key, record.value)
                counted[key] = load(value).input_no
        wrong = sum(counted.get(name) != count for name, count in expected.items())
        faults["conversations whose stored state counts other inputs"] = wrong
    return Checked(
        last_at,
        sources.total(),
        {kind: count for kind, count in faults.items() if count},
        decisions,
    )


def _places(settings: Settings, turns: Sequence[ConversationTurn]) -> dict[tuple[int, int], str]:
    """Return the place of each turn, in their order; the topic holds nothing else."""
    choose = partitioner(settings.turns.partitioner)
    following = [0] * settings.partitions
    found: dict[tuple[int, int], str] = {}
    for turn in turns:
        partition = choose(turn.conversation_id.encode(), settings.partitions)
        found[partition, following[partition]] = turn.turn_id
        following[partition] += 1
    return found


def _state(key: bytes, value: bytes) -> tuple[str, bytes]:
    """Return conversation and state of a changelog record, without the framing of quixstreams."""
    begin = key.find(b"conversation-")
    name = key[begin:].split(b"|", 1)[0]
    return name.decode(), value[value.find(b"{") :]
