"""What must hold for any arguments: at the gates, and on the way through the whole core.

The schemas are read from the catalog's file once more, by nothing of ours, and compiled without any
option but formats: a call is only believed to be right if a stranger says so. The catalog's rules
and rights are written down here a second time, for no gate can be its own witness.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import yaml
from pydantic import JsonValue
from pydantic_core import to_json

from tests.agents import calling, saying, wanting
from tests.driving import Driver
from tests.properties.argument_texts import Raw
from turnstream.catalog import answer_checks, argument_checks, load_catalog
from turnstream.core.arguments import Filled
from turnstream.core.bounds import CALL_BYTES, FAULT_CHARACTERS
from turnstream.core.carried import undeclared_changes
from turnstream.core.conversation import Conversation
from turnstream.core.envelope import INVALID, NOT_MADE, UNKNOWN_TOOL, Envelope
from turnstream.core.gates import Rejected, Unentitled, passed
from turnstream.core.publications import ActionEvent
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Ruleset

CATALOG: Final = Path(__file__).parents[1] / "fixtures" / "fuzz" / "catalog.yaml"

SOUND: Final = wanting("get_hours", {}, "sound")
"""A call that stands beside the one that is looked at."""


def _ruleset() -> Ruleset:
    loaded = load_catalog(CATALOG)
    return Ruleset(
        catalog=loaded.catalog,
        decision_version=loaded.decision_version,
        presentation_version=loaded.presentation_version,
        checks=argument_checks(loaded.catalog),
        answer_checks=answer_checks(loaded.catalog),
    )


RULES: Final = _ruleset()

STRANGERS: Final = {
    name: jsonschema_rs.Draft202012Validator(tool["input_schema"], validate_formats=True)
    for name, tool in yaml.safe_load(CATALOG.read_text())["tools"].items()
}

SAID: Final = "Pay me 12.50 back for A-1, or better 30."
FOUND: Final[dict[str, JsonValue]] = {
    "owner": "C-1001",
    "orders": [{"id": "A-1", "total": 20}, {"id": "A-2", "total": 100}],
}
"""What the customer has said, and a look-up found, before the call that is looked at."""


def _known() -> Conversation:
    talk = Driver(RULES)
    talk.turn(SAID, calling(wanting("find_orders", {}, "found")), claims=None)
    talk.result(FOUND, calling(SOUND))
    return talk.conversation


KNOWN: Final = _known()

_MOST: Final = 50
"""The greatest refund."""

PASSED: Final = "passed"
REFUSED: Final = "refused: a right lacks"


def check_gates(tool: str, raw: Raw, *, rules: Ruleset = RULES) -> str:
    """Take arguments through the gates, and say where they ended.

    Args:
        tool: what is called.
        raw: the arguments.
        rules: the catalog, compiled.
    """
    found = passed(wanting(tool, raw), KNOWN, rules)
    if isinstance(found, Filled):
        _assert_right(tool, found.arguments)
        changes = undeclared_changes(
            to_json(found.given).decode(),
            json.loads(to_json(found.arguments)),
            tool=tool,
            provenance=found.provenance,
            ruleset=rules,
        )
        assert () == changes
        return PASSED
    if isinstance(found, Unentitled):
        return REFUSED
    assert isinstance(found, Rejected)
    return _assert_told(Envelope("c1", tool, error=found.fault))


def check_core(tool: str, raw: Raw, *, beside: bool, rules: Ruleset = RULES) -> str:
    """Take arguments from a model's reply to actions, and say where they ended.

    Args:
        tool: what is called.
        raw: the arguments.
        beside: whether a sound call stands in the same reply.
        rules: the catalog, compiled.
    """
    talk = Driver(rules)
    sound = [SOUND] if beside else []
    talk.turn(SAID, calling(wanting("find_orders", {}, "found")), claims=None)
    replies = iter([calling(wanting(tool, raw, "fuzzed"), *sound), saying("Sorry.")])
    talk.decide = lambda _request: next(replies)
    talk.result(FOUND)
    state, actions = talk.conversation, talk.of(ActionEvent)
    calls = [one.call for one in actions if one.call is not None]

    assert load(dump(state)) == state
    for call in calls:
        _assert_right(call.tool, json.loads(call.arguments_json, parse_constant=_no_json))
        assert call.model_arguments_json is not None
        json.loads(call.model_arguments_json, parse_constant=_no_json)
    if any(one.refusal is not None for one in actions):
        assert [] == calls
        return REFUSED
    assert state.activation is not None
    told = [
        one.outcome
        for loop_step in state.activation.loop
        for one in loop_step.calls
        if one.call_id == "fuzzed" and one.outcome is not None
    ]
    if told:
        assert [call.tool for call in calls] == [one.tool for one in sound]
        return _assert_told(told[0])
    assert tool == calls[0].tool
    return PASSED


def _assert_right(tool: str, arguments: Mapping[str, Any]) -> None:
    """A stranger takes it, and it can be written and sent on as JSON."""
    assert STRANGERS[tool].is_valid(dict(arguments))
    assert len(to_json(arguments)) <= CALL_BYTES
    json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    _assert_allowed(tool, arguments)


def _assert_allowed(tool: str, arguments: Mapping[str, Any]) -> None:
    """Nothing that the catalog's rules forbid, nor what takes a permission: nobody has one here."""
    match tool:
        case "create_refund":
            assert arguments["amount"] <= _MOST
            assert arguments.get("note") != "goodwill"
        case "search_invoices":
            first, last = arguments.get("from"), arguments.get("to")
            assert first is None or last is None or first <= last
        case "pay_back":
            assert arguments == {"order": "A-1", "amount": 12.5, "owner": "C-1001"}


def _assert_told(envelope: Envelope) -> str:
    """What a model is told can be written, is short, and says what to mend."""
    fault = envelope.error
    assert fault is not None
    assert fault.code in (INVALID, UNKNOWN_TOOL, NOT_MADE)
    assert 0 < len(fault.message) <= FAULT_CHARACTERS
    if fault.code == INVALID:
        assert fault.keyword
        assert fault.path is not None
        assert len(fault.path) <= FAULT_CHARACTERS
    json.dumps(envelope.as_json(), allow_nan=False, ensure_ascii=False).encode()
    return fault.keyword or fault.code


def _no_json(constant: str) -> None:
    raise AssertionError(constant)
