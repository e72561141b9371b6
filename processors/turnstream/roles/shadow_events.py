"""What a shadow publishes: its proposals, and how each compares with what was done."""

from collections.abc import Callable

from turnstream.core.compare import arguments_equal, live_side, verdict_of
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
        live: ActionEvent | None = None,
    ) -> list[Publication]:
        """A proposal, and its comparison where the live action is known.

        Args:
            record: the input that brought the two together.
            source: the input that the proposal is about.
            proposed: what the candidate would have done.
            turn_id: the customer turn that it is about.
            live: what was done.
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
        if live is not None:
            publications.append(
                self.comparison(
                    record,
                    source,
                    live=live,
                    proposed=proposed.decision,
                    arguments_json=proposed.arguments_json,
                    versions=proposed.versions,
                )
            )
        return publications

    def comparison(
        self,
        record: Record,
        source: Source,
        *,
        live: ActionEvent | LiveAction,
        proposed: Decision,
        arguments_json: str | None,
        versions: Versions,
    ) -> Publication:
        """How a proposal compares with what was done.

        Args:
            record: the input that brought the two together.
            source: the input that both are about.
            live: what was done.
            proposed: what the candidate would have done.
            arguments_json: the arguments of its call, as a JSON object.
            versions: what it was proposed with.
        """
        action, tool, missing_field, live_arguments = live_side(live)
        verdict = verdict_of(proposed, action, tool, missing_field)
        self._metrics.compared(verdict)
        conversation_id = record.key.decode()
        event_id = shadow_id(conversation_id, source, "comparison")
        event = ShadowComparison(
            comparison_id=event_id,
            candidate=self._candidate,
            conversation_id=conversation_id,
            source=source,
            turn_id=live.turn_id,
            proposed=proposed,
            live_action=action,  # type: ignore[arg-type]
            live_tool=tool,
            live_missing_field=missing_field,
            live_id=live.action_id if isinstance(live, ActionEvent) else live.live_action_id,
            arguments_equal=arguments_equal(arguments_json, live_arguments),
            verdict=verdict,
            versions=versions,
            compared_at=self._now_ms(),
        )
        return self._publisher.publication(event, key=record.key, event_id=event_id, record=record)
