"""Tests of turnstream.core.arguments: where values come from, and which one counts."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from tests.catalogs import DEFINITION, RULES, ruleset
from tests.driving import CLAIMS, Driver, answer, ask, call, hand_off
from turnstream.core.arguments import fill, options, typed
from turnstream.core.events import SessionClaims
from turnstream.core.ports import ToolOption
from turnstream.core.ruleset import Ruleset


def arguments(talk: Driver) -> str:
    """The arguments of the last call."""
    assert talk.action.call is not None
    return talk.action.call.arguments_json


def test_every_source_is_named() -> None:
    """Each argument of a call says where its value came from."""
    talk = Driver()
    talk.turn("Refund A-1, 2 copies", call())
    talk.result({"total": 20.5}, call("refund"))

    assert '{"order_id":"A-1","customer":"c1","total":20.5}' == arguments(talk)
    expected = {"order_id": "message", "customer": "session", "total": "tool_result"}
    assert expected == talk.action.call.provenance  # type: ignore[union-attr]
    assert {"order_id": "A-1"} == talk.conversation.outstanding[0].fields


def test_a_selected_record_is_not_asked_for() -> None:
    """What the record knows is used."""
    talk = Driver()
    talk.turn("Where is it?", call(), record={"order_id": "A-9", "topic": "x", "colour": "red"})

    assert {"order_id": "record"} == talk.action.call.provenance  # type: ignore[union-attr]
    assert ["order_id"] == list(talk.conversation.values)


def test_record_and_message_that_agree() -> None:
    """The record counts."""
    talk = Driver()
    talk.turn("Where is A-9?", call(), record={"order_id": "A-9"})

    assert {"order_id": "record"} == talk.action.call.provenance  # type: ignore[union-attr]


def test_record_and_message_that_differ_are_settled_by_asking() -> None:
    """The reply wins over the record that stays selected, also on later turns."""
    talk = Driver()
    selected = {"order_id": "A-9"}
    talk.turn("Where is A-1?", ask(), record=selected)
    assert ("order_id",) == talk.requests[-1].tools[0].ambiguous
    assert {} == talk.requests[-1].known
    assert ["A-9", "A-1"] == [one.value for one in talk.message.suggestions]

    talk.turn("A-1", call(), record=selected)
    assert '{"order_id":"A-1"}' == arguments(talk)
    talk.result(None, answer("order_status"))
    talk.answered()

    talk.turn("Where is it now?", call(), record=selected)
    assert '{"order_id":"A-1"}' == arguments(talk)


def test_another_record_counts_again() -> None:
    """A record that is selected after the customer's words replaces them."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))
    talk.answered()
    talk.turn("And this one?", call(), record={"order_id": "A-9"})
    assert '{"order_id":"A-9"}' == arguments(talk)
    assert {"order_id": "A-9"} == talk.requests[-1].known
    talk.result(None, answer("order_status"))
    talk.answered()

    talk.turn("No, A-1", ask(), record={"order_id": "A-9"})
    assert ("order_id",) == talk.requests[-1].tools[0].ambiguous


def test_the_session_always_wins() -> None:
    """Words about a field that the session knows supersede nothing."""
    tools = {**DEFINITION["tools"]}
    tools["get_order"] = {
        **tools["get_order"],
        "arguments": {"order_id": {"provenance": ["session", "message"]}},
    }
    talk = Driver(ruleset(tools=tools))
    claims = CLAIMS.model_copy(update={"values": {"order_id": "A-5"}})
    talk.turn("Where is A-1?", call(), claims=claims)
    assert '{"order_id":"A-5"}' == arguments(talk)
    talk.turn("I mean A-2", claims=claims)

    assert not talk.conversation.outstanding[0].superseded
    assert {} == talk.conversation.outstanding[0].fields


def test_a_value_of_an_older_subject_needs_confirmation() -> None:
    """The same number said again may be used again."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result(None, answer("order_status"))
    talk.answered()
    talk.turn("When do you open?", answer("hours"))
    talk.answered()
    talk.turn("And my order?", ask())
    talk.turn("A-1", call())

    assert '{"order_id":"A-1"}' == arguments(talk)


def test_results_are_used_for_their_subject() -> None:
    """A result of earlier work about the same subject may provide an argument, another may not."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result({"total": 7}, answer("order_status"))
    talk.answered()
    talk.turn("Then refund A-1", call("refund"))
    assert '"total":7' in arguments(talk)
    talk.result(None, answer("refunded"))
    talk.answered()

    talk.turn("When do you open?", answer("hours"))
    talk.answered()
    talk.turn("Refund A-1", hand_off())
    assert ("total",) == talk.requests[-1].tools[2].blocked


@pytest.mark.parametrize("total", [True, None, [1], "x" * 2001])
def test_results_that_provide_nothing(total: JsonValue) -> None:
    """Only texts and numbers of a bounded length are values."""
    talk = Driver()
    talk.turn("Refund A-1", call())
    talk.result({"total": total}, call("refund"))

    assert "tool_unavailable" == talk.cause


def test_a_more_trusted_result_comes_before_words() -> None:
    """The catalog's order decides between a result and a message."""
    tools = {**DEFINITION["tools"]}
    refund = tools["refund"]
    sources = {**refund["arguments"]}
    sources["copies"] = {"provenance": ["tool_result", "message"], "from_result": "get_order.n"}
    tools["refund"] = {**refund, "arguments": sources}
    for body, expected in (({"total": 1, "n": 5}, '"copies":5'), ({"total": 1}, '"copies":2')):
        talk = Driver(ruleset(tools=tools))
        talk.turn("Refund A-1", ask("copies", "refund"))
        talk.turn("2", call())
        talk.result(body, call("refund"))
        assert expected in arguments(talk)


def test_a_withdrawn_result_provides_nothing() -> None:
    """What was got for one customer is not used for another."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.result({"total": 7}, answer("order_status"))
    talk.answered()
    other = SessionClaims(
        subject_id="c2", permissions=("refunds:write",), values={"customer": "c2"}
    )
    talk.turn("Refund it", call("refund"), claims=other)

    assert "tool_unavailable" == talk.cause


def test_options_and_fill_agree() -> None:
    """What a decider is told of a tool is what the policy will find."""
    talk = Driver()
    talk.turn("Refund A-1 or A-2", hand_off())
    state = talk.conversation
    for option in options(state, RULES):
        filled = fill(option.name, state, RULES)
        expected = ToolOption(option.name, filled.missing, filled.ambiguous, filled.blocked)
        assert expected == option


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        ("order_id", "00123", "00123"),
        ("copies", "3", 3),
        ("copies", "-3", -3),
        ("copies", "3.5", "3.5"),
        ("copies", "٣", "٣"),
        ("copies", "1_0", "1_0"),
        ("copies", "9" * 5000, "9" * 5000),
        ("copies", "three", "three"),
        ("total", "3", 3),
        ("total", "3.50", 3.5),
        ("total", "1e999", "1e999"),
        ("total", "1.2.3", "1.2.3"),
        ("total", "nan", "nan"),
        ("total", "", ""),
        ("receipt", "true", True),
        ("receipt", "false", False),
        ("receipt", "yes", "yes"),
    ],
)
def test_texts_become_what_the_schema_wants_without_loss(
    argument: str, text: str, value: JsonValue
) -> None:
    """A change that would lose something is not made; the schema then refuses the text."""
    plan = next(one for one in RULES.plans["refund"] if one.name == argument)
    found = typed(text, plan)

    assert (type(value), value) == (type(found), found)


def test_arguments_without_a_source_are_left_out() -> None:
    """A property that the catalog gives no source for, and one without a type, are no trouble."""
    tools: Mapping[str, object] = {
        "odd": {
            **DEFINITION["tools"]["search_help"],
            "input_schema": {
                "type": "object",
                "properties": {
                    "a": True,
                    "b": {"type": ["string", "null"]},
                    "c": {"type": "string"},
                },
            },
            "arguments": {"a": {"provenance": ["message"]}, "b": {"provenance": ["message"]}},
        },
        "bare": {**DEFINITION["tools"]["search_help"], "input_schema": {}, "arguments": {}},
    }
    answers: dict[str, object] = {}
    rules: Ruleset = ruleset(tools=tools, answers=answers)

    assert ["a", "b"] == [plan.name for plan in rules.plans["odd"]]
    assert () == rules.plans["bare"]
    assert "x" == typed("x", rules.plans["odd"][0])
