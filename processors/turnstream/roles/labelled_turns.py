"""What a decider proposes at each labelled turn, in process: no topic, no action, no state.

Conversations are followed as the shadow follows people: a copy steps through each turn, what the
decider proposes there is noted, and then the copy does what was really done. Thresholds and near
ties hold nothing back here, so that what they would do can be worked out for any of them; all else
that code checks is checked. Several conversations are followed at once, each in order, since a
decider behind a network takes its time.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from turnstream.calibration import LabelledConversation, MadeFor, Sample
from turnstream.config import AskingSettings
from turnstream.core.compare import live_side, verdict_of
from turnstream.core.contract import Action
from turnstream.core.conversation import Conversation
from turnstream.core.definitions import Catalog, Thresholds
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import ConversationTurn, LiveAction, Source
from turnstream.core.mirror import follow_person, rested
from turnstream.core.ports import Decider, DecisionRequest, Proposal
from turnstream.core.ruleset import Ruleset
from turnstream.metrics import Metrics
from turnstream.roles.asking import Asking, Provider
from turnstream.roles.breaker import CircuitBreaker
from turnstream.roles.candidate import Candidate, Proposed
from turnstream.roles.deployment import Candidate as Candidacy
from turnstream.roles.failed_attempts import TRANSIENT, Notices
from turnstream.roles.providers import effort_of
from turnstream.roles.shadowing import HeardInput

_TOPIC: Final = "conversation.turns"
_TOOL: Final = "tool:"
"""How the embedded decider's diagnostics name an intent that is a tool."""


@dataclass(slots=True)
class Followed:
    """What came of following some conversations."""

    samples: list[Sample] = field(default_factory=list)
    """In the order of the conversations, then of their turns."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Why customer turns gave no sample, to their number."""


class DeciderBroken(TurnstreamError):
    """A decider failed in a way that does not pass; whoever wrote it must act."""


class _Recorder:
    """Passes a decider's proposals on, and keeps the one that will be judged."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._last: Proposal | None = None

    def taken(self) -> Proposal | None:
        """The last proposal since it was taken before."""
        last, self._last = self._last, None
        return last

    @property
    def name(self) -> str:
        return self._decider.name

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:
        self._last = None
        try:
            reply = self._decider.propose(request)
        except TRANSIENT:
            raise
        except Exception as error:
            raise _broken(error) from error
        if isinstance(reply, Proposal):
            self._last = reply
            return reply
        return self._later(reply)

    async def _later(self, reply: Awaitable[Proposal]) -> Proposal:
        try:
            proposal = await reply
        except TRANSIENT:
            raise
        except Exception as error:
            raise _broken(error) from error
        self._last = proposal
        return proposal


def _broken(error: Exception) -> DeciderBroken:
    """What does not pass by itself, by its type alone: its words may be a customer's."""
    return DeciderBroken(f"the decider failed with {type(error).__name__}: mend it, or its options")


class _Patience:
    """Where a conversation waits for its decider: nothing else is held up by it."""

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Follower:
    """Follows labelled conversations."""

    def __init__(
        self,
        candidacy: Candidacy,
        *,
        decider: str,
        effort: AskingSettings,
        metrics: Metrics,
    ) -> None:
        """Prepare.

        Args:
            candidacy: the catalog and its deciders.
            decider: the name of the one that proposes, for every agent; as it is, without the
                calibration that it may have.
            effort: how hard it is tried for a proposal.
            metrics: where attempts are counted.

        Raises:
            DeploymentError: there is no such decider, or it cannot be made.
        """
        self._decider = candidacy.decider(decider)
        self.catalog = candidacy.loaded.catalog
        self.made_for = MadeFor(
            decider=self._decider.name, decision_version=candidacy.loaded.decision_version
        )
        self._name = decider
        self._ruleset = _holding_nothing_back(candidacy.ruleset)
        self._metrics = metrics
        self._asking = Asking(effort_of(effort), metrics=metrics)
        self._notices = Notices()
        self._breaker = CircuitBreaker(
            failures=effort.decider_breaker_failures,
            cool_down_seconds=effort.decider_breaker_cool_down_seconds,
            now=time.monotonic,
        )

    async def follow(
        self,
        conversations: Sequence[LabelledConversation],
        *,
        at_once: int,
        progress: Callable[[], None] = lambda: None,
    ) -> Followed:
        """Follow conversations to their ends.

        Args:
            conversations: each with its turns in order.
            at_once: how many are under way at the same time.
            progress: called after each.

        Raises:
            DeciderBroken: the decider raised what no decider may.
        """
        waiting = iter(enumerate(conversations))
        ended: dict[int, Followed] = {}

        async def work() -> None:
            for place, conversation in waiting:
                ended[place] = await self._follow(conversation)
                progress()
                # A decider that replies at once would else never let go of the event loop.
                await asyncio.sleep(0)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(at_once):
                    tasks.create_task(work())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        together = Followed()
        for _, one in sorted(ended.items()):
            together.samples += one.samples
            together.left_out += one.left_out
        return together

    async def _follow(self, conversation: LabelledConversation) -> Followed:
        recorder = _Recorder(self._decider)
        candidate = Candidate(
            self._ruleset,
            provider=Provider(self._name, recorder, self._breaker, self._notices),
            asking=self._asking,
            metrics=self._metrics,
        )
        found = Followed()
        mirror = Conversation()
        for place, one in enumerate(conversation.turns):
            heard = _heard(one.turn, place)
            if one.turn.role != "customer":
                # A live side would leave the conversation to whoever wrote it; here they act on.
                after = candidate.folded(conversation.conversation_id, heard, mirror)
                mirror = rested(after, mirror)
                continue
            mirror, proposed = await candidate.stepped(
                conversation.conversation_id,
                heard,
                mirror,
                lane=_Patience(),
                until=candidate.until(),
            )
            label, proposal = one.label, recorder.taken()
            if label is None:
                found.left_out["without a label"] += 1
            elif proposed is None or proposal is None:
                found.left_out["the decider was not asked, or could not be had"] += 1
            else:
                found.samples.append(_sample(one.turn, label, proposed, proposal))
            for live in one.done:
                mirror = follow_person(mirror, live, self._ruleset)
        return found


def _heard(turn: ConversationTurn, place: int) -> HeardInput:
    source = Source(topic=_TOPIC, partition=0, offset=place)
    return HeardInput(source, _TOPIC, place, turn.occurred_at, turn)


def _holding_nothing_back(ruleset: Ruleset) -> Ruleset:
    """The same rules with nothing demanded of confidence and margin.

    A write tool without a threshold never runs by itself, whatever the confidence: it stays so.
    """
    catalog = ruleset.catalog
    tools = {
        name: tool if tool.threshold is None else tool.model_copy(update={"threshold": 0.0})
        for name, tool in catalog.tools.items()
    }
    nothing = Thresholds(near_tie_margin=0.0)
    free: Catalog = catalog.model_copy(update={"tools": tools, "thresholds": nothing})
    return Ruleset(
        catalog=free,
        decision_version=ruleset.decision_version,
        presentation_version=ruleset.presentation_version,
        limits=ruleset.limits,
        checks=ruleset.checks,
    )


def _sample(
    turn: ConversationTurn, label: LiveAction, proposed: Proposed, proposal: Proposal
) -> Sample:
    decision = proposed.decision
    agreement = verdict_of(decision, proposed.calls, live_side(label))
    right: Action = next(one for one in get_args(Action) if one == label.action)
    rivals, apart = _rivals(proposal)
    # A call that the session does not allow is refused whatever the confidence.
    judged = decision.action != "handoff" and decision.action == proposal.action
    return Sample(
        conversation_id=turn.conversation_id,
        turn_id=turn.turn_id,
        right=right,
        right_tool=label.tool,
        action=decision.action,
        tool=decision.tool,
        missing_field=decision.missing_field,
        agrees=agreement == "same",
        judged=judged,
        confidence=proposal.confidence,
        confidence_kind=proposal.confidence_kind,
        probabilities=proposal.probabilities,
        margin=proposal.margin,
        rivals=rivals,
        apart=apart,
        cause=proposed.cause,
    )


def _rivals(proposal: Proposal) -> tuple[tuple[str, str] | None, float | None]:
    """The two best options where both are tools, and how far apart they are."""
    notes = proposal.diagnostics
    probabilities = notes.get("tool_probabilities")
    if isinstance(probabilities, dict):
        known = [(name, one) for name, one in probabilities.items() if isinstance(one, float | int)]
        known.sort(key=lambda one: (-one[1], one[0]))
        if len(known) > 1:
            (first, most), (second, less) = known[:2]
            return (first, second), float(most - less)
        return None, None
    first_intent, second_intent = notes.get("intent"), notes.get("rival")
    if (
        isinstance(first_intent, str)
        and isinstance(second_intent, str)
        and first_intent.startswith(_TOOL)
        and second_intent.startswith(_TOOL)
    ):
        return (
            first_intent.removeprefix(_TOOL),
            second_intent.removeprefix(_TOOL),
        ), proposal.margin
    return None, None
