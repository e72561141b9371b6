"""The embedded decider: no key, no network, the same reply to the same request.

It reads what the customer wrote and nothing else (:mod:`turnstream.models.intent`). Who is
entitled to what, which values are known, and whether a step may be taken at all is worked out by
code before and after it. The order of its rules:

1. A result that has just come in is presented, or handed off; one that a correction has overtaken
   is ignored and its call is wanted again with the new value.
2. A request that a question was asked for goes on, unless the customer now clearly wants
   something else.
3. A value without a clear request (*and A-1002?*) continues the customer's last request, or is
   looked up.
4. Otherwise the best intent: a refusal, a tool (or the question for what it lacks), an approved
   answer, a person. A near tie is not decided.

A tool that writes is proposed only if the message names what it does, or the message that opened
the pending request did (:mod:`turnstream.models.naming`).
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.contract import ACTIONS, Action, HandoffCause, ReasonCode, reason_for
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal, ToolFact
from turnstream.models.intent import Intents
from turnstream.models.ranking import NOTHING, Intent, Ranking
from turnstream.models.results import answers_of_results, providers

VERSION: Final = "1"
"""Rises when the same catalog and request may lead to another proposal."""

BY_WORDS: Final = "calibrated probability of the best intent"
BY_RESULT: Final = "certain: follows from a result"
"""What the confidence of a proposal means."""

_CLEARLY_OTHER: Final = 0.85
"""Probability from which another wish replaces the pending one. Below, *A-1001, the one for my
desk* would leave the request that its question belonged to."""

_PENDING_FLOOR: Final = 0.5
"""Confidence in a request whose question was answered, when its words are no longer remembered."""

_CONTINUED: Final = 0.8
"""Part of a request's confidence that remains when only a new value follows it."""

_BY_VALUE: Final = 0.6
"""Confidence in the look-up that takes a value, when nothing was said about the value."""

_REMEMBERED: Final = 4
"""Customer messages that are searched for the request that a value belongs to. More would cost
time on every short message and revive requests that were settled long ago."""


class CatalogRules:
    """Proposes steps by scoring the catalog's descriptions and examples."""

    def __init__(self, catalog: Catalog, decision_version: str) -> None:
        """Prepare everything that depends on the catalog alone.

        Args:
            catalog: the loaded catalog.
            decision_version: its content hash, part of this decider's name.
        """
        self._name = f"catalog_rules-{VERSION}@{decision_version}"
        self._catalog = catalog
        self._intents = Intents(catalog)
        self._near_tie = catalog.thresholds.near_tie_margin
        self._providers = providers(catalog)
        self._answers = answers_of_results(catalog)

    @property
    def name(self) -> str:
        """Name and version."""
        return self._name

    def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step. Never raises, never waits."""
        if request.fault is not None:
            # The same request would get the same reply again.
            return self._handoff("schema_fail", 1.0, BY_RESULT)
        if not request.latest.strip() and request.facts:
            return self._after_result(request)
        offered = frozenset([option.name for option in request.tools])
        ranking = self._intents.rank(request.latest, offered, request.known)
        pending = self._pending(request, offered)
        if pending is not None and not self._replaces(ranking, pending, request, offered):
            confidence = self._confidence_in(pending, ranking, request, offered)
            return self._towards(pending, request, ranking, confidence)
        if ranking.valued and pending is None and not ranking.doubtful:
            of_value = self._of_value(request, ranking, offered)
            if of_value is not None:
                return of_value
        return self._afresh(ranking, request)

    # --- results ------------------------------------------------------------------------------

    def _after_result(self, request: DecisionRequest) -> Proposal:
        fact = request.facts[-1]
        if any(one.outcome == "outcome_unknown" for one in request.facts):
            return self._handoff("outcome_unknown", 1.0, BY_RESULT)
        if fact.superseded:
            return self._towards(self._intents.of_tool.get(fact.tool, NOTHING), request, None, 1.0)
        if fact.outcome != "done":
            return self._after_failure(fact)
        onward = self._onward(fact, request)
        if onward is not None:
            return onward
        answer = self._answers.get(fact.tool)
        if answer is None:
            return self._handoff(None, 1.0, BY_RESULT)
        return self._answer(answer, 1.0, BY_RESULT)

    def _after_failure(self, fact: ToolFact) -> Proposal:
        tool = self._catalog.tools.get(fact.tool)
        rule = None if tool is None else tool.errors.get(fact.error_code or "")
        if rule is None:
            return self._handoff("tool_unavailable", 1.0, BY_RESULT)
        if rule.answer is None:
            return self._handoff(None, 1.0, BY_RESULT)
        return self._answer(rule.answer, 1.0, BY_RESULT)

    def _onward(self, fact: ToolFact, request: DecisionRequest) -> Proposal | None:
        """Go on to the tool that the result was fetched for, if the customer wanted that one."""
        served = [name for name, tools in self._providers.items() if fact.tool in tools]
        offered = frozenset([option.name for option in request.tools])
        done = {one.tool for one in request.facts if one.outcome == "done" and not one.superseded}
        for text in _customer_texts(request) if served else ():
            ranking = self._intents.rank(text, offered)
            wanted = ranking.intent
            if wanted.kind == "tool" and wanted.name in served and wanted.name not in done:
                return self._towards(wanted, request, ranking, ranking.confidence)
        return None

    # --- pending requests ---------------------------------------------------------------------

    def _pending(self, request: DecisionRequest, offered: frozenset[str]) -> Intent | None:
        name = request.open_intent
        if name is None:
            return None
        if name in offered:
            return self._intents.of_tool.get(name)
        return self._intents.of_answer.get(name)

    def _replaces(
        self, ranking: Ranking, pending: Intent, request: DecisionRequest, offered: frozenset[str]
    ) -> bool:
        """Whether the customer now asks in so many words for something else than is pending."""
        if ranking.taken_back:
            return ranking.doubtful and pending.writes
        if ranking.intent in (pending, NOTHING):
            return False
        intent, confidence = self._intents.beside(
            request.latest,
            pending,
            offered,
            valued=any(one in pending.fields for one in ranking.fields),
        )
        # With and without what speaks for the pending request; else it is a story beside a value.
        return intent is ranking.intent and confidence >= _CLEARLY_OTHER

    def _confidence_in(
        self, pending: Intent, ranking: Ranking, request: DecisionRequest, offered: frozenset[str]
    ) -> float:
        """How clearly it was asked for: a reply makes no doubtful wish a certain one.

        A write that no message names was not asked for at all.
        """
        if not pending.writes:
            return max(_PENDING_FLOOR, ranking.of(pending))
        texts = [request.latest, *_customer_texts(request)[:_REMEMBERED]]
        naming = [text for text in texts if self._intents.names(text, pending)]
        return max(
            [max(_PENDING_FLOOR, self._intents.rank(text, offered).of(pending)) for text in naming],
            default=0.0,
        )

    def _of_value(
        self, request: DecisionRequest, ranking: Ranking, offered: frozenset[str]
    ) -> Proposal | None:
        """What to do with a value when the words beside it ask for nothing clear."""
        wanted = ranking.intent
        if wanted.writes and ranking.outright:
            return None
        bare = not ranking.content
        if not bare and not ranking.unnamed and not wanted.writes and wanted.kind != "none":
            return None
        earlier = self._continued(request, ranking, offered)
        if earlier is not None:
            return earlier
        if not bare:
            return None
        lookups = self._intents.looked_up_by(ranking.valued, offered)
        if len(lookups) != 1:
            return None
        return self._towards(lookups[0], request, ranking, _BY_VALUE)

    def _continued(
        self, request: DecisionRequest, ranking: Ranking, offered: frozenset[str]
    ) -> Proposal | None:
        """Go on with the customer's last request, when it takes the new value."""
        for text in _customer_texts(request)[:_REMEMBERED]:
            earlier = self._intents.rank(text, offered)
            wanted = earlier.intent
            if wanted.kind == "none" or text in request.latest:
                continue
            if wanted.kind != "tool" or earlier.doubtful:
                return None
            if not any(field in wanted.fields for field in ranking.valued):
                return None
            if wanted.writes:
                # It is over. Doing it again, to something else, takes another request.
                return self._handoff("below_threshold", _CONTINUED, BY_WORDS, ranking, request)
            return self._towards(wanted, request, earlier, _CONTINUED * earlier.confidence)
        return None

    # --- new requests -------------------------------------------------------------------------

    def _afresh(self, ranking: Ranking, request: DecisionRequest) -> Proposal:
        if ranking.doubtful or ranking.unnamed:
            return self._handoff(
                "below_threshold", 1.0 - ranking.confidence, BY_WORDS, ranking, request
            )
        if ranking.intent.kind == "person":
            return self._handoff("user_request", ranking.confidence, BY_WORDS, ranking, request)
        if ranking.margin < self._near_tie:
            return self._handoff("near_tie", ranking.confidence, BY_WORDS, ranking, request)
        return self._towards(ranking.intent, request, ranking, ranking.confidence)

    def _towards(
        self,
        intent: Intent,
        request: DecisionRequest,
        ranking: Ranking | None,
        confidence: float,
    ) -> Proposal:
        """The next step towards what the customer wants."""
        match intent.kind:
            case "tool":
                return self._towards_tool(intent.name, request, ranking, confidence)
            case "answer":
                return self._answer(intent.name, confidence, BY_WORDS, ranking, request)
            case "rule":
                return self._proposal(
                    "refuse",
                    "policy_block",
                    confidence,
                    BY_WORDS,
                    ranking=ranking,
                    request=request,
                    rule=intent.name,
                )
            case "person":
                return self._handoff("user_request", confidence, BY_WORDS, ranking, request)
            case "none":
                return self._handoff(None, confidence, BY_WORDS, ranking, request)

    def _towards_tool(
        self, name: str, request: DecisionRequest, ranking: Ranking | None, confidence: float
    ) -> Proposal:
        options = {option.name: option for option in request.tools}
        option = options.get(name)
        needed = name
        if option is not None and option.blocked:
            # Only another tool's result can help, and only once.
            called = {fact.tool for fact in request.facts}
            provider = next(
                (
                    one
                    for one in self._providers.get(name, ())
                    if one in options and one not in called and not options[one].blocked
                ),
                None,
            )
            option = options[provider] if provider is not None else None
            needed = provider or name
        if option is None:
            return self._handoff("tool_unavailable", confidence, BY_WORDS, ranking, request)
        if confidence == 0.0:
            return self._handoff("below_threshold", 1.0, BY_WORDS, ranking, request)
        lacking = (*option.missing, *option.ambiguous)
        if lacking:
            return self._proposal(
                "ask",
                "missing_input",
                confidence,
                BY_WORDS,
                ranking=ranking,
                request=request,
                missing_field=lacking[0],
                needed_for=needed,
            )
        return self._proposal(
            "call_tool",
            "lookup_required",
            confidence,
            BY_WORDS,
            ranking=ranking,
            request=request,
            tool=needed,
        )

    # --- proposals ----------------------------------------------------------------------------

    def _answer(
        self,
        answer_id: str,
        confidence: float,
        kind: str,
        ranking: Ranking | None = None,
        request: DecisionRequest | None = None,
    ) -> Proposal:
        return self._proposal(
            "answer",
            "context_sufficient",
            confidence,
            kind,
            ranking=ranking,
            request=request,
            answer_id=answer_id,
        )

    def _handoff(
        self,
        cause: HandoffCause | None,
        confidence: float,
        kind: str,
        ranking: Ranking | None = None,
        request: DecisionRequest | None = None,
    ) -> Proposal:
        reason: ReasonCode = reason_for(cause) if cause is not None else "unsupported"
        return self._proposal(
            "handoff",
            reason,
            confidence,
            kind,
            ranking=ranking,
            request=request,
            handoff_cause=cause,
        )

    def _proposal(
        self,
        action: Action,
        reason: ReasonCode,
        confidence: float,
        kind: str,
        *,
        ranking: Ranking | None,
        request: DecisionRequest | None,
        tool: str | None = None,
        missing_field: str | None = None,
        needed_for: str | None = None,
        answer_id: str | None = None,
        rule: str | None = None,
        handoff_cause: HandoffCause | None = None,
    ) -> Proposal:
        margin: float | None = None
        diagnostics: Mapping[str, JsonValue] = {}
        if ranking is None or request is None:
            probabilities = dict.fromkeys(ACTIONS, 0.0)
            probabilities[action] = 1.0
        else:
            probabilities = self._intents.by_action(ranking, request.tools)
            rival = ranking.intents[ranking.second]
            diagnostics = {
                "intent": f"{ranking.intent.kind}:{ranking.intent.name}",
                "rival": f"{rival.kind}:{rival.name}",
            }
            # A pending or continued request was not chosen by this distance.
            if confidence == ranking.confidence:
                margin = ranking.margin
        return Proposal(
            action=action,
            tool=tool,
            missing_field=missing_field,
            reason_code=reason,
            model=self._name,
            confidence=confidence,
            confidence_kind=kind,
            probabilities=probabilities,
            margin=margin,
            answer_id=answer_id,
            rule=rule,
            handoff_cause=handoff_cause,
            needed_for=needed_for,
            diagnostics=diagnostics,
        )


def _customer_texts(request: DecisionRequest) -> list[str]:
    """What the customer wrote, newest first."""
    return [one.text for one in reversed(request.messages) if one.role == "customer"]
