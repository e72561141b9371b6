"""Tests of turnstream.core.results and turnstream.core.facts."""

from dataclasses import replace

import pytest

from tests.catalogs import RULES, with_limits
from tests.driving import Driver, answer, call, refuse
from turnstream.core.publications import OutboundMessage


def calling(text: str = "Where is A-1?", tool: str = "get_order", **changes: object) -> Driver:
    """A conversation that waits for a call."""
    talk = Driver(**changes)  # type: ignore[arg-type]
    talk.turn(text, call(tool))
    return talk


def refunding() -> Driver:
    """A conversation that waits for a write."""
    talk = calling()
    talk.result({"total": 20}, call("refund"))
    return talk


def test_a_failed_attempt_is_recorded_before_its_retry() -> None:
    """The state knows of the failure; nothing is published and nothing ends."""
    talk = calling()
    talk.failure("down", final=False)
    talk.failure("down", final=False)

    assert 2 == talk.conversation.outstanding[0].failures
    assert "waiting_calls" == talk.phase
    assert () == talk.last


def test_an_outage_is_handed_off() -> None:
    """After its retries a failure without an approved answer brings a person in."""
    talk = calling()
    talk.failure("down")

    assert "tool_unavailable" == talk.cause
    assert "outages" == talk.action.handoff.queue  # type: ignore[union-attr]
    assert "failed" == talk.action.handoff.calls[0].outcome  # type: ignore[union-attr]


def test_a_business_error_has_an_answer() -> None:
    """An error that the catalog explains goes to the decider."""
    talk = calling()
    talk.failure("unknown_order", answer("no_order"))

    assert {"order_id": "A-1", "error": "unknown_order"} == talk.action.answer.values  # type: ignore[union-attr]


def test_a_business_error_has_no_other_answer() -> None:
    """The answer that presents a result is not given for a failure."""
    talk = calling()
    talk.failure("unknown_order", answer("order_status"), answer("order_status"))

    assert "contradiction" == talk.cause


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"ok": False, "outcome": "failed"}, "tool_unavailable"),
        ({"ok": False, "outcome": "done"}, "tool_unavailable"),
        ({"outcome": "denied"}, "tool_unavailable"),
        ({"outcome": "outcome_unknown"}, "outcome_unknown"),
        ({"outcome": "unrecognized"}, "tool_unavailable"),
        ({"result_json": "[1]"}, "tool_unavailable"),
        ({"result_json": "{broken"}, "tool_unavailable"),
        ({"result_json": '{"total": NaN}'}, "tool_unavailable"),
        ({"result_json": '{"total": [{"a": 1e999}]}'}, "tool_unavailable"),
        ({"result_json": '{"a": "%s"}' % ("x" * 65_536)}, "state_too_large"),
    ],
)
def test_results_that_code_alone_judges(changes: dict[str, object], cause: str) -> None:
    """No decider is asked about a result that cannot be used."""
    talk = calling()
    talk.result(None, **changes)

    assert cause == talk.cause


def test_an_unknown_word_about_a_write_is_an_unknown_outcome() -> None:
    """A newer executor's outcome of a write is not taken for a failure."""
    talk = refunding()
    talk.result(None, outcome="unrecognized")

    assert "outcome_unknown" == talk.cause


def test_a_write_that_was_done_stays_done() -> None:
    """Also when its result does not fit, the person is told that it was done."""
    talk = refunding()
    talk.result(None, result_json='{"a": "%s"}' % ("x" * 65_536))

    assert "state_too_large" == talk.cause
    assert ["done", "done"] == [one.outcome for one in talk.action.handoff.calls]  # type: ignore[union-attr]


def test_a_result_without_a_body() -> None:
    """A call that is done may have nothing to say."""
    talk = refunding()
    talk.result(None, answer("refunded"), result_json=None)

    assert {} == talk.action.answer.values  # type: ignore[union-attr]


def test_results_of_nobody_change_nothing() -> None:
    """A result that is not waited for is passed over."""
    talk = calling()
    talk.result(None, action_id="other")
    assert "waiting_calls" == talk.phase

    talk.result(None, answer("order_status"))
    ordered = talk.actions[0].action_id
    talk.result(None, action_id=ordered)
    assert () == talk.last
    talk.answered(action_id="other")
    assert "waiting_answer" == talk.phase


def test_a_late_result_updates_the_handoff() -> None:
    """After the deadline the person still learns what became of the call; the customer does not."""
    talk = calling()
    talk.timer("call_deadline")
    talk.result(None)

    assert "done" == talk.action.handoff.calls[0].outcome  # type: ignore[union-attr]
    assert talk.cause is None
    assert [] == talk.of(OutboundMessage)
    assert "held" == talk.phase


def test_a_late_failure_updates_the_handoff() -> None:
    """The update says what went wrong."""
    talk = calling()
    talk.control("take_over")
    talk.failure("down")

    assert "tool_unavailable" == talk.cause


def test_a_late_answer_enters_the_history() -> None:
    """The customer has read it, so the person must see it."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.control("take_over")
    talk.answered()

    assert "We open at nine." == talk.conversation.history[-1].text
    assert "held" == talk.phase
    assert () == talk.conversation.outstanding


def test_an_answer_that_could_not_be_composed() -> None:
    """A person answers instead."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.answered(text=None, failure="model down")

    assert "tool_unavailable" == talk.cause


def test_our_answers_are_recognised_when_they_come_back() -> None:
    """An agent's turn with the text of our answer is an echo."""
    talk = Driver()
    talk.turn("hello", answer())
    talk.answered()
    talk.turn("We open at nine.", role="agent")

    assert "idle" == talk.phase


def test_calls_of_one_batch_are_waited_for() -> None:
    """One decision follows when all results are in."""
    talk = calling()
    one = talk.conversation.outstanding[0]
    other = replace(one, action_id="other")
    talk.state = replace(talk.conversation, outstanding=(one, other))
    talk.result()
    assert "waiting_calls" == talk.phase
    assert () == talk.last

    talk.result(None, answer("order_status"))
    assert 2 == len(talk.requests[-1].facts)


def test_the_same_call_again_is_no_progress() -> None:
    """A call's own result is no reason to make it again."""
    talk = calling()
    talk.result(None, call())

    assert "no_progress" == talk.cause


def test_another_result_is_a_reason() -> None:
    """After another call's result the first may be made again."""
    talk = calling("Where is A-1? What are the fees?")
    talk.result(None, call("search_help"))
    talk.result(None, call())

    assert "call_tool" == talk.action.decision.action


def test_a_value_corrected_back_is_a_reason() -> None:
    """A superseded result has not told anything about its call."""
    talk = calling()
    talk.turn("no, A-2")
    talk.turn("no, A-1")
    talk.result(None, call())

    assert '{"order_id":"A-1"}' == talk.action.call.arguments_json  # type: ignore[union-attr]


def test_steps_are_a_budget() -> None:
    """When the activation's steps are used up, a person takes over."""
    talk = calling("Where is A-1? What are the fees?")
    talk.result(None, call("search_help"))
    talk.result(None, call())
    talk.result(None, call("search_help"))
    assert 4 == talk.action.step
    talk.result()

    assert "max_steps" == talk.cause


def test_facts_of_finished_work_make_room() -> None:
    """Old results are forgotten by number and by size; those of the present work are not."""
    talk = Driver(with_limits(remembered_facts=1))
    for text in ("Where is A-1?", "Where is A-2?"):
        talk.turn(text, call())
        talk.result(None, answer("order_status"))
        talk.answered()
    assert [{"order_id": "A-2"}] == [dict(one.fields) for one in talk.conversation.facts]


def test_results_that_do_not_fit_together() -> None:
    """Results of one activation that outgrow the record are an explicit error."""
    talk = Driver()
    talk.turn("Where is A-1? What are the fees?", call())
    talk.result({"status": "x" * 30_000}, call("search_help"))
    talk.result({"text": "y" * 30_000})

    assert "state_too_large" == talk.cause
    assert sum(one.size for one in talk.conversation.facts) <= RULES.limits.facts_bytes


def test_a_fact_that_alone_does_not_fit() -> None:
    """Where even the work's other results leave no room, the newest stays without its body."""
    talk = Driver(with_limits(facts_bytes=1500))
    talk.turn("Where is A-1? What are the fees?", call())
    talk.result({"status": "x" * 1000}, call("search_help"))
    talk.result({"text": "y" * 1000})

    assert ["result_too_large"] == [one.error_code for one in talk.conversation.facts]


def test_a_tool_that_is_gone() -> None:
    """The result of a tool that the catalog has lost is judged without its rules."""
    talk = calling()
    tools = dict(RULES.catalog.tools)
    del tools["get_order"]
    talk.rules = replace(
        RULES, catalog=RULES.catalog.model_copy(update={"tools": tools, "answers": {}})
    )
    talk.failure("unknown_order")

    assert "tool_unavailable" == talk.cause


def test_a_gone_tool_may_still_be_refused() -> None:
    """A done result of a tool that is gone leads to a decision."""
    talk = calling()
    tools = dict(RULES.catalog.tools)
    del tools["get_order"]
    talk.rules = replace(
        RULES, catalog=RULES.catalog.model_copy(update={"tools": tools, "answers": {}})
    )
    talk.result(None, refuse())

    assert "idle" == talk.phase
