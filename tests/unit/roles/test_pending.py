"""The count of open questions, per partition that this process owns."""

from tests.unit.roles.bench import NOW
from turnstream.core.conversation import Conversation, OpenQuestion
from turnstream.metrics import Pending
from turnstream.roles.pending import PendingQuestions

TURNS = "staging.turns"


def asking(asked_at: int) -> Conversation:
    """A conversation with an open question."""
    question = OpenQuestion(
        question_id="q",
        field="order_id",
        needed_for="get_order",
        text="Which order?",
        locale="en",
        suggestions=(),
        restricted=False,
        asked_at=asked_at,
        expires_at=None,
    )
    return Conversation(phase="waiting_reply", open_question=question)


def test_open_questions_are_counted_by_conversation() -> None:
    """Noting the same one again counts it once; only its own end takes it away."""
    pending = PendingQuestions(topic=TURNS)
    pending.note(1, b"a", asking(NOW + 5))
    pending.note(1, b"a", asking(NOW + 5))
    pending.note(1, b"b", asking(NOW))
    pending.note(0, b"c", Conversation())

    assert [Pending(TURNS, 0, 0, None), Pending(TURNS, 1, 2, NOW)] == pending.report()

    pending.note(1, b"b", Conversation())
    pending.note(1, b"x", None)

    assert [Pending(TURNS, 0, 0, None), Pending(TURNS, 1, 1, NOW + 5)] == pending.report()

    pending.note(1, b"a", None)

    assert [Pending(TURNS, 0, 0, None), Pending(TURNS, 1, 0, None)] == pending.report()


def test_a_partition_that_is_given_up_leaves_nothing() -> None:
    """And starts from what is noted when it comes back."""
    pending = PendingQuestions(topic=TURNS)
    pending.note(1, b"a", asking(NOW))
    pending.forget(1)
    pending.forget(2)

    assert [] == pending.report()

    pending.note(1, b"b", asking(NOW + 1))

    assert [Pending(TURNS, 1, 1, NOW + 1)] == pending.report()
