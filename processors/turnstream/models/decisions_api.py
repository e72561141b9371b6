"""A decision model: it chooses the step, then the tool or the answer; code does all the rest.

The kind of step comes first. Only where it is *tool* a second question chooses the tool; where it
is *ask*, the tool that something is missing for; where it is *answer*, the approved answer. Each of
these may be declined (`(none)`), and then a person takes over. With few tools the first two may be
one question. Answer, ask and cannot are options of every step, however the questions are put.

What becomes of a choice:

===========  =======================================================================================
answer       the approved answer that is chosen, among those that may be given now
tool         `call_tool`; code fills the arguments from the conversation, or another model writes
             them where `arguments_by` names one
ask          the question for the first field that the chosen tool lacks
cannot       `refuse` where the customer's words match a rule of the catalog, else `handoff`
===========  =======================================================================================

A tool that is chosen although code knows that something is missing for it is proposed as it was
chosen and blocked by the core, which asks again and says why. Chosen once more, the customer is
asked for what is missing.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.config.decisions import DecisionsSettings
from turnstream.core.contract import HandoffCause, ReasonCode, reason_for
from turnstream.core.definitions import Catalog
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import (
    Decider,
    DeciderUnavailable,
    DecisionRequest,
    Proposal,
    ToolOption,
)
from turnstream.models.decision_state import state_of
from turnstream.models.decision_trail import BY_NOTHING, MERGED, NONE, STEPS, UNLISTED, Trail
from turnstream.models.decision_wire import OPTIONS, DecisionsClient, Question
from turnstream.models.intent import Intents
from turnstream.models.results import answers_of_results, providers

VERSION: Final = "1"
"""Rises when the same settings, catalog and replies may lead to another proposal."""

_OTHER_THAN_WORDING: Final = frozenset(
    {"kind", "base_url", "model", "api_key", "timeout_seconds", "price", "confidence_means"}
)
"""Settings that do not change what is asked, or are named beside it."""


class DecisionModel:
    """Proposes what a model behind a decisions API chooses."""

    def __init__(
        self,
        settings: DecisionsSettings,
        *,
        catalog: Catalog,
        decision_version: str,
        client: DecisionsClient | None = None,
        arguments: Decider | None = None,
        intents: Intents | None = None,
    ) -> None:
        """Prepare everything that depends on the catalog alone; nothing is connected to.

        Args:
            settings: the decider's section.
            catalog: the loaded catalog.
            decision_version: its content hash, part of this decider's name.
            client: made from the settings when not given.
            arguments: writes the arguments of the chosen tool, where the settings name one.
            intents: of the same catalog, which take a moment to be learnt; learnt when not given.

        Raises:
            DefinitionError: the catalog has more tools or answers than a question has options.
        """
        for kind, names in (("tools", catalog.tools), ("answers", catalog.answers)):
            if len(names) + len(STEPS) > OPTIONS:
                raise DefinitionError(
                    f"{len(names)} {kind} are more than a decisions API takes as options: at most "
                    f"{OPTIONS - len(STEPS)}"
                )
        self._settings = settings
        self._catalog = catalog
        self._client = client or DecisionsClient(settings)
        self._arguments = arguments
        self._intents = intents or Intents(catalog)
        self._providers = providers(catalog)
        self._answers = answers_of_results(catalog)
        self._name = f"decisions-{VERSION}:{settings.model}@{decision_version}+{_wording(settings)}"

    @property
    def name(self) -> str:
        """Name and version: the model, the catalog, and how the questions are worded."""
        return self._name

    async def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step.

        Raises:
            DeciderRefused: the service does not take our requests.
            DeciderUnavailable: there is no reply, or none that can be believed.
        """
        characters = self._settings.state_characters
        state = state_of(request, self._catalog, characters=characters)
        trail = Trail(self._client, state)
        try:
            return await self._proposed(request, trail)
        except DeciderUnavailable as error:
            if trail.answered:
                # The questions before the one that failed were paid for.
                error.diagnostics = {**trail.notes(self._settings), **error.diagnostics}
            raise

    async def _proposed(self, request: DecisionRequest, trail: Trail) -> Proposal:
        step, tool = await self._step(request, trail)
        match step:
            case "answer":
                return await self._answer(request, trail)
            case "tool":
                return await self._tool(request, trail, tool)
            case "ask":
                return await self._ask(request, trail)
            case "cannot":
                return self._cannot(request, trail)
            case _:
                return self._proposal(trail, UNLISTED, "unsupported")

    async def close(self) -> None:
        """Release connections, and what the writer of arguments holds."""
        await self._client.close()
        close = getattr(self._arguments, "close", None)
        if close is not None:
            await close()

    # --- the questions --------------------------------------------------------------------------

    async def _step(self, request: DecisionRequest, trail: Trail) -> tuple[str, str | None]:
        """The kind of step, and the tool where both were one question."""
        settings = self._settings
        criteria = {name: str(getattr(settings.criteria, name)) for name in STEPS}
        criteria["cannot"] += self._rules()
        merged = 0 < len(request.tools) <= settings.merge_steps_up_to
        if merged:
            tools = {
                MERGED + name: f"{criteria['tool']}: {text}"
                for name, text in self._described(request.tools).items()
            }
            criteria = {"answer": criteria["answer"], **tools} | {
                name: criteria[name] for name in ("ask", "cannot")
            }
        instructions = settings.instructions
        if request.fault is not None:
            instructions += f" The choice before could not be carried out: {request.fault}"
        choice = await trail.choose(Question("step", instructions, criteria))
        if merged and choice.listed and choice.option.startswith(MERGED):
            return "tool", choice.option.removeprefix(MERGED)
        return (choice.option if choice.listed else UNLISTED), None

    def _rules(self) -> str:
        """What the catalog refuses, as a part of what *cannot* means."""
        rules = [rule.description for rule in self._catalog.rules.values() if rule.examples]
        return f". Forbidden: {' / '.join(rules)}" if rules else ""

    def _described(self, options: Iterable[ToolOption]) -> dict[str, str]:
        tools = self._catalog.tools
        return {
            one.name: tools[one.name].description if one.name in tools else one.name
            for one in options
        }

    async def _answer(self, request: DecisionRequest, trail: Trail) -> Proposal:
        fitting = self._answers_now(request)
        if not fitting:
            return self._handoff(trail, None)
        criteria = {**fitting, NONE: "none of these texts says what the customer needs to know"}
        instructions = "Which approved text must the customer be given?"
        choice = await trail.choose(Question("answer", instructions, criteria))
        if choice.option == NONE:
            return self._handoff(trail, None)
        return self._proposal(trail, "answer", "context_sufficient", answer_id=choice.option)

    def _answers_now(self, request: DecisionRequest) -> dict[str, str]:
        """Approved answers that may be given now, with what they say."""
        given: dict[str, str] = {}
        presented = self._presented(request)
        for name, answer in self._catalog.answers.items():
            if answer.of_tool is None:
                given[name] = answer.description
            elif name in presented:
                given[name] = f"{answer.description} (a result of {answer.of_tool} is there)"
        return given

    def _presented(self, request: DecisionRequest) -> set[str]:
        """Answers that present a result or an error that has come in."""
        found: set[str] = set()
        for fact in request.facts:
            tool = self._catalog.tools.get(fact.tool)
            if tool is None or fact.superseded:
                continue
            errors = {one.answer for one in tool.errors.values()}
            if fact.outcome == "done":
                of_tool = [
                    name
                    for name, answer in self._catalog.answers.items()
                    if answer.of_tool == fact.tool
                    and (name not in errors or name == self._answers.get(fact.tool))
                ]
                found.update(of_tool)
            elif fact.outcome == "failed" and fact.error_code in tool.errors:
                answer_id = tool.errors[fact.error_code].answer
                found.update(() if answer_id is None else (answer_id,))
        return found

    async def _tool(self, request: DecisionRequest, trail: Trail, chosen: str | None) -> Proposal:
        if chosen is None:
            chosen = await self._which(
                "Which tool must be called?", self._described(request.tools), trail
            )
        if chosen is None:
            return self._handoff(trail, None)
        name, option = self._within_reach(chosen, request)
        if request.fault is not None and option is not None and self._arguments is None:
            lacking = (*option.missing, *option.ambiguous)
            if lacking and not option.blocked:
                return self._question(trail, lacking[0], name)
        proposal = self._proposal(trail, "call_tool", "lookup_required", tool=name)
        if self._arguments is None or option is None:
            return proposal
        return await self._with_arguments(proposal, option, request, trail)

    async def _ask(self, request: DecisionRequest, trail: Trail) -> Proposal:
        askable: dict[str, ToolOption] = {}
        for one in request.tools:
            _, within = self._within_reach(one.name, request)
            if within is not None and not within.blocked and (within.missing or within.ambiguous):
                askable[one.name] = within
        if len(askable) > 1:
            described = self._described(one for one in request.tools if one.name in askable)
            name = await self._which("Which tool is something missing for?", described, trail)
            if name is None:
                return self._handoff(trail, None)
        else:
            name = next(iter(askable), None)
        option = askable.get(name or "")
        if option is None:
            # Nothing is missing for the tool that it named, or for any: there is nothing to ask.
            return self._handoff(trail, "contradiction")
        return self._question(trail, (*option.missing, *option.ambiguous)[0], option.name)

    async def _which(self, instructions: str, tools: Mapping[str, str], trail: Trail) -> str | None:
        """The tool that is chosen; None where none fits."""
        if not tools:
            return None
        criteria = {**tools, NONE: "none of these tools serves the customer's request"}
        choice = await trail.choose(Question("tool", instructions, criteria))
        return None if choice.option == NONE else choice.option

    # --- from a choice to a proposal --------------------------------------------------------------

    def _within_reach(self, name: str, request: DecisionRequest) -> tuple[str, ToolOption | None]:
        """The tool, or the one whose result it needs first."""
        options = {one.name: one for one in request.tools}
        option = options.get(name)
        if option is None or not option.blocked:
            return name, option
        called = {fact.tool for fact in request.facts}
        for other in self._providers.get(name, ()):
            if other in options and other not in called and not options[other].blocked:
                return other, options[other]
        return name, option

    def _cannot(self, request: DecisionRequest, trail: Trail) -> Proposal:
        offered = frozenset(one.name for one in request.tools)
        ranking = self._intents.rank(request.latest, offered, request.known)
        wanted = ranking.intent
        if request.latest.strip() and not ranking.doubtful:
            if wanted.kind == "rule":
                notes = {"rule_confidence": round(ranking.confidence, 4)}
                return self._proposal(
                    trail, "refuse", "policy_block", rule=wanted.name, notes=notes
                )
            if wanted.kind == "person":
                return self._handoff(trail, "user_request")
        return self._handoff(trail, None)

    async def _with_arguments(
        self, proposal: Proposal, option: ToolOption, request: DecisionRequest, trail: Trail
    ) -> Proposal:
        """The same call with arguments that another model writes, or what that one says instead."""
        if self._arguments is None:
            return proposal
        reply = self._arguments.propose(replace(request, tools=(option,)))
        written = reply if isinstance(reply, Proposal) else await reply
        notes: dict[str, JsonValue] = {
            **proposal.diagnostics,
            "arguments_by": written.model,
            "arguments": dict(written.diagnostics),
        }
        own = all(call.tool == option.name for call in written.calls)
        if written.action == "call_tool" and written.calls and own:
            return replace(proposal, calls=written.calls, reply=written.reply, diagnostics=notes)
        if written.action == "ask" and written.missing_field is not None:
            asked = self._question(trail, written.missing_field, option.name)
            return replace(asked, calls=written.calls, reply=written.reply, diagnostics=notes)
        # The one model says call, the other something else: a person looks.
        return replace(self._handoff(trail, "contradiction"), diagnostics=notes)

    def _question(self, trail: Trail, missing: str, tool: str) -> Proposal:
        return self._proposal(trail, "ask", "missing_input", missing_field=missing, needed_for=tool)

    def _handoff(self, trail: Trail, cause: HandoffCause | None) -> Proposal:
        reason: ReasonCode = reason_for(cause) if cause is not None else "unsupported"
        return self._proposal(trail, "handoff", reason, handoff_cause=cause)

    def _proposal(
        self,
        trail: Trail,
        action: str,
        reason: ReasonCode,
        *,
        tool: str | None = None,
        missing_field: str | None = None,
        needed_for: str | None = None,
        answer_id: str | None = None,
        rule: str | None = None,
        handoff_cause: HandoffCause | None = None,
        notes: Mapping[str, JsonValue] | None = None,
    ) -> Proposal:
        confidence, kind = trail.confidence(self._settings)
        return Proposal(
            action=action,
            tool=tool,
            missing_field=missing_field,
            reason_code=reason,
            model=self._name,
            confidence=confidence,
            confidence_kind=kind,
            scored=kind != BY_NOTHING,
            probabilities=trail.by_action(refused=rule is not None),
            margin=trail.margin,
            answer_id=answer_id,
            rule=rule,
            handoff_cause=handoff_cause,
            needed_for=needed_for,
            diagnostics={**trail.notes(self._settings), **(notes or {})},
        )


def _wording(settings: DecisionsSettings) -> str:
    """8 hex digits of how the questions are put, which a calibration is made for."""
    told = settings.model_dump(mode="json", exclude=set(_OTHER_THAN_WORDING))
    return hashlib.blake2b(to_json(told), digest_size=4).hexdigest()
