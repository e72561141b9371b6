"""Final answers in the form that their agent declares, by their own schema."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agents import AGENTS, RULES, agent_rules, saying
from tests.driving import Driver, answer, proposal
from turnstream.core.bounds import ANSWER_CHARACTERS, OUTPUT_BYTES
from turnstream.core.ports import Proposal
from turnstream.core.ruleset import Ruleset

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "required": ["text", "mood"],
    "properties": {
        "text": {"type": "string"},
        "mood": {"enum": ["good", "bad"]},
        "notes": {"type": "array"},
    },
}


def declaring(content: dict[str, JsonValue] | None = None, **changes: Any) -> Ruleset:
    """A catalog whose agent declares a schema for its final answer."""
    final = {"schema": "answer.json", "version": "1", "content": content or SCHEMA, **changes}
    return agent_rules(agents={"shop": {**AGENTS["shop"], "finalAnswer": final}})


def giving(output: Any, **changes: Any) -> Proposal:
    """A reply that is a final answer of a declared form."""
    given = {"output": output, "reply": {"output": 1}, **changes}
    return proposal("answer", "context_sufficient", **given)


@pytest.mark.parametrize("as_text", [False, True])
def test_the_customer_reads_the_text_and_others_the_whole(as_text: bool) -> None:
    """An object, or its JSON text; both are published, the whole beside the text."""
    output = {"text": "All is well.", "mood": "good"}
    talk = Driver(declaring())
    talk.turn("hello", giving(json.dumps(output) if as_text else output))
    payload = talk.action.answer

    assert payload is not None
    assert "All is well." == payload.text
    assert output == json.loads(payload.output_json or "")
    assert "1" == payload.output_version
    assert payload.answer_id is None


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (None, "final answer: expected a JSON object"),
        (5, "final answer: expected a JSON object"),
        ([], "final answer: expected a JSON object"),
        ("{broken", "final answer: not JSON"),
        ("[1]", "final answer: expected one JSON object, got an array"),
        ("", "final answer /: required"),
        ({"text": "x"}, "final answer /: required"),
        ({"text": "x", "mood": "SECRET"}, "final answer /mood: enum"),
        ({"text": 5, "mood": "bad"}, "final answer /text: type"),
        ({"text": "  ", "mood": "bad"}, "final answer /text: expected a text"),
        ({"text": "x" * (ANSWER_CHARACTERS + 1), "mood": "bad"}, "final answer /text: expected"),
        ({"text": "x", "mood": "bad", "notes": ["x" * OUTPUT_BYTES]}, "bytes of JSON"),
        ({"text": "x", "mood": "bad", "notes": [float("nan")]}, "not finite"),
    ],
)
def test_a_fault_is_told_by_path_and_keyword(output: Any, fault: str) -> None:
    """It is tried again within the bound, and nothing that the model wrote is repeated."""
    talk = Driver(declaring())
    talk.turn("hello", giving(output), giving({"text": "Well.", "mood": "bad"}))

    assert fault in str(talk.requests[-1].fault)
    assert "SECRET" not in str(talk.requests[-1].fault)
    assert fault in str(talk.requests[-1].loop[0].fault)
    assert "Well." == talk.action.answer.text  # type: ignore[union-attr]

    talk = Driver(declaring())
    talk.turn("hello", *[giving(output)] * 3)
    assert "schema_fail" == talk.cause


def test_a_text_alone_is_no_answer_of_the_declared_form() -> None:
    """An approved answer still is one."""
    talk = Driver(declaring())
    talk.turn("hello", saying("Hi."), answer("hours"))

    assert "final answer: expected a JSON object" == talk.requests[-1].fault
    assert "hours" == talk.action.answer.answer_id  # type: ignore[union-attr]
    assert talk.action.answer.output_json is None  # type: ignore[union-attr]
    assert talk.action.answer.output_version is None  # type: ignore[union-attr]


def test_without_a_declaration_there_is_no_such_form() -> None:
    """What nobody declared nobody could rely on."""
    talk = Driver(RULES)
    talk.turn("hello", giving({"text": "x"}), saying("Hi."))

    assert "declares no schema" in str(talk.requests[-1].fault)


def test_names_that_the_schema_does_not_know_are_not_repeated() -> None:
    """Also where it judges what it does not name; the text may be any property."""
    loose: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"said": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }
    talk = Driver(declaring(loose, text="said"))
    talk.turn("hello", giving({"said": "x", "SECRET": "y"}), giving({"said": "Hi.", "n": 1}))

    assert "final answer /: type" == talk.requests[-1].fault
    assert "Hi." == talk.action.answer.text  # type: ignore[union-attr]


def test_a_schema_may_be_missing_in_code() -> None:
    """A ruleset without a check takes any object that has the text."""
    rules = declaring({"type": "object"})
    bare = Ruleset(rules.catalog, "d1", "p1", rules.limits)
    talk = Driver(bare)
    talk.turn("hello", giving({"text": "Hi."}))

    assert "Hi." == talk.action.answer.text  # type: ignore[union-attr]


def test_thresholds_hold_for_final_answers() -> None:
    """Like for any other answer."""
    talk = Driver(declaring())
    talk.turn("hello", giving({"text": "x", "mood": "bad"}, confidence=0.1))

    assert "below_threshold" == talk.cause
