"""Results of calls, and answers: what an activation waits for."""

from dataclasses import replace

from turnstream.core.conversation import (
    Activation,
    Conversation,
    Outstanding,
    Spoken,
    move,
)
from turnstream.core.decisions import deciding, enacted, stopped
from turnstream.core.effects import Input, Step
from turnstream.core.events import Answer, ToolResult
from turnstream.core.evolution import evolved
from turnstream.core.facts import fact_of, stopping_cause, with_fact, without_result
from turnstream.core.identity import text_hash
from turnstream.core.loop import with_result
from turnstream.core.observation import with_message
from turnstream.core.ruleset import Ruleset
from turnstream.core.verdicts import HandOff, handed_off


def result_taken(state: Conversation, cause: Input, result: ToolResult, ruleset: Ruleset) -> Step:
    """Take the result of a call, or the report of a failed attempt that will be repeated."""
    ordered = _outstanding(state, result.action_id, "call")
    if ordered is None:
        return Step(state)
    if not result.final:
        failing = replace(ordered, failures=ordered.failures + 1)
        outstanding = tuple(failing if one is ordered else one for one in state.outstanding)
        return Step(evolved(state, outstanding=outstanding))
    state = _come_back(state, ordered)
    fact = fact_of(result, ordered, state, ruleset)
    activation = state.activation
    opened = activation.opened_at_input if activation is not None else state.input_no
    facts = with_fact(state.facts, fact, opened=opened, limits=ruleset.limits)
    state = evolved(
        state,
        facts=facts,
        activation=_progressed(activation, ordered) if activation is not None else None,
        updated_at=cause.now,
    )
    state = _told(state, ruleset)
    facts = state.facts
    if state.phase == "held":
        why = stopping_cause(facts[-1:], ruleset)
        verdict = handed_off(why) if why is not None else HandOff(None, "unsupported")
        return enacted(move(state, "late_result"), cause, verdict, ruleset, silent=True)
    if state.phase != "waiting_calls" or any(one.kind == "call" for one in state.outstanding):
        return Step(state)
    # All calls are back. What code alone can judge is judged before any model is asked.
    state = move(state, "results_complete")
    why = stopping_cause((one for one in facts if one.at_input >= opened), ruleset)
    if why is not None:
        return enacted(state, cause, handed_off(why), ruleset)
    return deciding(state, cause, ruleset)


def answer_taken(state: Conversation, cause: Input, answer: Answer, ruleset: Ruleset) -> Step:
    """Take a composed answer, or the news that there is none."""
    ordered = _outstanding(state, answer.action_id, "answer")
    if ordered is None:
        return Step(state)
    state = _come_back(state, ordered)
    if answer.text is not None:
        limits = ruleset.limits
        said = Spoken("assistant", answer.text, answer.occurred_at)
        state = evolved(
            state,
            **with_message(state, said, limits),
            sent=(*state.sent, text_hash(answer.text))[-limits.remembered_messages :],
            updated_at=cause.now,
        )
    if state.phase != "waiting_answer":
        return Step(state)
    if answer.text is None:
        return stopped(state, cause, "tool_unavailable", ruleset)
    state = evolved(move(state, "answer_ready"), activation=None)
    waiting = state.backlog
    if waiting is None:
        return Step(state)
    state = evolved(
        move(state, "backlog"),
        backlog=None,
        unanswered=waiting.texts,
        activation=Activation(
            waiting.turn_id,
            waiting.at_input,
            state.input_no,
            spoken=waiting.spoken,
        ),
    )
    return deciding(state, cause, ruleset)


def _outstanding(state: Conversation, wanted: str, kind: str) -> Outstanding | None:
    for one in state.outstanding:
        if one.action_id == wanted and one.kind == kind:
            return one
    return None


def _come_back(state: Conversation, ordered: Outstanding) -> Conversation:
    """Nothing is waited for any more from this call or answer."""
    deadline = f"{ordered.kind}_deadline/{ordered.action_id}"
    return evolved(
        state,
        outstanding=tuple(one for one in state.outstanding if one is not ordered),
        timers=tuple(one for one in state.timers if one.timer_id != deadline),
    )


def _told(state: Conversation, ruleset: Ruleset) -> Conversation:
    """Enter the latest result into what an agent model is told; one that is too long is no use."""
    *earlier, fact = state.facts
    tool = ruleset.catalog.tools.get(fact.tool)
    rule = tool.errors.get(fact.error_code or "") if tool is not None else None
    told = with_result(state, fact, meaning=rule.description if rule is not None else None)
    if told is not None:
        return told
    bare = without_result(fact)
    state = evolved(state, facts=(*earlier, bare))
    return with_result(state, bare) or state


def _progressed(activation: Activation, ordered: Outstanding) -> Activation:
    """A result is progress for everything but the very call that gave it."""
    progress = activation.progress + 1
    called = activation.called
    if ordered.fingerprint in called and not ordered.superseded:
        called = {**called, ordered.fingerprint: progress}
    return evolved(activation, progress=progress, called=called)
