"""A conversation as it really went, kept by someone who does not act in it.

A shadow steps its own copy of each conversation to see what it would do. Afterwards the copy must
follow the live side, not the shadow: :func:`follow` enters what was really done, :func:`rested`
takes back a decision that the live side did not take.
"""

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnstream.core.calls import call_fingerprint
from turnstream.core.conversation import (
    Activation,
    Conversation,
    OpenQuestion,
    Outstanding,
    Phase,
    Spoken,
)
from turnstream.core.events import LiveAction
from turnstream.core.evolution import evolved
from turnstream.core.observation import with_message
from turnstream.core.publications import ActionEvent, QuestionPayload
from turnstream.core.rendering import as_text
from turnstream.core.ruleset import Ruleset

_ARGUMENTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])

FOLLOWING: dict[str, Phase] = {
    "answer": "waiting_answer",
    "call_tool": "waiting_calls",
    "ask": "waiting_reply",
    "refuse": "idle",
    "handoff": "held",
}


def rested(after: Conversation, before: Conversation) -> Conversation:
    """The state after an input, without the decision that only the shadow took.

    What was heard stays: history, values, results. Phase, holder, question and calls are the live
    side's business and stay as they were.
    """
    return evolved(
        after,
        phase="idle" if before.phase == "closed" else before.phase,
        holder=before.holder,
        open_question=before.open_question if before.phase == "waiting_reply" else None,
        outstanding=tuple(
            one
            for one in after.outstanding
            if any(one.action_id == known.action_id for known in before.outstanding)
        ),
        ending=None,
        backlog=None,
        timers=(),
    )


def follow(state: Conversation, action: ActionEvent, ruleset: Ruleset) -> Conversation:
    """Enter an action of the live side."""
    phase = FOLLOWING[action.decision.action]
    activation = state.activation
    if activation is not None:
        activation = _spent(evolved(activation, steps=action.step, proposals=0), action)
    state = evolved(
        state,
        phase=phase,
        holder="person" if phase == "held" else "bot",
        activation=None if phase in ("idle", "held") else activation,
        open_question=None,
        ending=None,
        backlog=None,
        unanswered=(),
        sequence=action.sequence,
        timers=(),
        outstanding=_outstanding(state, action, ruleset),
    )
    question = action.question
    if question is not None:
        state = evolved(
            state,
            open_question=OpenQuestion(
                question_id=question.question_id,
                field=question.field,
                needed_for=question.needed_for,
                text=question.text,
                locale=question.locale,
                suggestions=question.suggestions,
                restricted=question.restricted,
                asked_at=action.decided_at,
                expires_at=question.expires_at,
                confirms=question.confirms or _confirmed_tool(question, ruleset),
            ),
        )
    said = action.question or action.refusal or action.handoff
    if said is not None:
        state = _said(state, said.text, action.decided_at, ruleset)
    return state


def follow_person(state: Conversation, live: LiveAction, ruleset: Ruleset) -> Conversation:
    """Enter what a person did: a question of theirs is open until the customer writes again."""
    field = live.missing_field
    if live.action != "ask" or field is None or field not in ruleset.catalog.fields:
        return evolved(state, phase="idle", open_question=None, activation=None, unanswered=())
    needed_for = next(
        (tool for tool, plans in ruleset.plans.items() if any(p.field == field for p in plans)), ""
    )
    question = OpenQuestion(
        question_id=live.live_action_id,
        field=field,
        needed_for=needed_for,
        text="",
        locale=state.locale or ruleset.catalog.default_locale,
        suggestions=(),
        restricted=False,
        asked_at=live.occurred_at,
        expires_at=None,
    )
    return evolved(state, phase="waiting_reply", open_question=question, unanswered=())


def _confirmed_tool(question: QuestionPayload, ruleset: Ruleset) -> str | None:
    """What a yes is for where an older version did not publish the call: its tool."""
    tool = ruleset.catalog.tools.get(question.needed_for)
    return question.needed_for if tool is not None and tool.confirm == question.field else None


def _spent(activation: Activation, action: ActionEvent) -> Activation:
    """Count a question or a call against the activation's budgets, as the live side has."""
    question, call = action.question, action.call
    if question is not None:
        asked = {**activation.asked, question.field: activation.progress}
        return evolved(activation, questions=activation.questions + 1, asked=asked)
    if call is not None:
        try:
            arguments = _ARGUMENTS.validate_json(call.arguments_json)
        except ValidationError:
            return activation
        made = call_fingerprint(call.tool, arguments)
        called = {**activation.called, made: activation.progress}
        confirming = {
            name: yes
            for name, yes in activation.confirming.items()
            if name not in (made, call.tool)
        }
        return evolved(activation, called=called, confirming=confirming)
    return activation


def _outstanding(
    state: Conversation, action: ActionEvent, ruleset: Ruleset
) -> tuple[Outstanding, ...]:
    call = action.call
    if call is not None:
        fields = _fields(call.tool, call.arguments_json, ruleset)
        ordered = Outstanding(
            action_id=action.action_id,
            kind="call",
            name=call.tool,
            fields=fields,
            deadline_at=call.deadline_at,
            write=call.effect == "write",
        )
        return (*state.outstanding, ordered)
    if action.answer is not None:
        ordered = Outstanding(
            action_id=action.action_id,
            kind="answer",
            name=action.answer.answer_id or "",
            fields={},
            deadline_at=action.decided_at,
        )
        return (*state.outstanding, ordered)
    return state.outstanding


def _fields(tool: str, arguments_json: str, ruleset: Ruleset) -> dict[str, str]:
    try:
        arguments = _ARGUMENTS.validate_json(arguments_json)
    except ValidationError:
        return {}
    return {
        plan.field: as_text(arguments[plan.name])
        for plan in ruleset.plans.get(tool, ())
        if plan.name in arguments
    }


def _said(state: Conversation, text: str, at: int, ruleset: Ruleset) -> Conversation:
    message = Spoken("assistant", text, at)
    return evolved(state, **with_message(state, message, ruleset.limits))
