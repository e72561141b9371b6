"""Any text as a call's arguments: nothing crashes, and nothing unvalidated gets through.

A few hundred examples by default. For a hundred thousand, some eight minutes of one core::

    TURNSTREAM_FUZZ_EXAMPLES=100000 pytest --timeout=3600 tests/properties/test_arguments.py
"""

import json
import os
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.agents import RULES, wanting
from turnstream.catalog.schemas import validator
from turnstream.core.arguments import Filled
from turnstream.core.carried import undeclared_changes
from turnstream.core.conversation import Conversation
from turnstream.core.gates import Rejected, passed
from turnstream.core.json_arguments import Unparsed, parsed, unwritable

EXAMPLES = int(os.environ.get("TURNSTREAM_FUZZ_EXAMPLES", "300"))

NOBODY = Conversation(agent="shop")

STUBS = [
    "lookup_order",
    "list_orders",
    "create_refund",
    "find_ticket",
    "get_store_hours",
    "find_day",
]
"""Tools whose arguments a model makes up: their schemas alone stand between it and a call."""

VALIDATORS = {name: validator(RULES.catalog.tools[name].input_schema) for name in STUBS}

NAMES = st.sampled_from(
    ["order_id", "amount", "limit", "status", "tags", "ticket_id", "day", "code", "note", "notify"]
) | st.text(max_size=4)

VALUES = st.sampled_from(
    ["A-1", "A-1\n", "A-١", "open", "opn", 3, 3.0, 3.5, "3", True, None, 1e308, 10**30, -1, 50, 51]
) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)

OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4).map(json.dumps)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """An object's text with a piece cut out, put in or repeated."""
    text: str = draw(OBJECTS)
    at = draw(st.integers(0, len(text)))
    piece = draw(st.sampled_from(["", "}", "{", '"', ",", "\\", "NaN", "1e999", "\x00", "{}"]))
    return text[:at] + piece + text[draw(st.integers(at, len(text))) :]


TEXTS = st.one_of(
    OBJECTS,
    damaged(),
    st.text(max_size=40),
    st.text(alphabet=string.punctuation + string.digits + "eEnulltrue \n", max_size=40),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(STUBS), TEXTS)
@example("get_store_hours", "[" * 100_000)
@example("lookup_order", '{"order_id":"A-1"}{"order_id":"A-2"}')
def test_any_text_as_arguments(name: str, text: str) -> None:
    """It is refused with path and keyword, or it is an object that the tool's schema allows."""
    found = passed(wanting(name, text), NOBODY, RULES)

    if isinstance(found, Rejected):
        fault = found.fault
        assert fault.keyword
        assert fault.path is not None
        assert len(fault.message) <= 300
        return
    assert isinstance(found, Filled)
    assert unwritable(dict(found.arguments)) is None
    assert VALIDATORS[name].is_valid(dict(found.arguments))
    assert () == undeclared_changes(
        json.dumps(found.given),
        found.arguments,
        tool=name,
        provenance=found.provenance,
        ruleset=RULES,
    )
    given = json.loads(text) if text.strip(" \t\r\n") else {}
    for argument, value in found.arguments.items():
        assert value == given[argument]
        assert isinstance(value, bool) == isinstance(given[argument], bool)
        assert isinstance(value, str) == isinstance(given[argument], str)
    left_out = given.keys() - found.arguments.keys()
    assert all(given[argument] is None for argument in left_out)


@settings(max_examples=EXAMPLES, deadline=None)
@given(TEXTS)
def test_any_text_is_parsed_or_not(text: str) -> None:
    """What is parsed is written and read again as the same."""
    found: Any = parsed(text)

    if not isinstance(found, Unparsed):
        assert found == parsed(json.dumps(found))


@pytest.mark.parametrize("name", STUBS)
def test_the_strategies_reach_both_sides(name: str) -> None:
    """There are texts that pass, so that the property above says something."""
    right = {
        "lookup_order": {"order_id": "A-1"},
        "create_refund": {"order_id": "A-1", "amount": 3},
        "find_ticket": {"ticket_id": 3},
    }
    assert isinstance(passed(wanting(name, json.dumps(right.get(name, {}))), NOBODY, RULES), Filled)
