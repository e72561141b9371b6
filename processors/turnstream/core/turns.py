"""Turns: what a customer, a person of ours or our own bot wrote.

Every customer turn ends in exactly one way: a batch of actions, now; or an outcome that says why
there is none; or a dead letter, with a handoff unless a person has the conversation already.
"""

from dataclasses import replace

from turnstream.core.bounds import acceptable_id, latest
from turnstream.core.contract import HandoffCause
from turnstream.core.controls import taken_over
from turnstream.core.conversation import Backlog, Conversation, OpenQuestion, move
from turnstream.core.decisions import activated, deciding, stopped
from turnstream.core.drafts import following
from turnstream.core.effects import DeadLetter, Input, Step
from turnstream.core.events import ConversationTurn
from turnstream.core.evolution import evolved
from turnstream.core.observation import Heard, is_echo, learn, listen, noted, repetition
from turnstream.core.publications import OutcomeKind, OutcomeOf
from turnstream.core.questions import asked_again, ended, late_reply, outcome, with_yes_or_no
from turnstream.core.ruleset import Ruleset


def turn_taken(state: Conversation, cause: Input, turn: ConversationTurn, ruleset: Ruleset) -> Step:
    """Take a turn of any role."""
    known = repetition(state, turn)
    if known:
        return _repeated(state, cause, turn)
    refusal = _refusal(turn, ruleset, conflict=known is False)
    if refusal is not None:
        return _refused(state, cause, turn, refusal, ruleset)
    if turn.role != "customer":
        return _other_turn(state, cause, turn, ruleset)
    return _customer_turn(state, cause, turn, ruleset)


def turn_flooded(
    state: Conversation, cause: Input, turn: ConversationTurn, ruleset: Ruleset
) -> Step:
    """Take a turn of too many that are queued: a customer's goes to a person undecided."""
    known = repetition(state, turn)
    if turn.role != "customer" or known or _refusal(turn, ruleset, conflict=known is False):
        return turn_taken(state, cause, turn, ruleset)
    state = listen(state, turn, at=cause.now, ruleset=ruleset)
    if state.phase == "held":
        return _left(state, cause, turn, "turn", "held_by_person")
    if state.activation is None:
        state = activated(state, turn.turn_id)
    return stopped(state, cause, "flood", ruleset)


def _repeated(state: Conversation, cause: Input, turn: ConversationTurn) -> Step:
    if turn.role != "customer":
        return Step(state)
    return _left(state, cause, turn, "turn", "duplicate_turn")


def _refusal(turn: ConversationTurn, ruleset: Ruleset, *, conflict: bool) -> DeadLetter | None:
    """Why a turn cannot be taken at all, if so."""
    if conflict:
        return DeadLetter("turn_id_conflict", "a turn of this id has another content")
    if turn.role == "unrecognized":
        return DeadLetter("unrecognized_symbol", "role of a turn")
    if not acceptable_id(turn.turn_id) or not acceptable_id(turn.tenant_id):
        return DeadLetter("invalid_id", "turn_id or tenant_id is too long or not printable")
    if turn.channel_id not in ruleset.catalog.channels:
        return DeadLetter("unknown_channel", "the catalog has no such channel")
    return None


def _refused(
    state: Conversation,
    cause: Input,
    turn: ConversationTurn,
    refusal: DeadLetter,
    ruleset: Ruleset,
) -> Step:
    """A turn that cannot be taken: its record is kept, and a person is told."""
    if state.phase == "held":
        return Step(state, (refusal,))
    if state.activation is None:
        state = activated(state, turn.turn_id)
    if not state.channel_id and acceptable_id(turn.channel_id):
        state = evolved(state, channel_id=turn.channel_id)
    told = stopped(state, cause, "dead_letter", ruleset)
    return Step(told.state, (refusal, *told.effects))


def _other_turn(
    state: Conversation, cause: Input, turn: ConversationTurn, ruleset: Ruleset
) -> Step:
    """A turn that no customer wrote. A person who writes takes the conversation over."""
    echo = is_echo(state, turn, ruleset.limits)
    if state.phase == "closed" and (echo or turn.role != "agent"):
        return Step(state)
    if echo:
        return Step(evolved(state, turn_ids=noted(state, turn, ruleset.limits)))
    state = listen(state, turn, at=cause.now, ruleset=ruleset)
    if turn.role != "agent":
        return Step(state)
    return taken_over(state, cause)


def _customer_turn(
    state: Conversation, cause: Input, turn: ConversationTurn, ruleset: Ruleset
) -> Step:
    """A customer's turn, up to where its words are read."""
    if _is_blank(turn) and state.phase == "closed":
        return _left(state, cause, turn, "turn", "rejected")
    named, question = turn.reply_to_question_id, state.open_question
    state = listen(state, turn, at=cause.now, ruleset=ruleset)
    if state.phase == "held":
        heard = learn(state, turn, ruleset, question=None)
        state = evolved(move(heard.state, "customer_turn"), unanswered=())
        return _left(state, cause, turn, "turn", "held_by_person")
    if named is not None and state.ended_questions.get(named) == "accepted":
        return _left(state, cause, turn, "reply", "duplicate", question_id=named)
    if question is not None and _has_expired(question, cause):
        if _is_blank(turn):
            return _left(state, cause, turn, "turn", "rejected")
        state = evolved(ended(state, "expired"), activation=None)
        question = None
    stale = turn.occurred_at < cause.now - ruleset.limits.max_turn_age_ms
    if question is not None and named is not None and named != question.question_id:
        if not stale:
            # Its words are about another question: nothing in them is a value for this one.
            return _left(state, cause, turn, "reply", "late", question_id=named)
        question = None
    heard = learn(state, turn, ruleset, question=question)
    if stale or heard.overflow:
        why: HandoffCause = "stale_turn" if stale else "state_too_large"
        return stopped(activated(heard.state, turn.turn_id), cause, why, ruleset)
    if question is not None:
        return _while_asked(heard, cause, turn, question, ruleset)
    return _request(heard, cause, turn, ruleset)


def _request(heard: Heard, cause: Input, turn: ConversationTurn, ruleset: Ruleset) -> Step:
    """A turn that finds no question open."""
    state, named = heard.state, turn.reply_to_question_id
    if _is_blank(turn):
        state = evolved(state, unanswered=state.unanswered[:-1])
        return _left(state, cause, turn, "turn", "rejected")
    if state.phase in ("waiting_calls", "waiting_answer"):
        return _buffered(heard, cause, turn)
    if named is not None and state.ending is None:
        state = evolved(state, ending=late_reply(named))
    return deciding(activated(move(state, "customer_turn"), turn.turn_id), cause, ruleset)


def _is_blank(turn: ConversationTurn) -> bool:
    return not turn.attachments and not turn.text.strip()


def _has_expired(question: OpenQuestion, cause: Input) -> bool:
    """Whether a turn came too late for a question whose timer has not been handled yet."""
    return question.expires_at is not None and cause.timestamp >= question.expires_at


def _while_asked(
    heard: Heard,
    cause: Input,
    turn: ConversationTurn,
    question: OpenQuestion,
    ruleset: Ruleset,
) -> Step:
    """A turn while a question is open: its reply, an invalid reply, or something else."""
    state, replied = heard.state, heard.replied
    if len(replied) == 1:
        state = move(ended(state, "accepted"), "customer_turn")
        return deciding(with_yes_or_no(state, question, replied[0]), cause, ruleset)
    addressed = turn.reply_to_question_id == question.question_id
    if not turn.text.strip() or (not replied and (addressed or question.restricted)):
        return _rejected(state, cause, turn, question, ruleset)
    # Several candidates are no reply yet, but they are news: the field may be asked again.
    if not replied and state.activation is not None:
        # Another request of its own: what was said for the one before may be about another subject.
        spoken = max(state.spoken - 1, 0)
        heard_from = evolved(state.activation, heard_from=state.input_no, spoken=spoken)
        state = evolved(state, activation=heard_from)
    return deciding(move(ended(state, "cancelled"), "customer_turn"), cause, ruleset)


def _rejected(
    state: Conversation,
    cause: Input,
    turn: ConversationTurn,
    question: OpenQuestion,
    ruleset: Ruleset,
) -> Step:
    """An invalid reply: the question is put again, a bounded number of times."""
    question = replace(question, rejections=question.rejections + 1)
    if question.rejections > ruleset.limits.max_rejections:
        return stopped(state, cause, "no_progress", ruleset)
    state = evolved(
        move(state, "invalid_reply"),
        open_question=question,
        unanswered=state.unanswered[:-1],
        sequence=following(state, cause),
    )
    said = outcome(state, cause, "reply", "rejected", turn=turn, question_id=question.question_id)
    return Step(state, (said, asked_again(state, cause, question)))


def _buffered(heard: Heard, cause: Input, turn: ConversationTurn) -> Step:
    """A turn while calls or an answer are outstanding waits for them.

    A correction is taken up by the decision that follows the results. Anything else is a request of
    its own and gets its own activation afterwards.
    """
    state = move(heard.state, "customer_turn")
    *earlier, text = state.unanswered
    backlog = state.backlog
    if not heard.corrects:
        backlog = (
            Backlog(turn.turn_id, state.input_no, (text,), max(state.spoken - 1, 0))
            if backlog is None
            else replace(backlog, texts=latest((*backlog.texts, text)))
        )
    state = evolved(state, unanswered=tuple(earlier), backlog=backlog)
    return _left(state, cause, turn, "turn", "buffered", question_id=turn.reply_to_question_id)


def _left(
    state: Conversation,
    cause: Input,
    turn: ConversationTurn,
    of: OutcomeOf,
    kind: OutcomeKind,
    *,
    question_id: str | None = None,
) -> Step:
    """Leave a turn without an action, and say why."""
    said = outcome(state, cause, of, kind, turn=turn, question_id=question_id)
    return Step(state, (said,))
