"""Tests of turnstream.core.actions: what an action leaves in the state."""

import pytest

from tests.catalogs import RULES
from tests.driving import Driver, answer
from turnstream.core.actions import enact
from turnstream.core.arguments import Filled
from turnstream.core.calls import call_fingerprint
from turnstream.core.evolution import evolved
from turnstream.core.questions import Offer
from turnstream.core.step import step
from turnstream.core.verdicts import Ask, Batch, Call, Verdict

FILLED = Filled({"order_id": "A-1"}, {"order_id": "message"}, {"order_id": "A-1"}, (), (), ())

CALL = Call("get_order", FILLED, call_fingerprint("get_order", FILLED.arguments))
ASK = Ask("order_id", "get_order", Offer("Which order?", "en", ()))


@pytest.mark.parametrize(
    ("verdict", "asked", "called", "questions"),
    [
        (CALL, set(), {CALL.fingerprint}, 0),
        (Batch((CALL,), ()), set(), {CALL.fingerprint}, 0),
        (ASK, {"order_id"}, set(), 1),
    ],
)
def test_actions_count_against_the_work_they_belong_to(
    verdict: Verdict, asked: set[str], called: set[str], questions: int
) -> None:
    """And where no work is open there is nothing to count against; as much is published."""
    talk = Driver()
    talk.turn("Where is A-1?", answer())
    cause = talk.log[0]
    deciding = step(None, cause, RULES).state

    opened = enact(verdict, deciding, cause, RULES, None)
    none = enact(verdict, evolved(deciding, activation=None), cause, RULES, None)

    assert opened.state.activation is not None
    assert (asked, called, questions) == (
        set(opened.state.activation.asked),
        set(opened.state.activation.called),
        opened.state.activation.questions,
    )
    assert none.state.activation is None
    assert len(opened.effects) == len(none.effects)
