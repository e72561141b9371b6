"""The shadow role: what another configuration would do on live traffic, without doing it.

It reads what `decide` reads, and what was decided. For each live action it brings its own copy of
the conversation to the very inputs that the live decision had seen, makes its own proposal there,
publishes it beside a comparison, and then follows the live side. Where people act instead of
`decide` (``compare_with: people``), it proposes at each customer turn and pairs with what the
person did next.

It cannot act: it imports no executor and no tool, holds no credential of one, and the stream
refuses any topic but its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Literal, cast

import structlog

from turnstream.core.conversation import Conversation
from turnstream.core.events import ConversationControl, ConversationTurn, Event, LiveAction, Timer
from turnstream.core.mirror import follow, follow_person
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.metrics import Metrics
from turnstream.roles.asking import Asking, Provider, Resting
from turnstream.roles.candidate import Candidate, Proposed
from turnstream.roles.deployment import Deployment, StreamRole
from turnstream.roles.intake import Intake
from turnstream.roles.providers import candidate_of, closing, effort_of
from turnstream.roles.publishing import Publisher
from turnstream.roles.shadow_events import ShadowEvents
from turnstream.roles.shadowing import (
    MAX_HEARD,
    MAX_HEARD_BYTES,
    MAX_WAITING,
    Heard,
    OpenProposal,
    Shadowed,
    heard_from,
    is_afterthought,
    oldest_batch,
    shadowed_format,
    size_of,
)
from turnstream.stream import (
    Handled,
    LaneContext,
    Publication,
    Record,
    StateUnreadable,
    TimerDue,
)

log = structlog.get_logger(__name__)

SOURCES: Final = (
    "conversation.turns",
    "conversation.control",
    "tool.results",
    "conversation.answers",
    "conversation.labels",
    "conversation.timers",
    "conversation.actions",
    "conversation.live-actions",
)
WRITES: Final = ("shadow.proposals", "shadow.comparisons")


class ShadowHandler:
    """Proposes and compares; never acts."""

    def __init__(
        self,
        *,
        intake: Intake,
        publisher: Publisher,
        ruleset: Ruleset,
        provider: Provider,
        asking: Asking,
        metrics: Metrics,
        candidate: str,
        compare_with: Literal["decide", "people"],
        pair_within_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes events.
            ruleset: the candidate's compiled catalog.
            provider: the candidate's decider.
            asking: asks it again where it needs time, or fails.
            metrics: where comparisons are counted.
            candidate: what the shadow's configuration is called.
            compare_with: whose actions are the live side.
            pair_within_ms: how long a proposal waits for a person.
            now_ms: the wall clock.
        """
        self._intake = intake
        self._ruleset = ruleset
        self._candidate = Candidate(ruleset, provider=provider, asking=asking, metrics=metrics)
        self._events = ShadowEvents(publisher, candidate=candidate, metrics=metrics, now_ms=now_ms)
        self._with_people = compare_with == "people"
        self._pair_within_ms = pair_within_ms

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check a record."""
        return self._intake.admit(record)

    def handle(
        self,
        record: Record,
        event: Event,
        state: Shadowed | None,
        lane: LaneContext[Shadowed],
    ) -> Awaitable[Handled[Shadowed]]:
        """Take an input or a live action over; propose and compare where both are there."""
        state = state or Shadowed()
        state = replace(
            state,
            watermarks={**state.watermarks, record.topic: record.offset},
            read_at=max(state.read_at, record.timestamp),
        )
        if self._with_people:
            return self._beside_people(record, event, state, lane)
        return self._beside_decide(record, event, state, lane)

    def flood(self, record: Record, event: Event, state: Shadowed | None) -> Handled[Shadowed]:
        """Pass over an input of a conversation that sends too fast; the live side hands it off."""
        return self._passed_over(record, state)

    def abandon(
        self,
        record: Record,
        event: Event,
        state: Shadowed | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Shadowed]:
        """Pass over an input that could not be handled: a shadow has nobody to hand over to."""
        log.error("input abandoned", topic=record.topic, error=type(error).__name__)
        if isinstance(error, StateUnreadable):
            state = Shadowed(watermarks=error.watermarks)
        return self._passed_over(record, state)

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> None:
        """Let a copy go that has been silent for long."""

    def _passed_over(self, record: Record, state: Shadowed | None) -> Handled[Shadowed]:
        state = state or Shadowed()
        return Handled(replace(state, watermarks={**state.watermarks, record.topic: record.offset}))

    # --- beside decide --------------------------------------------------------------------------

    async def _beside_decide(
        self, record: Record, event: Event, state: Shadowed, lane: LaneContext[Shadowed]
    ) -> Handled[Shadowed]:
        if isinstance(event, ActionEvent):
            actions = sorted((*state.actions, event), key=lambda one: one.sequence)
            state = replace(state, actions=tuple(actions))
        elif not isinstance(event, LiveAction) and not is_afterthought(event, state):
            heard = heard_from(record, cast("Heard", event))
            state = replace(state, heard=(*state.heard, heard))
        publications: list[Publication] = []
        until = self._candidate.until()
        while state.actions and (_complete(state, lane) or len(state.actions) > MAX_WAITING):
            batch = oldest_batch(state.actions)
            state = replace(state, actions=state.actions[len(batch) :])
            action = batch[0]
            state, proposed = await self._at(action, state, lane=lane, until=until)
            if proposed is not None:
                publications += self._events.proposal(
                    record, action.source, proposed, turn_id=action.turn_id, live=batch
                )
            for one in batch:
                if state.mirror.phase != "closed":
                    # Else the conversation was closed before what was last done in it arrived here.
                    state = replace(state, mirror=follow(state.mirror, one, self._ruleset))
        state = self._bounded(record.key.decode(), state)
        return Handled(self._closing(event, state), publications)

    async def _at(
        self, action: ActionEvent, state: Shadowed, *, lane: Resting, until: float
    ) -> tuple[Shadowed, Proposed | None]:
        """Bring the mirror to what a live decision had seen, and decide there.

        Where the decision's first action is missing there is nothing to compare with.
        """
        seen = [one for one in state.heard if one.offset <= action.seen.get(one.topic, -1)]
        # Topics are read at different speeds; the input that was decided about comes last.
        seen.sort(key=lambda one: (one.source == action.source, one.timestamp))
        later = tuple(one for one in state.heard if one not in seen)
        mirror, proposed = state.mirror, None
        for one in seen:
            if one.source == action.source and action.batch_index == 0:
                mirror, proposed = await self._candidate.stepped(
                    action.conversation_id, one, mirror, lane=lane, until=until
                )
            else:
                mirror = self._candidate.folded(action.conversation_id, one, mirror)
        return replace(state, mirror=mirror, heard=later), proposed

    # --- beside people --------------------------------------------------------------------------

    async def _beside_people(
        self, record: Record, event: Event, state: Shadowed, lane: Resting
    ) -> Handled[Shadowed]:
        publications: list[Publication] = []
        match event:
            case LiveAction():
                state = replace(state, early=(*state.early, event)[-MAX_WAITING:])
            case ActionEvent():
                pass
            case _:
                one = heard_from(record, cast("Heard", event))
                mirror, proposed = await self._candidate.stepped(
                    record.key.decode(),
                    one,
                    state.mirror,
                    lane=lane,
                    until=self._candidate.until(),
                )
                state = replace(state, mirror=mirror)
                if proposed is not None and isinstance(event, ConversationTurn):
                    publications += self._events.proposal(
                        record, one.source, proposed, turn_id=event.turn_id
                    )
                    waiting = OpenProposal(
                        one.source,
                        event.turn_id,
                        proposed.decision,
                        proposed.arguments_json,
                        event.occurred_at,
                        proposed.calls,
                    )
                    state = replace(state, proposals=(*state.proposals, waiting)[-MAX_WAITING:])
        state, paired = self._paired(record, state)
        return Handled(self._closing(event, state), [*publications, *paired])

    def _paired(self, record: Record, state: Shadowed) -> tuple[Shadowed, list[Publication]]:
        """Pair what people did with the proposals that waited for it."""
        publications: list[Publication] = []
        unpaired: list[LiveAction] = []
        proposals = list(state.proposals)
        for live in state.early:
            match = _pair(live, proposals, self._pair_within_ms)
            if match is None:
                unpaired.append(live)
                continue
            proposals.remove(match)
            publications.append(
                self._events.comparison(
                    record,
                    match.source,
                    live=live,
                    proposed=match.decision,
                    calls=match.compared,
                    versions=self._candidate.versions,
                )
            )
            state = replace(state, mirror=follow_person(state.mirror, live, self._ruleset))
        return replace(state, proposals=tuple(proposals), early=tuple(unpaired)), publications

    def _bounded(self, conversation_id: str, state: Shadowed) -> Shadowed:
        """Fold the oldest inputs that no live decision came for."""
        heard, mirror = list(state.heard), state.mirror
        size = sum(size_of(one) for one in heard)
        while heard and (len(heard) > MAX_HEARD or size > MAX_HEARD_BYTES):
            one = heard.pop(0)
            size -= size_of(one)
            mirror = self._candidate.folded(conversation_id, one, mirror)
        return replace(state, heard=tuple(heard), mirror=mirror)

    def _closing(self, event: Event, state: Shadowed) -> Shadowed:
        """Drop everything but the watermarks when the live conversation has ended."""
        ended = isinstance(event, ConversationControl) and event.kind in ("close", "forget")
        if isinstance(event, Timer) and event.kind == "conversation_close":
            ttl = self._ruleset.limits.conversation_ttl_ms
            silent = state.mirror.updated_at + ttl <= event.due_at
            # The live side may have decided about it long before, and be read here later.
            ended = silent and not any(
                isinstance(one.event, ConversationTurn) for one in state.heard
            )
        if not ended:
            return state
        return Shadowed(watermarks=state.watermarks, mirror=Conversation(phase="closed"))


def _complete(state: Shadowed, lane: LaneContext[Shadowed]) -> bool:
    """Whether the oldest live decision is here, and all inputs that it had seen.

    What was read before the shadow began, by a group that started later than `decide`, or with a
    copy that has expired since, does not arrive any more; waiting for it would hold back every
    later action.
    """
    batch = oldest_batch(state.actions)
    return len(batch) == batch[0].batch_size - batch[0].batch_index and all(
        state.watermarks.get(topic, -1) >= offset or lane.passed(topic, offset)
        for topic, offset in batch[0].seen.items()
    )


def _pair(
    live: LiveAction, proposals: Sequence[OpenProposal], pair_within_ms: int
) -> OpenProposal | None:
    """The proposal that a live action belongs to: by turn id, else the last one before it."""
    if live.turn_id is not None:
        return next((one for one in proposals if one.turn_id == live.turn_id), None)
    before = [one for one in proposals if 0 <= live.occurred_at - one.at <= pair_within_ms]
    return max(before, key=lambda one: one.at, default=None)


def build(deployment: Deployment) -> StreamRole[Shadowed, Event]:
    """The shadow role of a deployment."""
    settings = deployment.settings.shadow
    candidate = deployment.candidate()
    provider = candidate_of(deployment, candidate)
    handler = ShadowHandler(
        intake=deployment.intake(SOURCES, role="shadow", follows="decide"),
        publisher=deployment.publisher("shadow"),
        ruleset=candidate.ruleset,
        provider=provider,
        asking=Asking(effort_of(settings), metrics=deployment.metrics),
        metrics=deployment.metrics,
        candidate=settings.name,
        compare_with=settings.compare_with,
        pair_within_ms=int(settings.pair_within_seconds * 1000),
        now_ms=deployment.now_ms,
    )
    return StreamRole(
        name="shadow",
        handler=handler,
        state_format=shadowed_format(candidate.ruleset.limits),
        sources=SOURCES,
        writes=WRITES,
        rejects=frozenset({"conversation.live-actions"}),
        dead_letter_topic="shadow.proposals.dlq",
        close=closing([provider]),
    )
