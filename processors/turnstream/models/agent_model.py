"""An agent model behind the decider's port: it writes texts and calls, code decides about both.

One proposal is one request to one model. The reply is read as it is and never mended:

=====================  =============================================================================
text alone             an answer, or the final answer's JSON where the agent declares a schema
calls of tools         `call_tool` with all of them; a text beside them is not shown to anybody
one control call       ask, refuse, hand off, or an approved answer
anything mixed         proposed as it came, for the core to tell the model what contradicts what
cut off, unreadable    nothing of it is done; the model is told why, within the core's bounds
reasoning in the text  left out before the rest is read; see `reasoning_text`
refused by a filter    a person, cause `safety`
=====================  =============================================================================

Tools are given natively or, to models without, described in the prompt (ReAct). Both ways lead to
the same proposals, under the same bounds, and both start from the same prompt.

Numbers that a model writes about its own certainty mean nothing, so none is asked for: what it
proposes is unscored, and what thresholds then mean is said by `thresholds.unscored`.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog
from pydantic import JsonValue

from turnstream.config.connectors import Price
from turnstream.core.contract import Action, HandoffCause, ReasonCode, reason_for
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal, ProposedCall
from turnstream.models import react
from turnstream.models.agent_prompt import Style, instructions
from turnstream.models.agent_turns import Turns, hash_of, laid_out
from turnstream.models.control_tools import (
    ANSWER,
    ASK,
    CONTROLS,
    REFUSE,
    cause_of,
    control_tools,
    named,
    offered,
)
from turnstream.models.kept_replies import Origin, dropped, kept, remembered, with_own_ids
from turnstream.models.reply_reading import WHY_UNUSABLE, taken_apart
from turnstream.models.tool_forms import form_of
from turnstream.models.transport import (
    ModelCall,
    ModelReply,
    Prompt,
    ToolsRefused,
    Transport,
    Unreadable,
    Usage,
    Wire,
)

log = structlog.get_logger(__name__)

VERSION: Final = "2"
"""Rises when the same catalog, request and reply may lead to another proposal."""

NO_CONFIDENCE: Final = "none: the model gives no probability"

_NAME_CHARACTERS: Final = 100
"""Longest name of a model that is kept; providers give their own."""

_UNUSABLE: Final = "unusable"
"""An action that there is none of: the core has nothing done and the model told."""

_MOST_TOKENS: Final = 2**53
"""Of a reply. A count of hundreds of digits ends the sum of its cost with an OverflowError, and no
JSON of diagnostics holds it."""

_REASONS: Final[Mapping[Action, ReasonCode]] = {
    "answer": "context_sufficient",
    "call_tool": "lookup_required",
    "ask": "missing_input",
    "refuse": "policy_block",
    "handoff": "unsupported",
}


class AgentModel:
    """Proposes what an agent model replies."""

    def __init__(
        self,
        transport: Transport,
        *,
        catalog: Catalog,
        decision_version: str,
        wire: Wire,
        native_tools: bool,
        may_fall_back: bool = False,
        price: Price | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare everything that depends on the catalog alone; nothing is connected to.

        Args:
            transport: takes prompts to the model.
            catalog: the loaded catalog.
            decision_version: its content hash, part of this decider's name.
            wire: how the provider's tools are written.
            native_tools: whether tools are given as such, where an agent does not say otherwise.
            may_fall_back: whether a model that says that it takes no tools is asked in ReAct.
            price: what it costs; by default what the transport knows.
            clock: a clock that never goes back, in seconds.

        Raises:
            DefinitionError: a tool cannot be shown to the model without loss.
        """
        self._transport = transport
        self._catalog = catalog
        self._native_tools = native_tools
        self._may_fall_back = may_fall_back
        self._price = price
        self._clock = clock
        self._refused_tools = False
        self._controls = control_tools(catalog)
        self._name = f"agent-{VERSION}:{transport.form}:{transport.model}@{decision_version}"
        self._form = f"{transport.form} {transport.model} {transport.place}"
        styles = {self._style(agent) for agent in catalog.agents} or {self._style("")}
        tools = {**catalog.tools, **self._controls}
        self._forms = (
            {name: form_of(name, tool, wire) for name, tool in tools.items()}
            if "native" in styles
            else {}
        )
        written = "react" in styles or may_fall_back
        self._texts = (
            {name: react.described({name: tool}) for name, tool in tools.items()} if written else {}
        )

    @property
    def name(self) -> str:
        """Name and version: provider, wire, model, catalog."""
        return self._name

    async def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step.

        Raises:
            DeciderRefused: the provider does not take our requests.
            DeciderUnavailable: there is no reply, or none that can be read.
        """
        try:
            return await self._proposed(request)
        except Unreadable as error:
            error.diagnostics = self._spent(error.usage)
            raise

    async def _proposed(self, request: DecisionRequest) -> Proposal:
        begun = self._clock()
        style = self._style(request.agent)
        try:
            reply, origin = await self._ask(request, style)
        except ToolsRefused as refusal:
            if style != "native" or not self._may_fall_back:
                raise
            if not self._refused_tools:
                # For the life of the process: the model will not learn it.
                log.warning(
                    "model takes no tools: asked in ReAct from now on",
                    decider=self._name,
                    problem=refusal.problem,
                )
            self._refused_tools = True
            style = "react"
            reply, origin = await self._ask(request, style)
            reply = replace(reply, requests=reply.requests + 1)
        return self._read(reply, request, style, origin, seconds=self._clock() - begun)

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    # --- asking -----------------------------------------------------------------------------------

    def _style(self, agent: str) -> Style:
        defined = self._catalog.agents.get(agent)
        own = defined.extra.native_tools if defined is not None else None
        native = self._native_tools if own is None else own
        return "native" if native and not self._refused_tools else "react"

    async def _ask(self, request: DecisionRequest, style: Style) -> tuple[ModelReply, Origin]:
        shown = self._shown(request)
        system = instructions(
            request.agent,
            self._catalog,
            style=style,
            tools="\n\n".join(self._texts[name] for name in shown) if style == "react" else None,
            controls=offered(self._controls, request),
        )
        tools = [self._forms[name] for name in shown] if style == "native" else []

        def hashed(turns: Turns) -> str:
            return hash_of(system, tools, turns)

        earlier = [remembered(turn, form=self._form, style=style) for turn in request.loop]
        laid = laid_out(request, earlier, style=style, hashed=hashed)
        reply = await self._transport.reply(Prompt(system, laid.turns), tools)
        return reply, laid.origin

    def _shown(self, request: DecisionRequest) -> list[str]:
        """The tools of a request, ours last."""
        names = [one.name for one in request.tools if one.name in self._catalog.tools]
        return [*names, *offered(self._controls, request)]

    # --- reading ----------------------------------------------------------------------------------

    def _read(
        self,
        reply: ModelReply,
        request: DecisionRequest,
        style: Style,
        origin: Origin,
        *,
        seconds: float,
    ) -> Proposal:
        taken = taken_apart(reply, style)
        calls = with_own_ids(
            taken.calls,
            taken=(one.call_id for turn in request.loop for one in turn.envelopes),
        )
        form = self._form
        notes = self._notes(reply, style, seconds=seconds, calls=len(calls))
        if reply.finish == "refused":
            return self._proposal("handoff", notes, None, cause="safety")
        if taken.fault is not None and (reply.finish in WHY_UNUSABLE or not reply.text.strip()):
            stored = dropped(taken.fault, form=form, style=style)
        else:
            stored = kept(reply, calls, form=form, style=style, origin=origin, note=taken.fault)
        if taken.fault is not None:
            return self._proposal(_UNUSABLE, {**notes, "unusable": taken.fault}, stored)
        if not calls:
            return self._answered(taken.text, request, notes, stored)
        steps = [
            (raw, own)
            for raw, own in zip(taken.calls, calls, strict=True)
            if raw.tool in CONTROLS and raw.tool in self._controls
        ]
        if not steps:
            return self._proposal("call_tool", notes, stored, calls=calls)
        return self._controlled(steps, calls, notes, stored)

    def _answered(
        self,
        text: str,
        request: DecisionRequest,
        notes: Mapping[str, JsonValue],
        stored: JsonValue,
    ) -> Proposal:
        agent = self._catalog.agents.get(request.agent)
        if agent is not None and agent.final_answer is not None:
            return self._proposal("answer", notes, stored, output=text)
        return self._proposal("answer", notes, stored, text=text)

    def _controlled(
        self,
        steps: list[tuple[ModelCall, ProposedCall]],
        calls: tuple[ProposedCall, ...],
        notes: Mapping[str, JsonValue],
        stored: JsonValue,
    ) -> Proposal:
        """The step of a control call; beside other calls, a contradiction for the core to name."""
        raw, own = next(((one, call) for one, call in steps if one.tool == ASK), steps[0])
        rest = calls if len(calls) > 1 else ()
        if raw.tool == ASK:
            return self._proposal(
                "ask",
                notes,
                stored,
                calls=rest or (own,),
                missing_field=named(raw, "field"),
                needed_for=named(raw, "needed_for"),
            )
        if raw.tool == REFUSE:
            rule = named(raw, "rule") or ""
            return self._proposal("refuse", notes, stored, calls=rest, rule=rule)
        if raw.tool == ANSWER:
            answer_id = named(raw, "answer_id") or ""
            return self._proposal("answer", notes, stored, calls=rest, answer_id=answer_id)
        cause = cause_of(named(raw, "cause"))
        return self._proposal("handoff", notes, stored, calls=rest, cause=cause)

    def _notes(
        self, reply: ModelReply, style: Style, *, seconds: float, calls: int
    ) -> dict[str, JsonValue]:
        notes: dict[str, JsonValue] = {
            "style": style,
            "provider_model": reply.model[:_NAME_CHARACTERS] if reply.model.isprintable() else "",
            "latency_ms": round(seconds * 1000),
            "calls": calls,
            "requests": reply.requests,
            **reply.notes,
            **self._spent(reply.usage),
        }
        if calls and reply.text.strip():
            notes["text_beside_calls"] = True
        return notes

    def _spent(self, usage: Usage) -> dict[str, JsonValue]:
        notes: dict[str, JsonValue] = {}
        if not _makes_sense(usage):
            return notes
        if usage.input_tokens is not None:
            notes["input_tokens"] = usage.input_tokens
        if usage.output_tokens is not None:
            notes["output_tokens"] = usage.output_tokens
        if self._price is not None and usage.input_tokens is not None:
            spent = usage.input_tokens * self._price.input_per_million
            spent += (usage.output_tokens or 0) * self._price.output_per_million
            notes |= {"cost": round(spent / 1_000_000, 9), "currency": self._price.currency}
        elif self._price is None and usage.cost is not None:
            notes |= {"cost": usage.cost, "currency": "USD"}
        return notes

    def _proposal(
        self,
        action: str,
        notes: Mapping[str, JsonValue],
        reply: JsonValue,
        *,
        calls: tuple[ProposedCall, ...] = (),
        text: str | None = None,
        output: JsonValue = None,
        missing_field: str | None = None,
        needed_for: str | None = None,
        rule: str | None = None,
        answer_id: str | None = None,
        cause: HandoffCause | None = None,
    ) -> Proposal:
        reason = reason_for(cause) if cause is not None else _reason(action)
        return Proposal(
            action=action,
            tool=None,
            missing_field=missing_field,
            reason_code=reason,
            model=self._name,
            confidence=0.0,
            confidence_kind=NO_CONFIDENCE,
            scored=False,
            unscored_kind=True,
            answer_id=answer_id,
            text=text,
            rule=rule,
            handoff_cause=cause,
            needed_for=needed_for,
            calls=calls,
            reply=reply,
            output=output,
            diagnostics=notes,
        )


def _makes_sense(usage: Usage) -> bool:
    """Whether it can be added up; of what a provider miscounts nothing is half-believed."""
    counts = (usage.input_tokens or 0, usage.output_tokens or 0)
    return all(0 <= one <= _MOST_TOKENS for one in counts) and 0 <= (usage.cost or 0) < math.inf


def _reason(action: str) -> ReasonCode:
    return next((reason for known, reason in _REASONS.items() if known == action), "uncertain")
