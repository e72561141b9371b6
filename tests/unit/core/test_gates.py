"""Tests of turnstream.core.gates: the argument cases, and where values may come from."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import FIELDS, RULES, STUBS, TOOLS, Arguments, agent_rules, tool, wanting
from tests.driving import CLAIMS, Driver, answer, ask, call
from turnstream.core.arguments import Filled
from turnstream.core.conversation import Conversation, Fact
from turnstream.core.events import ToolOutcome
from turnstream.core.evolution import evolved
from turnstream.core.gates import Rejected, Unentitled, hidden_from_models, passed
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step

NOBODY = Conversation(agent="shop")

ACCEPTED: list[tuple[str, str, Arguments, dict[str, JsonValue]]] = [
    ("A02-1", "get_store_hours", "", {}),
    ("A02-2", "get_store_hours", "  \n", {}),
    ("A02-3", "get_store_hours", None, {}),
    ("A02-4", "get_store_hours", "{}", {}),
    ("A02-5", "get_store_hours", {}, {}),
    ("A04-3", "lookup_order", '{"order_id":"A-1"}\n\n', {"order_id": "A-1"}),
    (
        "A04-4",
        "create_refund",
        '{"order_id":"A-1","amount":5,"note":"}{"}',
        {"order_id": "A-1", "amount": 5, "note": "}{"},
    ),
    ("A08-1", "list_orders", '{"status":"open","after":null}', {"status": "open"}),
    ("A08-2", "list_orders", '{"status":"open"}', {"status": "open"}),
    ("A08-3", "list_orders", '{"status":"open","after":""}', {"status": "open", "after": ""}),
    (
        "A08-4",
        "list_orders",
        '{"status":"open","after":"null"}',
        {"status": "open", "after": "null"},
    ),
    (
        "A08-5",
        "lookup_order",
        '{"order_id":"A-1","expand":null}',
        {"order_id": "A-1", "expand": None},
    ),
    ("A12-4", "list_orders", '{"limit":3.0}', {"limit": 3}),
    ("A12-5", "list_orders", '{"after":"00123"}', {"after": "00123"}),
    (
        "A14",
        "list_orders",
        '{"status":"open","limit":null,"after":null,"tags":null}',
        {"status": "open"},
    ),
    ("A19-5", "lookup_order", {"order_id": "A-1"}, {"order_id": "A-1"}),
    ("A19-code", "find_day", {"code": "A-12"}, {"code": "A-12"}),
    ("A19-day", "find_day", {"day": "2026-01-31"}, {"day": "2026-01-31"}),
    ("object", "find_ticket", {"ticket_id": 7}, {"ticket_id": 7}),
    ("list", "list_orders", {"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
]

BROKEN = [
    '{"status":"op',
    "null",
    "[]",
    '"open"',
    "5",
    "true",
    "{'status':'open'}",
    '{"status":"open",}',
    "status=open",
]

NO_NUMBER = ["NaN", "-Infinity", "1e999"]

REJECTED: list[tuple[str, str, Arguments, str, str]] = [
    *[(f"A01-{n}", "list_orders", raw, "", "parse") for n, raw in enumerate(BROKEN, 1)],
    ("A01-1MB", "list_orders", '{"status":"' + "x" * 1_000_000, "", "parse"),
    ("A02-needs", "lookup_order", "", "/order_id", "required"),
    ("A04-1", "lookup_order", '{"order_id":"A-1"}{"order_id":"A-2"}', "", "parse"),
    ("A04-2", "lookup_order", '{"order_id":"A-1"} Done!', "", "parse"),
    *[
        (f"A06-{n}", "create_refund", f'{{"order_id":"A-1","amount":{raw}}}', "", "parse")
        for n, raw in enumerate(NO_NUMBER, 1)
    ],
    ("A06-4", "create_refund", '{"order_id":"A-1","amount":"NaN"}', "/amount", "type"),
    ("A08-6", "lookup_order", '{"order_id":null}', "/order_id", "type"),
    ("A12-1", "list_orders", '{"limit":"3"}', "/limit", "type"),
    ("A12-2", "list_orders", '{"limit":"3.5"}', "/limit", "type"),
    ("A12-3", "list_orders", '{"limit":true}', "/limit", "type"),
    ("A12-6", "create_refund", {"order_id": "A-1", "amount": 5, "notify": "false"}, "/notify",
     "type"),
    ("A12-7", "create_refund", {"order_id": "A-1", "amount": 5, "notify": 0}, "/notify", "type"),
    ("A12-8", "lookup_order", '{"order_id":1}', "/order_id", "type"),
    ("A19-1", "lookup_order", {"order_id": "A-1\n"}, "/order_id", "pattern"),
    ("A19-2", "lookup_order", {"order_id": "A-١٢"}, "/order_id", "pattern"),
    ("A19-3", "lookup_order", {"order_id": "a-1"}, "/order_id", "pattern"),
    ("A19-4", "lookup_order", {"order_id": "A-1 "}, "/order_id", "pattern"),
    ("A19-code-1", "find_day", {"code": "A-1\n"}, "/code", "pattern"),
    ("A19-code-2", "find_day", {"code": "A-١٢"}, "/code", "pattern"),
    ("A19-day", "find_day", {"day": "not a date"}, "/day", "format"),
    ("missing", "create_refund", {"order_id": "A-1"}, "/amount", "required"),
    ("enum", "list_orders", {"status": "opn"}, "/status", "enum"),
    ("too much", "create_refund", {"order_id": "A-1", "amount": 101}, "/amount", "maximum"),
    ("nested", "list_orders", {"tags": ["a", 1]}, "/tags/1", "type"),
    ("extra", "list_orders", {"SECRET": "x" * 500}, "", "additionalProperties"),
    ("large", "list_orders", {"after": "x" * 9_000}, "", "parse"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in ACCEPTED],
)
def test_arguments_that_pass(
    name: str, arguments: Arguments, expected: dict[str, JsonValue]
) -> None:
    """The tool receives exactly these, of these types, and each has its source."""
    found = passed(wanting(name, arguments), NOBODY, RULES)

    assert isinstance(found, Filled)
    assert expected == found.arguments
    assert repr(expected) == repr(dict(found.arguments))
    assert dict.fromkeys(expected, "model") == found.provenance


@pytest.mark.parametrize(
    ("name", "arguments", "path", "keyword"),
    [pytest.param(*case[1:], id=case[0]) for case in REJECTED],
)
def test_arguments_that_do_not(name: str, arguments: Arguments, path: str, keyword: str) -> None:
    """The model is told path and keyword, within bounds, and may try again."""
    found = passed(wanting(name, arguments), NOBODY, RULES)

    assert isinstance(found, Rejected)
    assert (path, keyword) == (found.fault.path, found.fault.keyword)
    assert "invalid_arguments" == found.fault.code
    assert found.fault.retryable
    assert len(found.fault.message) <= 300
    assert "schema_fail" == found.cause
    assert found.lacking is None


@pytest.mark.parametrize(
    "name",
    [
        "lookup_orders",
        "functions.create_refund",
        "default_api:create_refund",
        "create_refund<|channel|>commentary",
        "Create_Refund",
        "create_refund ",
        "create_refund\u200b",
        "",
        "x" * 10_000,
    ],
)
def test_names_that_do_not_exist(name: str) -> None:
    """A10: no near match is called; the fault lists what is allowed and not what was asked for."""
    found = passed(wanting(name, {"order_id": "A-1", "amount": 5}), NOBODY, RULES)

    assert isinstance(found, Rejected)
    assert "unknown_tool" == found.fault.code
    assert f"unknown tool; allowed: {', '.join([*STUBS, 'search_help'])}" == found.fault.message
    assert found.fault.retryable


# --- where values come from ---------------------------------------------------------------------


def heard(*texts: str, rules: Ruleset = RULES, **changes: Any) -> Conversation:
    """A conversation in which the customer has just written the last text; others were answered."""
    talk = Driver(rules)
    *earlier, last = texts
    for text in earlier:
        talk.turn(text, answer())
        talk.answered()
    talk.turn(last, answer(), **changes)
    cause = talk.log[-2]
    before = Driver(rules)
    for one in talk.log[:-2]:
        before.state = step(before.state, one, rules).state
    return step(before.state, cause, rules).state


def judged(
    name: str, arguments: Arguments, state: Conversation, rules: Ruleset = RULES
) -> Filled | str:
    """What passed, or path and keyword and the field that lacks."""
    found = passed(wanting(name, arguments), state, rules)
    if isinstance(found, Filled):
        return found
    assert isinstance(found, Rejected)
    return f"{found.fault.path} {found.fault.keyword} {found.lacking}"


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("Where is A-1?", "A-1", ("A-1", "message")),
        ("where is a-1", "A-1", ("A-1", "message")),
        ("Where is A-12?", "A-1", "/order_id provenance order_id"),
        ("Where is A-1 or A-2?", "A-1", "/order_id provenance order_id"),
        ("Where is it?", "A-7", "/order_id provenance order_id"),
        ("Where is it?", None, "/order_id type order_id"),
    ],
)
def test_a_value_is_what_the_customer_said(text: str, given: str | None, expected: object) -> None:
    """One that nobody named, or that was one of several, passes no gate."""
    found = judged("get_order", {"order_id": given}, heard(text))

    if isinstance(found, Filled):
        assert expected == (found.arguments["order_id"], found.provenance["order_id"])
        assert {"order_id": "A-1"} == found.fields
    else:
        assert expected == found


def test_the_selected_record_is_a_source() -> None:
    """What the customer had selected need not be written."""
    found = judged("get_order", {"order_id": "A-3"}, heard("Where?", record={"order_id": "A-3"}))

    assert isinstance(found, Filled)
    assert {"order_id": "record"} == found.provenance


def test_a_value_of_an_earlier_subject_passes_no_gate() -> None:
    """It was said, but about something else, and before the work began."""
    talk = Driver(RULES)
    talk.turn("Where is A-1?", call("get_order"))
    talk.result(None, answer())
    talk.answered()
    talk.turn("fees?", call("search_help"))
    talk.result({}, answer())
    talk.answered()
    talk.turn("And where is my order?", answer())
    state = step(_before_the_last_turn(talk), talk.log[-2], RULES).state

    assert "/order_id provenance order_id" == judged("get_order", {"order_id": "A-1"}, state)


def _before_the_last_turn(talk: Driver) -> Conversation | None:
    state = None
    for cause in talk.log[:-2]:
        state = step(state, cause, talk.rules).state
    return state


FREE = agent_rules(
    tools={
        "note_down": tool(
            {
                "note": {"type": "string"},
                "copies": {"type": "integer"},
                "total": {"type": "number"},
                "receipt": {"type": "boolean"},
                "tags": {"type": "array"},
                "shade": {"type": "string"},
            },
            arguments={
                "note": {"provenance": ["message"]},
                "copies": {"provenance": ["message"]},
                "total": {"provenance": ["message"]},
                "receipt": {"provenance": ["message"]},
                "tags": {"provenance": ["message"]},
                "shade": {"provenance": ["record", "message"]},
            },
        )
    },
    answers={"hours": {"description": "H.", "text": {"en": "Nine."}}},
)


@pytest.mark.parametrize(
    ("text", "name", "value", "passes"),
    [
        ("Note: Call me  back!", "note", "call me back", True),
        ("Écris-moi", "note", "ecris-moi", True),
        ("callmeback", "note", "call", False),
        ("call me", "note", "call me ", False),
        ("call me", "note", "call-me", False),
        ("anything", "note", "", False),
        ("anything", "note", " ", False),
        ("x " * 60, "note", ("x " * 60).strip(), False),
        ("3 copies", "copies", 3, True),
        ("3 copies", "copies", 3.0, True),
        ("3 copies", "copies", 4, False),
        ("A-3", "copies", 3, False),
        ("13", "copies", 3, False),
        ("9 copies of 9007199254740993", "total", 9007199254740992, False),
        ("it cost 12", "total", 12.0, True),
        ("it cost 12,50", "total", 12.5, True),
        ("it cost 12.50", "total", 12.5, True),
        ("it cost -12.50", "total", -12.5, True),
        ("it cost 0.125", "total", 0.125, True),
        ("it cost 12.125", "total", 12.125, False),
        ("refund 1,000", "total", 1, False),
        ("refund 1,000", "total", 1.0, False),
        ("refund 1,000", "total", 1000, False),
        ("refund 1.000", "total", 1000, False),
        ("refund 1.000", "total", 1, False),
        ("refund 1,000, so 1000", "total", 1000, True),
        ("refund 1,234.56", "total", 1234.56, True),
        ("refund 1.234,56", "total", 1234.56, True),
        ("refund 1 000,50", "total", 1000.5, True),
        ("refund 1 000,50", "total", 0.5, False),
        ("refund 2 500", "total", 2500, False),
        ("refund 2 500", "total", 500, False),
        ("refund 2 500", "total", 2500, True),
        ("refund 1'000", "total", 1000, True),
        ("refund 1'000", "total", 1, False),
        ("refund ١٢", "total", 12, True),
        ("refund １２", "total", 12, True),
        ("refund -12", "total", 12, False),
        ("refund −12", "total", -12, True),
        ("refund 5%", "total", 5, False),
        ("refund 5 %", "total", 0.05, False),
        ("refund 12€50", "total", 12, False),
        ("on 2026-01-31", "total", 31, False),
        ("on 2026-01-31", "total", 2026, False),
        ("refund 12.50", "note", "12", False),
        ("refund 12.50", "note", "12.50", True),
        ("refund -12.50", "note", "12.50", False),
        ("refund 1,000", "note", "1", False),
        ("refund 2 500", "note", "500", False),
        ("refund 2 500", "note", "2", False),
        ("refund 5%", "note", "5", False),
        ("A-4410", "note", "4410", False),
        ("yes", "receipt", True, False),
        ("a", "tags", ["a"], False),
        ("blue", "shade", "blue", True),
    ],
)
def test_free_values_are_the_customers_own(
    text: str, name: str, value: JsonValue, *, passes: bool
) -> None:
    """Whole words or a number that they wrote since the work began, and what the field allows."""
    found = judged("note_down", {name: value}, heard(text, rules=FREE), FREE)

    assert passes == isinstance(found, Filled)
    if isinstance(found, Filled):
        assert {name: "message"} == found.provenance
        assert type(value) is type(found.arguments[name]) or value == found.arguments[name]


def test_what_was_written_before_the_work_began_does_not_count() -> None:
    """Nor what we wrote; and a history that was cut gives nothing away."""
    state = heard("blue", "What else?", rules=FREE)

    assert "/shade provenance None" == judged("note_down", {"shade": "blue"}, state, FREE)
    assert "/note provenance None" == judged("note_down", {"note": "nine"}, state, FREE)
    for cut in (evolved(state, history=()), evolved(state, activation=None)):
        assert "/note provenance None" == judged("note_down", {"note": "What"}, cut, FREE)


def test_hidden_arguments_are_filled_in() -> None:
    """What session and results provide is not the model's to give; the same value does no harm."""
    talk = Driver(RULES)
    talk.turn("Refund A-1", call("get_order"))
    talk.result({"total": 20.5}, answer())
    state = step(_before_the_last_turn(talk), talk.log[-2], RULES).state
    plans = {plan.name: hidden_from_models(plan) for plan in RULES.plans["refund"]}

    plain = judged("refund", {"order_id": "A-1"}, state)
    same = judged("refund", {"order_id": "A-1", "total": 20.5, "customer": "c1"}, state)
    other = judged("refund", {"order_id": "A-1", "customer": "c2"}, state)

    assert isinstance(plain, Filled)
    assert isinstance(same, Filled)
    assert {"order_id": "A-1", "customer": "c1", "total": 20.5} == plain.arguments
    assert plain.arguments == same.arguments
    assert {"order_id": "A-1"} == plain.given
    assert {
        "order_id": "message",
        "customer": "session",
        "total": "tool_result",
    } == plain.provenance
    assert "/customer provenance None" == other
    assert {
        "order_id": False,
        "customer": True,
        "total": True,
        "copies": False,
        "receipt": False,
    } == plans


def test_the_session_wins_over_the_model() -> None:
    """Also for an argument that both may give: left out it is filled in, another is refused."""
    either = tool({"customer": {}}, arguments={"customer": {"provenance": ["session", "model"]}})
    rules = agent_rules(tools={**TOOLS, "either": either})
    state = heard("hello", rules=rules)

    filled = judged("either", {}, state, rules)
    assert isinstance(filled, Filled)
    assert ({"customer": "c1"}, {"customer": "session"}) == (filled.arguments, filled.provenance)
    assert isinstance(judged("either", {"customer": "c1"}, state, rules), Filled)
    assert "/customer provenance None" == judged("either", {"customer": "c2"}, state, rules)
    assert isinstance(judged("either", {"customer": "c2"}, NOBODY, rules), Filled)


def test_what_code_cannot_fill_is_told() -> None:
    """Another tool's result can still be got; what the session lacks cannot."""
    lacks_result = passed(wanting("refund", {"order_id": "A-1"}), heard("Refund A-1"), RULES)
    nobody = CLAIMS.model_copy(update={"values": {}})
    lacks_session = passed(
        wanting("refund", {"order_id": "A-1"}), heard("Refund A-1", claims=nobody), RULES
    )

    assert isinstance(lacks_result, Rejected)
    assert isinstance(lacks_session, Rejected)
    assert ("/total", True) == (lacks_result.fault.path, lacks_result.fault.retryable)
    assert "comes from a result of get_order: call that first" == lacks_result.fault.message
    assert ("/customer", False) == (lacks_session.fault.path, lacks_session.fault.retryable)
    assert {"tool_unavailable"} == {lacks_result.cause, lacks_session.cause}


def test_an_argument_without_a_source_is_not_filled() -> None:
    """Also where the schema is open; a name that only the model knows is not repeated as a path."""
    open_tool = tool({"known": {}, "other": {}}, arguments={"known": {"provenance": ["model"]}})
    open_tool["input_schema"].pop("additionalProperties")
    rules = agent_rules(tools={**TOOLS, "open": open_tool})

    assert isinstance(judged("open", {"known": {"a": [1.0]}}, NOBODY, rules), Filled)
    assert "/other provenance None" == judged("open", {"other": 1}, NOBODY, rules)
    assert " provenance None" == judged("open", {"SECRET": 1}, NOBODY, rules)


def test_open_schemas_do_not_put_made_up_names_into_paths() -> None:
    """A schema may judge properties that it does not name."""
    loose = tool({"known": {}})
    loose["input_schema"]["additionalProperties"] = {"type": "string"}
    rules = agent_rules(tools={**TOOLS, "loose": loose})

    assert " type None" == judged("loose", {"SECRET": 1}, NOBODY, rules)


def test_a_known_value_is_checked_like_the_one_it_stands_for() -> None:
    """The customer's A-1 stands for the model's a-1, and the tool may want small letters."""
    small = {
        **TOOLS["get_order"],
        "input_schema": {
            "type": "object",
            "required": ["order_id"],
            "properties": {"order_id": {"type": "string", "pattern": "^a-[0-9]+$"}},
        },
    }
    rules = agent_rules(tools={**TOOLS, "get_order": small})

    found = judged("get_order", {"order_id": "a-1"}, heard("A-1", rules=rules), rules)

    assert "/order_id pattern order_id" == found


RULED = agent_rules(
    tools={
        **TOOLS,
        "get_order": {
            **TOOLS["get_order"],
            "rules": [
                {"kind": "lookup", "argument": "order_id", "tool": "list_orders", "path": "ids"},
            ],
        },
        "list_orders": {
            **TOOLS["list_orders"],
            "rules": [
                {"kind": "range", "argument": "limit", "maximum": 10},
                {
                    "kind": "right",
                    "argument": "status",
                    "values": ["closed"],
                    "permission": "archive",
                },
            ],
        },
    }
)


def test_business_rules_come_last() -> None:
    """A breach has the keyword `rule`; a right that lacks is told apart; keys are looked up."""
    state = heard("Where is A-1?", rules=RULED)
    entitled = heard(
        "Where?", rules=RULED, claims=CLAIMS.model_copy(update={"permissions": ("archive",)})
    )

    assert "/limit rule None" == judged("list_orders", {"limit": 11}, state, RULED)
    assert isinstance(judged("list_orders", {"limit": 10}, state, RULED), Filled)
    assert "/order_id rule None" == judged("get_order", {"order_id": "A-1"}, state, RULED)
    assert Unentitled("archive") == passed(
        wanting("list_orders", {"status": "closed"}), state, RULED
    )
    assert Unentitled("archive") == passed(
        wanting("list_orders", {"status": "closed"}), NOBODY, RULED
    )
    assert isinstance(judged("list_orders", {"status": "closed"}, entitled, RULED), Filled)


def _bounded() -> Ruleset:
    bound = {
        "kind": "looked_up_range",
        "argument": "amount",
        "tool": "get_order",
        "maximum": "total",
        "where": {"order_id": "order_id"},
    }
    refund = {
        **TOOLS["create_refund"],
        "input_schema": {
            **TOOLS["create_refund"]["input_schema"],
            "properties": {
                **TOOLS["create_refund"]["input_schema"]["properties"],
                "amount": {"type": "number"},
            },
        },
        "arguments": {
            **TOOLS["create_refund"]["arguments"],
            "amount": {"provenance": ["message"], "field": "total"},
        },
        "rules": [bound],
    }
    return agent_rules(tools={**TOOLS, "create_refund": refund})


def test_a_refund_is_bounded_by_the_order_that_it_names() -> None:
    """By the total that was looked up for that very order, unless it has been corrected since."""
    rules = _bounded()
    talk = Driver(rules)
    talk.turn("Refund 30 of A-1", call("get_order"))
    before = talk.conversation
    talk.result({"order_id": "A-1", "total": 30}, answer())
    first: dict[str, JsonValue] = {"order_id": "A-1", "amount": 30}
    other: dict[str, JsonValue] = {"order_id": "A-2", "amount": 30}
    (fact,) = talk.conversation.facts
    state = evolved(before, facts=(fact,))
    small = replace(fact, result={"order_id": "A-1", "total": "29.99"})
    corrected = evolved(state, facts=(replace(fact, superseded=True),))

    assert isinstance(judged("create_refund", first, state, rules), Filled)
    assert "/amount rule None" == judged("create_refund", first, before, rules)
    assert "/amount rule None" == judged("create_refund", other, state, rules)
    assert "/amount rule None" == judged("create_refund", first, corrected, rules)
    assert "/amount rule total" == judged(
        "create_refund", first, evolved(state, facts=(fact, small)), rules
    )


@pytest.mark.parametrize("outcome", ["done", "outcome_unknown"])
def test_a_write_uses_its_looked_up_bound_up(outcome: ToolOutcome) -> None:
    """A second refund wants a total that was looked up after the first; a failed one none."""
    rules = _bounded()
    talk = Driver(rules)
    talk.turn("Refund 30 of A-1", call("get_order"))
    before = talk.conversation
    talk.result({"order_id": "A-1", "total": 30}, answer())
    (looked_up,) = talk.conversation.facts
    paid = replace(looked_up, tool="create_refund", outcome=outcome, result={})
    failed = replace(paid, outcome="failed")
    wanted: dict[str, JsonValue] = {"order_id": "A-1", "amount": 30}

    def at_gates(*facts: Fact) -> Filled | str:
        return judged("create_refund", wanted, evolved(before, facts=facts), rules)

    assert isinstance(at_gates(looked_up, failed), Filled)
    assert "/amount rule None" == at_gates(looked_up, paid)
    assert isinstance(at_gates(looked_up, paid, looked_up), Filled)
    assert "/amount rule None" == at_gates(looked_up, paid, looked_up, paid)


def test_rules_hold_for_decision_models_as_well() -> None:
    """Code filled the arguments; what must be looked up first is said, within the tries."""
    talk = Driver(RULED)
    talk.turn("Where is A-1?", *[call("get_order")] * 3)
    assert "schema_fail" == talk.cause
    assert "get_order /order_id must come from a result of list_orders: call that first" == (
        talk.requests[1].fault
    )
    looking = Driver(RULED)
    looking.turn("Where is A-1?", call("get_order"), call("list_orders"))
    looking.result({"ids": ["A-2"]}, call("get_order"))
    assert "schema_fail" == looking.cause
    found = Driver(RULED)
    found.turn("Where is A-1?", call("list_orders"))
    found.result({"ids": ["A-1"]}, call("get_order"))
    assert "call_tool" == found.action.decision.action

    right = {"kind": "right", "argument": "topic", "values": ["fees"], "permission": "p"}
    tools = {**TOOLS, "search_help": {**TOOLS["search_help"], "rules": [right]}}
    other = Driver(agent_rules(tools=tools))
    other.turn("fees?", call("search_help"))
    assert "p" == other.action.refusal.detail  # type: ignore[union-attr]
    other.turn("delays?", ask("topic", "search_help"), call("search_help"))
    assert "call_tool" == other.action.decision.action


@pytest.mark.parametrize(
    ("value", "text", "vouched"),
    [
        (5, "refund me 5 million", False),
        (5, "5 percent of it", False),
        (5, "minus 5", False),
        (9, "9 1/2 please", False),
        (5, "5 euros please", True),
    ],
)
def test_what_stands_beside_a_number_vouches_for_no_number_alone(
    value: int, text: str, *, vouched: bool
) -> None:
    """Five million is no five, neither as a number nor as a text."""
    fields = {"total": {"description": "T.", "type": "number"}}
    pay = tool({"amount": {"type": ["number", "string"]}}, ["amount"])
    source = {"arguments": {"amount": {"provenance": ["message"], "field": "total"}}}
    rules = agent_rules(tools={**TOOLS, "pay": {**pay, **source}}, fields={**FIELDS, **fields})
    talk = Driver(rules)
    talk.turn(f"{text}, for A-1", call("get_order"))

    for given in (value, str(value)):
        found = judged("pay", {"amount": given}, talk.conversation, rules)
        assert vouched == isinstance(found, Filled)
