"""What a shadow publishes: its proposals, and how each compares with what was done."""

from collections.abc import Callable, Sequence

from turnstream.core.compare import ComparedCall, arguments_equal, live_side, verdict_of
from turnstream.core.contract import Decision
from turnstream.core.events import LiveAction, Source, Versions
from turnstream.core.identity import shadow_id
from turnstream.core.publications import ActionEvent, ShadowComparison, ShadowProposal
from turnstream.metrics import Metrics
from turnstream.roles.candidate import Proposed
from turnstream.roles.publishing import Publisher
from turnstream.stream import Publication, Record


class ShadowEvents:
    """Makes the publications of one candidate."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        candidate: str,
        metrics: Metrics,
        now_ms: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            publisher: encodes events.
            candidate: what the shadow's configuration is called.
            metrics: where verdicts are counted.
            now_ms: the wall clock.
        """
        self._publisher = publisher
        self._candidate = candidate
        self._metrics = metrics
        self._now_ms = now_ms

    def proposal(
        self,
        record: Record,
        source: Source,
        proposed: Proposed,
        *,
        turn_id: str | None,
        live: Sequence[ActionEvent] = (),
    ) -> list[Publication]:
        """A proposal, and its comparison where the live action is known.

        Args:
            record: the input that brought the two together.
            source: the input that the proposal is about.
            proposed: what the candidate would have done.
            turn_id: the customer turn that it is about.
            live: the actions of the live decision, where they are known.
        """
        conversation_id = record.key.decode()
        event_id = shadow_id(conversation_id, source, "proposal")
        event = ShadowProposal(
            proposal_id=event_id,
            candidate=self._candidate,
            conversation_id=conversation_id,
            source=source,
            turn_id=turn_id,
            decision=proposed.decision,
            arguments_json=proposed.arguments_json,
            handoff_cause=proposed.cause,
            versions=proposed.versions,
            diagnostics_json=proposed.diagnostics_json,
            decided_at=self._now_ms(),
        )
        publications = [
            self._publisher.publication(event, key=record.key, event_id=event_id, record=record)
        ]
        if live:
            publications.append(
                self.comparison(
                    record,
                    source,
                    live=live,
                    proposed=proposed.decision,
                    calls=proposed.calls,
                    versions=proposed.versions,
                )
            )
        return publications

    def comparison(
        self,
        record: Record,
        source: Source,
        *,
        live: Sequence[ActionEvent] | LiveAction,
        proposed: Decision,
        calls: Sequence[ComparedCall],
        versions: Versions,
    ) -> Publication:
        """How a proposal compares with what was done.

        Args:
            record: the input that brought the two together.
            source: the input that both are about.
            live: what was done: the actions of one decision, or what somebody else did.
            proposed: what the candidate would have done.
            calls: its calls.
            versions: what it was proposed with.
        """
        done = live_side(live)
        first = live if isinstance(live, LiveAction) else live[0]
        verdict = verdict_of(proposed, calls, done)
        self._metrics.compared(verdict)
        conversation_id = record.key.decode()
        event_id = shadow_id(conversation_id, source, "comparison")
        event = ShadowComparison(
            comparison_id=event_id,
            candidate=self._candidate,
            conversation_id=conversation_id,
            source=source,
            turn_id=first.turn_id,
            proposed=proposed,
            live_action=done.action,  # type: ignore[arg-type]
            live_tool=done.tool,
            live_missing_field=done.missing_field,
            live_id=first.live_action_id if isinstance(first, LiveAction) else first.action_id,
            arguments_equal=arguments_equal(calls, done.calls),
            verdict=verdict,
            versions=versions,
            compared_at=self._now_ms(),
        )
        return self._publisher.publication(event, key=record.key, event_id=event_id, record=record)
