"""The embedded decider: no key, no network, the same reply to the same request.

It reads what the customer wrote and nothing else (:mod:`turnstream.models.intent`). Who is
entitled to what, which values are known, and whether a step may be taken at all is worked out by
code before and after it. The order of its rules:

1. A result that has just come in is presented, or handed off; one that a correction has overtaken
   is ignored and its call is wanted again with the new value.
2. A request that a question was asked for goes on, unless the customer now clearly wants
   something else.
3. A value without a request (*and A-1002?*) continues the customer's last request.
4. Otherwise the best intent: a refusal, a tool (or the question for what it lacks), an approved
   answer, a person. A near tie is not decided.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.contract import ACTIONS, Action, HandoffCause, ReasonCode, reason_for
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal, ToolFact
from turnstream.models.intent import NOTHING, Intent, Intents, Ranking

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
        self._providers = _providers(catalog)
        self._answers = _answers_of_results(catalog)

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
        if ranking.intent.kind == "none" and ranking.fields and not ranking.content:
            continued = self._continued(request, ranking, offered)
            if continued is not None:
                return continued
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
        """Whether the customer now clearly wants something else than what is pending."""
        if ranking.doubtful:
            return ranking.content
        intent, confidence = ranking.intent, ranking.confidence
        if request.answered_field in ranking.fields and not ranking.taken_back:
            intent, confidence = self._intents.beside(request.latest, pending, offered)
        return intent.kind != "none" and intent != pending and confidence >= _CLEARLY_OTHER

    def _confidence_in(
        self, pending: Intent, ranking: Ranking, request: DecisionRequest, offered: frozenset[str]
    ) -> float:
        """How clearly it was asked for: a reply makes no doubtful wish a certain one."""
        confidence = max(_PENDING_FLOOR, ranking.of(pending))
        if pending.writes:
            for text in _customer_texts(request)[:_REMEMBERED]:
                confidence = max(confidence, self._intents.rank(text, offered).of(pending))
        return confidence

    def _continued(
        self, request: DecisionRequest, ranking: Ranking, offered: frozenset[str]
    ) -> Proposal | None:
        for text in _customer_texts(request)[:_REMEMBERED]:
            earlier = self._intents.rank(text, offered)
            wanted = earlier.intent
            if wanted.kind == "none" or text == request.latest:
                continue
            if wanted.kind != "tool" or earlier.doubtful:
                return None
            if not any(field in wanted.fields for field in ranking.fields):
                return None
            return self._towards(wanted, request, earlier, _CONTINUED * earlier.confidence)
        return None

    # --- new requests -------------------------------------------------------------------------

    def _afresh(self, ranking: Ranking, request: DecisionRequest) -> Proposal:
        if ranking.doubtful:
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
            probabilities = _by_action(ranking, request)
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


def _by_action(ranking: Ranking, request: DecisionRequest) -> dict[Action, float]:
    """The probability of each action: of all the intents that it would serve."""
    found = dict.fromkeys(ACTIONS, 0.0)
    steps: dict[str, Action] = {
        option.name: "handoff"
        if option.blocked
        else "ask"
        if option.missing or option.ambiguous
        else "call_tool"
        for option in request.tools
    }
    for intent, probability in zip(ranking.intents, ranking.probabilities, strict=True):
        if probability:
            action = _ACTION_OF.get(intent.kind) or steps.get(intent.name, "handoff")
            found[action] += probability
    return found


_ACTION_OF: Final[Mapping[str, Action]] = {
    "answer": "answer",
    "rule": "refuse",
    "person": "handoff",
    "none": "handoff",
}
"""Action of each kind of intent but `tool`, whose action depends on what is known."""


def _customer_texts(request: DecisionRequest) -> list[str]:
    """What the customer wrote, newest first."""
    return [one.text for one in reversed(request.messages) if one.role == "customer"]


def _providers(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Tool to the tools whose results can provide one of its arguments."""
    found: dict[str, tuple[str, ...]] = {}
    for name, tool in catalog.tools.items():
        providers = [
            source.from_result.split(".", 1)[0]
            for source in tool.arguments.values()
            if source.from_result is not None and "tool_result" in source.provenance
        ]
        if providers:
            found[name] = tuple(dict.fromkeys(providers))
    return found


def _answers_of_results(catalog: Catalog) -> dict[str, str]:
    """Tool to the approved answer that presents its result."""
    found = {name: tool.answer for name, tool in catalog.tools.items() if tool.answer is not None}
    for name, answer in catalog.answers.items():
        if answer.of_tool is not None:
            found.setdefault(answer.of_tool, name)
    return found
