"""A model that makes broken calls beside sound ones comes to an end as any other does."""

import pytest

from tests.agents import AGENTS, agent_rules, asking, calling, wanting
from tests.unit.core.test_agent_models import BROKEN, LIST, LOOK, called, results, talking
from turnstream.core.ports import Proposal, ProposedCall


def beside(n: int, *broken: ProposedCall) -> Proposal:
    """A reply with a sound call that is always another one, and broken calls."""
    return calling(wanting("find_ticket", {"ticket_id": n}, "sound"), *broken)


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_sound_calls_give_a_broken_one_no_new_tries(retries: int) -> None:
    """The same tool's call is broken in each reply: the last one has nothing of it made."""
    agents = {"shop": {**AGENTS["shop"], "maxRetries": retries}}
    talk = talking("hello", beside(1, BROKEN), rules=agent_rules(agents=agents))
    for n in range(retries):
        assert ["find_ticket"] == [one.tool for one in called(talk)]
        results(talk, beside(n + 2, BROKEN))

    assert "schema_fail" == talk.cause
    assert "list_orders: parse" in talk.action.handoff.summary  # type: ignore[union-attr]
    assert [] == called(talk)
    assert retries + 1 == len(talk.requests)


def test_tries_are_counted_with_and_without_sound_calls_beside_them() -> None:
    """A reply of which nothing can be done counts like one of which something can."""
    talk = talking("hello", beside(1, BROKEN))
    results(talk, calling(BROKEN), beside(2, BROKEN))

    assert "schema_fail" == talk.cause


def test_a_call_that_is_made_well_ends_the_row() -> None:
    """Also where it was not beside the broken ones; others change nothing."""
    talk = talking("hello", beside(1, BROKEN))
    results(talk, beside(2, BROKEN))
    results(talk, calling(LIST, LOOK))
    results(talk, beside(3, BROKEN))
    results(talk, calling(LOOK, wanting("get_store_hours", {}, "h")))

    assert "waiting_calls" == talk.phase
    results(talk, beside(4, BROKEN))
    assert "waiting_calls" == talk.phase
    results(talk, beside(5, BROKEN))
    assert "schema_fail" == talk.cause


def test_a_message_of_the_customer_ends_the_row() -> None:
    """What is said anew may help; the work goes on where it was."""
    talk = talking("hello", beside(1, BROKEN))
    results(talk, beside(2, BROKEN))
    results(talk, asking())
    talk.turn("A-1", beside(3, BROKEN))

    assert "waiting_calls" == talk.phase
    assert 4 == len(talk.requests[-1].loop) + 1


def test_tools_that_do_not_exist_share_their_tries() -> None:
    """A model that makes up another name each time has no more of them."""
    made_up = [wanting(f"made_up_{n}", {}, "m") for n in range(3)]
    talk = talking("hello", beside(1, made_up[0]))
    results(talk, beside(2, made_up[1]))
    results(talk, beside(3, made_up[2]))

    assert "schema_fail" == talk.cause


def test_a_reply_that_makes_nothing_up_ends_the_row() -> None:
    """Made-up tools are counted again from the first one; with one beside it nothing ends."""
    made_up = [wanting(f"made_up_{n}", {}, "m") for n in range(5)]
    talk = talking("hello", beside(1, made_up[0]))
    results(talk, beside(2, made_up[1]))
    results(talk, beside(3))
    for n in (2, 3):
        results(talk, beside(n + 2, made_up[n]))
        assert "waiting_calls" == talk.phase
    results(talk, beside(6, made_up[4]))

    assert "schema_fail" == talk.cause


def test_replies_without_the_tool_do_not_end_its_row() -> None:
    """A model does not get new tries by calling something else in between."""
    talk = talking("hello", beside(1, BROKEN))
    results(talk, beside(2, BROKEN))
    results(talk, beside(3))
    results(talk, beside(4, BROKEN))

    assert "schema_fail" == talk.cause


def test_broken_calls_of_different_tools_are_ended_by_the_steps() -> None:
    """Each has its own tries, but the work on a turn has only so many steps."""
    agents = {"shop": {**AGENTS["shop"], "maxSteps": 6}}
    wrong = [
        BROKEN,
        wanting("find_ticket", {"ticket_id": 0}, "w"),
        wanting("create_refund", {}, "w"),
    ]
    talk = talking(
        "hello",
        calling(wanting("lookup_order", {"order_id": "A-0"}, "s"), wrong[0]),
        rules=agent_rules(agents=agents),
    )
    for n in range(1, 6):
        sound = wanting("lookup_order", {"order_id": f"A-{n}"}, "s")
        results(talk, calling(sound, wrong[n % 3]))
    results(talk)

    assert "max_steps" == talk.cause


def test_what_lacks_in_the_call_that_is_given_up_is_asked_for() -> None:
    """Not what lacks in another one."""
    guess = wanting("get_order", {"order_id": "A-7"}, "guess")
    asked = talking("Where is it?", beside(1, guess))
    results(asked, beside(2, guess))
    results(asked, beside(3, BROKEN, guess))
    other = talking("Where is it?", beside(1, BROKEN))
    results(other, beside(2, BROKEN))
    results(other, beside(3, guess, BROKEN))

    assert "Which order?" == asked.message.text
    assert "schema_fail" == other.cause
