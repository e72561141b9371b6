"""The candidate of a shadow: another configuration, asked at the inputs that it is given."""

from dataclasses import dataclass, replace

from turnstream.core.compare import ComparedCall, calls_of
from turnstream.core.contract import Decision, HandoffCause
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Input, Propose, Publish, Step, Undecided
from turnstream.core.events import Versions
from turnstream.core.evolution import evolved
from turnstream.core.mirror import rested
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.metrics import Metrics
from turnstream.roles.asking import Asking, Provider, Resting
from turnstream.roles.shadowing import HeardInput
from turnstream.roles.spending import Spending


@dataclass(frozen=True, slots=True)
class Proposed:
    """What the shadow would have done at one input."""

    decision: Decision
    """Of several calls the first's."""
    arguments_json: str | None
    calls: tuple[ComparedCall, ...]
    cause: HandoffCause | None
    versions: Versions
    diagnostics_json: str


class Candidate:
    """Steps copies of conversations and says what it would have done."""

    def __init__(
        self, ruleset: Ruleset, *, provider: Provider, asking: Asking, metrics: Metrics
    ) -> None:
        """Prepare.

        Args:
            ruleset: the candidate's catalog and limits.
            provider: proposes; for every agent.
            asking: asks it again where it needs time, or fails.
            metrics: where failures are counted.
        """
        self.ruleset = ruleset
        self._provider = provider
        self._asking = asking
        self._metrics = metrics

    @property
    def versions(self) -> Versions:
        """What a proposal of the candidate's own is made with."""
        return Versions(
            decision_version=self.ruleset.decision_version,
            presentation_version=self.ruleset.presentation_version,
            model=self._provider.decider.name,
        )

    def until(self) -> float:
        """When the patience ends of what is handled from now on."""
        return self._asking.until()

    async def stepped(
        self,
        conversation_id: str,
        one: HeardInput,
        mirror: Conversation,
        *,
        lane: Resting,
        until: float,
    ) -> tuple[Conversation, Proposed | None]:
        """Step the mirror through an input, asking the candidate where the step wants to.

        Without a proposal the candidate would have handed over to a person, like the live side.

        Args:
            conversation_id: whose input it is.
            one: the input.
            mirror: the conversation before it.
            lane: where to wait.
            until: the end of the patience; see `until`.

        Returns:
            The mirror, which has heard the input and taken no decision about it; and what the
            candidate would have done.
        """
        cause = _cause(conversation_id, one)
        outcome = step(mirror, cause, self.ruleset)
        heard = _undecided(outcome, mirror)
        spending = Spending()
        while outcome.effects and isinstance(last := outcome.effects[-1], Propose):
            reply = await self._asking.ask(
                self._provider,
                last.request,
                lane=lane,
                until=until,
                seed=f"{one.topic}/{one.source.partition}/{one.offset}",
                spending=spending,
            )
            if isinstance(reply, Undecided):
                self._metrics.decider_failed("unavailable")
            outcome = step(outcome.state, replace(cause, event=reply), self.ruleset)
        return heard, _first_action(outcome)

    def folded(self, conversation_id: str, one: HeardInput, mirror: Conversation) -> Conversation:
        """The mirror after an input that nothing is proposed about."""
        return _undecided(step(mirror, _cause(conversation_id, one), self.ruleset), mirror)


def _cause(conversation_id: str, one: HeardInput) -> Input:
    return Input(
        conversation_id=conversation_id,
        event=one.event,
        source=one.source,
        topic=one.topic,
        offset=one.offset,
        timestamp=one.timestamp,
        now=one.timestamp,
    )


def _undecided(outcome: Step, before: Conversation) -> Conversation:
    """The mirror after an input: with what the input itself changed, without a decision about it.

    An answer that is out, a conversation handed back: such inputs move the live side too. Only what
    a decision moved is taken back.
    """
    decided = any(
        isinstance(effect, Propose)
        or (isinstance(effect, Publish) and isinstance(effect.event, ActionEvent))
        for effect in outcome.effects
    )
    return rested(outcome.state, before) if decided else evolved(outcome.state, timers=())


def _first_action(outcome: Step) -> Proposed | None:
    actions = [
        effect.event
        for effect in outcome.effects
        if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent)
    ]
    if not actions:
        return None
    action = actions[0]
    return Proposed(
        decision=action.decision,
        arguments_json=action.call.arguments_json if action.call is not None else None,
        calls=calls_of(actions),
        cause=action.handoff.cause  # type: ignore[arg-type]
        if action.handoff is not None
        else None,
        versions=action.versions,
        diagnostics_json=action.diagnostics_json,
    )
