"""The decide role: turns in, safe actions out.

One input of a conversation at a time: ``step`` it; where the step asks for a proposal, ask the
decider and step again, until the state is at rest. The new state and everything the steps want
published are returned together and committed together; an input that fails for good becomes a
dead letter and hands its conversation off.

This file has no rule of its own. Which step is safe is decided in :mod:`turnstream.core`; how
records are delivered, in :mod:`turnstream.stream`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from turnstream.core.agents import MAX_RETRIES
from turnstream.core.conversation import Conversation
from turnstream.core.effects import (
    Abandoned,
    DeadLetter,
    Flooded,
    Happening,
    Input,
    Propose,
    Publish,
    Step,
    Undecided,
)
from turnstream.core.events import ConversationTurn, Event, Timer, ToolResult
from turnstream.core.policy import judge
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome
from turnstream.core.record import lost
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.core.verdicts import Fault
from turnstream.metrics import Metrics
from turnstream.roles.asking import Asking, Begun, Provider
from turnstream.roles.conversation_format import ConversationFormat
from turnstream.roles.deployment import Deployment, StreamRole
from turnstream.roles.failed_attempts import TRANSIENT
from turnstream.roles.ignored_results import ignored
from turnstream.roles.intake import Intake, source_of
from turnstream.roles.pending import PendingQuestions
from turnstream.roles.providers import closing, effort_of, providers_of
from turnstream.roles.publishing import Publisher
from turnstream.roles.raw_sink import RawSink
from turnstream.roles.rejections import Rejections
from turnstream.roles.spending import Spending, count_spent
from turnstream.stream import DeadLetter as Letter
from turnstream.stream import DeadLetterReason as LetterReason
from turnstream.stream import (
    Handled,
    LaneContext,
    Publication,
    Record,
    Stages,
    StateUnreadable,
    TimerDue,
)
from turnstream.stream.deadletter import given_up_before

log = structlog.get_logger(__name__)

SOURCES: Final = (
    "conversation.turns",
    "conversation.control",
    "tool.results",
    "conversation.answers",
    "conversation.labels",
    "conversation.timers",
)
WRITES: Final = (
    "conversation.actions",
    "conversation.outcomes",
    "conversation.outbound",
    "conversation.timers",
)

_LETTERS: Final[Mapping[str, LetterReason]] = {
    "invalid_id": "invalid",
    "turn_id_conflict": "content_mismatch",
    "unknown_channel": "unsupported",
    "unrecognized_symbol": "unsupported",
}

_MAX_PASSES: Final = MAX_RETRIES + 2
"""A proposal, the retries after faults, and the pass that finds the rest. More is a loop of
ours."""


class DecideHandler:
    """Decides the next step of each conversation."""

    def __init__(
        self,
        *,
        intake: Intake,
        publisher: Publisher,
        ruleset: Ruleset,
        providers: Mapping[str, Provider],
        asking: Asking,
        metrics: Metrics,
        pending: PendingQuestions,
        now_ms: Callable[[], int],
        raw: RawSink | None = None,
    ) -> None:
        """Prepare.

        Args:
            intake: checks and decodes records.
            publisher: encodes events.
            ruleset: the compiled catalog and limits.
            providers: agent name to the decider that proposes for it.
            asking: asks those that need time, or fail.
            metrics: where decisions are counted.
            pending: keeps count of the open questions of the partitions owned here.
            now_ms: the wall clock.
            raw: where the arguments of rejected calls go; nowhere when None.
        """
        self._intake = intake
        self._publisher = publisher
        self._ruleset = ruleset
        self._providers = providers
        self._asking = asking
        self._metrics = metrics
        self._pending = pending
        self._now_ms = now_ms
        self._rejections = Rejections(ruleset.catalog.tools, metrics=metrics, raw=raw)

    def admit(self, record: Record) -> tuple[bytes, Event]:
        """Decode and check a record of any of the six sources."""
        return self._intake.admit(record)

    def handle(
        self,
        record: Record,
        event: Event,
        state: Conversation | None,
        lane: LaneContext[Conversation],
    ) -> Stages[Conversation]:
        """Step until the conversation rests."""
        cause = self._input(record, event)  # type: ignore[arg-type]
        outcome = step(state, cause, self._ruleset)
        spending = Spending()
        for _ in range(_MAX_PASSES):
            request = _asked(outcome)
            yield
            if request is None:
                self._count_ignored(event, state)
                return self._handled(record, event, outcome)
            asked_at = time.perf_counter()
            provider = self._providers[request.agent]
            begun: Proposal | Begun | None = None
            if not provider.troubled:
                try:
                    begun = provider.decider.propose(request)
                except TRANSIENT as failure:
                    begun = failure
            if not isinstance(begun, Proposal):
                return self._ask(
                    record, event, outcome, cause, lane=lane, begun=begun, spending=spending
                )
            self._metrics.proposed(time.perf_counter() - asked_at)
            if begun.diagnostics:
                count_spent(self._metrics, provider.name, begun.diagnostics)
            yield
            outcome = self._stepped(outcome, cause, request, spending.reply(begun))
        raise AssertionError(f"no decision after {_MAX_PASSES} passes")

    def flood(
        self, record: Record, event: Event, state: Conversation | None
    ) -> Handled[Conversation]:
        """Hand a conversation off that sends faster than it can be decided.

        Results and control events are taken in all the same: they end what turns wait for. Only no
        decider is asked any more.
        """
        happening = Flooded(event) if isinstance(event, ConversationTurn) else event
        cause = self._input(record, happening)  # type: ignore[arg-type]
        outcome = step(state, cause, self._ruleset)
        if _asked(outcome) is not None:
            flood = cause.with_event(Undecided("too many inputs are queued"))
            outcome = step(outcome.state, flood, self._ruleset)
        self._count_ignored(event, state)
        return self._handled(record, event, outcome)

    def abandon(
        self,
        record: Record,
        event: Event,
        state: Conversation | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Conversation]:
        """Hand a conversation off whose input could not be handled, or whose state is lost."""
        log.error(
            "input abandoned",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            attempts=attempts,
            error=type(error).__name__,
        )
        turn = event if isinstance(event, ConversationTurn) else None
        if isinstance(error, StateUnreadable):
            state = lost(error.watermarks, turn.turn_id if turn is not None else "")
        cause = self._input(record, Abandoned(turn))
        return self._handled(record, event, step(state, cause, self._ruleset))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a writer's schema."""
        return await self._intake.resolve_schema(fingerprint)

    def timer(self, key: bytes, timer: TimerDue) -> Publication:
        """The event that says that a due time of a conversation has passed."""
        event = Timer(
            timer_id=timer.timer_id,
            conversation_id=key.decode(),
            kind=timer.kind,  # type: ignore[arg-type]
            due_at=timer.due_at,
        )
        return self._publisher.publication(event, key=key, event_id=timer.timer_id)

    # --- asking a decider that needs time ---------------------------------------------------------

    async def _ask(
        self,
        record: Record,
        event: Event,
        outcome: Step,
        cause: Input,
        *,
        lane: LaneContext[Conversation],
        begun: Begun | None,
        spending: Spending,
    ) -> Handled[Conversation]:
        """Ask until the conversation rests; without a proposal a person takes over."""
        until = self._asking.until()
        source = cause.source
        while (request := _asked(outcome)) is not None:
            reply = await self._asking.ask(
                self._providers[request.agent],
                request,
                lane=lane,
                until=until,
                seed=f"{source.topic}/{source.partition}/{source.offset}",
                begun=begun,
                spending=spending,
            )
            begun = None
            # Deadlines count from the decision: after a long wait a call would else be late at
            # once. A clock that was put back in between does not make it older than its input.
            cause = replace(cause, now=max(cause.now, self._now_ms()))
            if isinstance(reply, Undecided):
                self._metrics.decider_failed("unavailable")
                outcome = step(outcome.state, cause.with_event(reply), self._ruleset)
            else:
                outcome = self._stepped(outcome, cause, request, reply)
        return self._handled(record, event, outcome)

    def _stepped(
        self, outcome: Step, cause: Input, request: DecisionRequest, reply: Proposal
    ) -> Step:
        following = step(outcome.state, cause.with_event(reply), self._ruleset)
        if following.rejected:
            asked_for = outcome.state.activation
            self._rejections.note(
                following.rejected,
                reply,
                cause,
                turn_id=asked_for.turn_id if asked_for is not None else None,
            )
        if _asked(following) is not None or (
            # After the last fault a person is asked, or the customer. Some proposals do so as
            # well, so what followed does not tell them apart.
            self._is_last(outcome, request)
            and isinstance(judge(reply, outcome.state, self._ruleset), Fault)
        ):
            self._metrics.decider_failed("blocked")
        return following

    def _is_last(self, outcome: Step, request: DecisionRequest) -> bool:
        """Whether no other proposal is asked for after this one."""
        activation = outcome.state.activation
        tried = activation.proposals if activation is not None else 0
        return tried >= self._ruleset.catalog.agents[request.agent].max_retries

    # --- what an input led to ---------------------------------------------------------------

    def _input(self, record: Record, event: Happening) -> Input:
        return Input(
            conversation_id=record.key.decode(),
            event=event,
            source=source_of(record),
            topic=record.topic,
            offset=record.offset,
            timestamp=record.timestamp,
            now=self._now_ms(),
            given_up=given_up_before(record.headers) if record.headers else 0,
        )

    def _handled(self, record: Record, event: Event, outcome: Step) -> Handled[Conversation]:
        if isinstance(event, ConversationTurn):
            # Here and not where handling begins: an input that is retried is read once.
            self._metrics.turn(event.role)
        publications: list[Publication] = []
        letter: Letter | None = None
        for effect in outcome.effects:
            match effect:
                case Publish(event=published):
                    publications.append(self._publication(record, event, published))
                case DeadLetter(reason=reason, detail=detail):
                    letter = Letter(_LETTERS[reason], detail)
                case Propose():
                    raise AssertionError("an input ends only when its conversation rests")
        self._pending.note(record.partition, record.key, outcome.state)
        return Handled(outcome.state, publications, letter)

    def _count_ignored(self, event: Event, before: Conversation | None) -> None:
        if isinstance(event, ToolResult) and (reason := ignored(event, before)) is not None:
            self._metrics.result_ignored(reason)

    def _publication(
        self, record: Record, event: Event, published: ActionEvent | OutboundMessage | Outcome
    ) -> Publication:
        match published:
            case ActionEvent(action_id=event_id, decision=decision):
                age = None
                if isinstance(event, ConversationTurn):
                    age = published.decided_at - event.occurred_at
                self._metrics.decided(
                    action=decision.action, reason_code=decision.reason_code, age_ms=age
                )
                if published.handoff is not None:
                    self._metrics.handed_off(published.handoff.cause)
            case OutboundMessage(message_id=event_id):
                pass
            case Outcome():
                self._metrics.outcome(of=published.of, outcome=published.outcome)
                source = published.source
                event_id = f"{source.topic}/{source.partition}/{source.offset}/{published.outcome}"
        return self._publisher.publication(
            published, key=record.key, event_id=event_id, record=record
        )


def _asked(outcome: Step) -> DecisionRequest | None:
    """The request of a step that ends with a question to the decider."""
    last = outcome.effects[-1] if outcome.effects else None
    return last.request if isinstance(last, Propose) else None


def build(deployment: Deployment) -> StreamRole[Conversation, Event]:
    """The decide role of a deployment."""
    pending = PendingQuestions(topic=deployment.topic("conversation.turns"))
    deployment.metrics.watch_pending(pending.report)
    providers = providers_of(deployment)
    raw = deployment.raw_sink("decide")
    handler = DecideHandler(
        intake=deployment.intake(SOURCES, role="decide"),
        publisher=deployment.publisher("decide"),
        ruleset=deployment.ruleset,
        providers=providers,
        asking=Asking(effort_of(deployment.settings.decide), metrics=deployment.metrics),
        metrics=deployment.metrics,
        pending=pending,
        now_ms=deployment.now_ms,
        raw=raw,
    )
    return StreamRole(
        name="decide",
        handler=handler,
        state_format=ConversationFormat(),
        sources=SOURCES,
        writes=WRITES,
        rejects=frozenset(SOURCES),
        owned=pending,
        close=closing(providers.values(), raw=raw),
    )
