"""Business rules, confirmations, loops and final answers: what keeps a catalog from loading."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.catalog.small import SMALL
from turnstream.catalog import CatalogError, LoadedCatalog, answer_checks, load_catalog
from turnstream.catalog.lint import lint

Write = Callable[[str], Path]

ARTICLE: dict[str, Any] = {
    "loop": "agent",
    "maxSteps": 8,
    "stopWhen": ["final_answer", "max_steps", "user_cancel", "schema_fail"],
    "hops": [
        {"kind": "model", "emits": "tool_calls | text"},
        {"kind": "runtime", "emits": "tool_result JSON"},
        {"kind": "model", "emits": "next_tool | final JSON"},
    ],
}

LOANS: dict[str, Any] = {
    "input_schema": {
        "type": "object",
        "required": ["book", "days"],
        "properties": {
            "book": {"type": "string"},
            "days": {"type": "integer"},
            "first": {"type": "string", "format": "date"},
            "last": {"type": ["string", "null"]},
            "scope": {"type": "array", "items": {"enum": ["own", "all"]}},
            "fine": {"type": ["string", "null"]},
        },
    },
    "arguments": {
        "book": {"provenance": ["message"]},
        "days": {"provenance": ["model"]},
        "first": {"provenance": ["model"]},
        "last": {"provenance": ["model"]},
        "scope": {"provenance": ["model"]},
        "fine": {"provenance": ["model"]},
    },
    "description": "Extends a loan.",
    "effect": "write",
    "data_scope": "public",
    "result_schema": {"type": "object", "properties": {}},
    "binding": {"kind": "function", "target": "library:extend"},
    "rules": [
        {"kind": "range", "argument": "days", "minimum": 1, "maximum": 28},
        {"kind": "range", "argument": "first", "minimum": "2026-01-01"},
        {"kind": "order", "lower": "first", "upper": "last"},
        {"kind": "right", "argument": "scope", "values": ["all"], "permission": "staff"},
        {"kind": "lookup", "argument": "book", "tool": "list_loans", "path": "loans.book"},
        {
            "kind": "looked_up_range",
            "argument": "days",
            "tool": "list_loans",
            "minimum": "loans.days.least",
            "maximum": "loans.days.most",
            "where": {"book": "loans.book"},
        },
        {"kind": "looked_up_range", "argument": "fine", "tool": "list_loans", "maximum": "credit"},
    ],
    "confirm": "sure",
}

LIST: dict[str, Any] = {
    **LOANS,
    "description": "Lists what a reader has borrowed.",
    "effect": "read",
    "input_schema": {"type": "object", "properties": {}},
    "arguments": {},
    "rules": [],
    "confirm": None,
    "result_schema": {
        "type": "object",
        "properties": {
            "loans": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "book": {"type": "string"},
                        "copy": {"type": "integer"},
                        "days": {
                            "type": "object",
                            "properties": {
                                "least": {"type": "integer"},
                                "most": {"type": "number"},
                            },
                        },
                        "late": {"type": "boolean"},
                        "dues": {"type": "array", "items": {"type": "number"}},
                        "due": {"type": "string", "format": "date"},
                    },
                },
            },
            "credit": {"type": "string"},
            "pages": {"type": "array", "items": True},
        },
    },
}

SURE = {
    "description": "Whether the reader is sure.",
    "type": "boolean",
    "question": {"en": "Extend the loan of {book} by {days} days?"},
}


def definition(**loans: Any) -> dict[str, Any]:
    """The small catalog with a tool of every rule, parts of which are changed."""
    content: dict[str, Any] = yaml.safe_load(SMALL)
    content["tools"] |= {"extend_loan": {**LOANS, **loans}, "list_loans": LIST}
    content["fields"]["sure"] = SURE
    content["agents"]["desk"] |= ARTICLE
    return content


def loaded(write: Write, content: dict[str, Any]) -> LoadedCatalog:
    """Load a catalog."""
    return load_catalog(write(yaml.safe_dump(content, allow_unicode=True, sort_keys=False)))


def faults(write: Write, content: dict[str, Any]) -> list[str]:
    """Path and message of everything that is wrong with a catalog."""
    with pytest.raises(CatalogError) as raised:
        loaded(write, content)
    return [f"{fault.path}: {fault.message}" for fault in raised.value.faults]


def test_rules_confirmations_and_the_loop_of_the_article_load(write: Write) -> None:
    """The loop's JSON is taken as it stands; an argument of a model alone needs no field."""
    agent = loaded(write, definition()).catalog.agents["desk"]

    assert (8, "agent", 3) == (agent.max_steps, agent.loop, len(agent.hops))
    assert tuple(ARTICLE["stopWhen"]) == agent.stop_when


def test_a_field_that_only_confirms_is_used(write: Write) -> None:
    """Nobody is advised to remove it."""
    path = write(yaml.safe_dump(definition(), sort_keys=False))

    assert [] == [one for one in lint(path) if one.code == "unused" and "sure" in one.path]
    assert [] == [one for one in lint(path) if one.severity == "error"]


PLACE = "tools.extend_loan.rules.0"
RANGE = {"kind": "range", "argument": "days"}
ORDER = {"kind": "order", "lower": "first", "upper": "last"}
RIGHT = {"kind": "right", "argument": "scope", "values": ["all"], "permission": "staff"}
LOOKUP = {"kind": "lookup", "argument": "book", "tool": "list_loans", "path": "loans.book"}
BOUND = {
    "kind": "looked_up_range",
    "argument": "days",
    "tool": "list_loans",
    "maximum": "loans.days.most",
    "where": {"book": "loans.book"},
}


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (
            {**RANGE, "argument": "page", "minimum": 1},
            ".argument: expected an argument of the tool",
        ),
        (
            {**RANGE, "argument": "scope", "minimum": 1},
            ".argument: expected an argument with an order",
        ),
        (RANGE, ": expected minimum, maximum or both"),
        ({**RANGE, "minimum": "a"}, ": expected bounds that are a number"),
        ({**RANGE, "argument": "first", "minimum": 1}, ": expected bounds that are a text"),
        ({**RANGE, "minimum": 2, "maximum": 1}, ".maximum: expected at least minimum"),
        ({**ORDER, "lower": "page"}, ".lower: expected an argument of the tool"),
        ({**ORDER, "upper": "page"}, ".upper: expected an argument of the tool"),
        ({**ORDER, "upper": "first"}, ": expected two arguments that are both"),
        ({**ORDER, "lower": "days"}, ": expected two arguments that are both"),
        ({**ORDER, "lower": "scope", "upper": "scope"}, ": expected two arguments that are both"),
        ({**RIGHT, "argument": "page"}, ".argument: expected an argument of the tool"),
        ({**RIGHT, "values": ["al"]}, ".values.0: the schema of 'scope' never allows 'al'"),
        ({**LOOKUP, "argument": "page"}, ".argument: expected an argument of the tool"),
        ({**LOOKUP, "tool": "lists"}, ".tool: expected one of tools"),
        ({**LOOKUP, "tool": "extend_loan"}, ".tool: expected a tool that only reads"),
        ({**LOOKUP, "path": "loans.page"}, ".path: expected a path through the result_schema"),
        ({**LOOKUP, "path": "pages.x"}, ".path: expected a path through the result_schema"),
        ({**BOUND, "argument": "page"}, ".argument: expected an argument of the tool"),
        ({**BOUND, "argument": "scope"}, ".argument: expected an argument that holds amounts"),
        ({**BOUND, "argument": "first"}, ".argument: expected an argument that holds amounts"),
        ({**BOUND, "tool": "lists"}, ".tool: expected one of tools"),
        ({**BOUND, "tool": "extend_loan"}, ".tool: expected a tool that only reads"),
        ({**BOUND, "maximum": None}, ": expected minimum, maximum or both"),
        ({**BOUND, "maximum": "loans.most"}, ".maximum: expected a path through the result_schema"),
        ({**BOUND, "minimum": "pages.x"}, ".minimum: expected a path through the result_schema"),
        ({**BOUND, "maximum": "loans.late"}, ".maximum: expected amounts: integer, number"),
        ({**BOUND, "maximum": "loans.due"}, ".maximum: expected amounts: integer, number"),
        ({**BOUND, "maximum": "loans.dues"}, ".maximum: expected one value of each item"),
        ({**BOUND, "where": {}}, ".maximum: expected one value of each item that where picks"),
        ({**BOUND, "where": {"page": "loans.book"}}, ".where.page: expected an argument of the"),
        ({**BOUND, "where": {"first": "loans.book"}}, ".where.first: expected an argument that is"),
        ({**BOUND, "where": {"book": "loans.page"}}, ".where.book: expected a path through the"),
        ({**BOUND, "where": {"book": "loans.copy"}}, ".where.book: 'book' and 'loans.copy' are"),
        ({"kind": "guess"}, "kind"),
    ],
)
def test_rules_that_could_not_work(write: Write, rule: dict[str, Any], fault: str) -> None:
    """A rule that would never be broken, or always, is a fault at its place."""
    found = faults(write, definition(rules=[rule]))

    assert 1 == len(found)
    assert found[0].startswith(PLACE)
    assert fault in found[0]


def test_a_bound_outside_the_items_that_are_picked_is_one_for_all(write: Write) -> None:
    """The item that both paths share is then the whole result, and its list has no one value."""
    found = faults(write, definition(rules=[{**BOUND, "maximum": "credit"}]))

    assert 1 == len(found)
    assert found[0].startswith(f"{PLACE}.where.book: expected one value of each item")


def test_a_schema_that_cannot_be_used_is_told_once(write: Write) -> None:
    """What its rules say of it can wait."""
    schema = {**LOANS["input_schema"]}
    schema["properties"] = {**schema["properties"], "scope": {"type": "odd"}}
    found = faults(write, definition(input_schema=schema, rules=[RIGHT]))

    assert all("not a usable JSON Schema" in one for one in found)


def test_a_right_needs_the_text_of_its_refusal(write: Write) -> None:
    """Like a permission of the whole tool."""
    content = definition()
    del content["rules"]["missing_permission"]
    del content["tools"]["find_loan"]["required_permissions"]

    assert any("'extend_loan' requires permissions" in one for one in faults(write, content))


@pytest.mark.parametrize(
    ("sure", "fault"),
    [
        (None, "tools.extend_loan.confirm: expected a field with type: boolean, got 'sure'"),
        ({**SURE, "type": "string"}, "confirm: expected a field with type: boolean"),
        ({**SURE, "question": None}, "fields.sure: expected a question: tool 'extend_loan'"),
        (
            {**SURE, "question": {"en": "Extend {book} from {first}?"}},
            "fields.sure.question.en: {first}: expected a required argument of 'extend_loan'",
        ),
        (
            {**SURE, "question_for": {"extend_loan": {"en": "Extend {page!r}?"}}},
            "fields.sure.question_for.extend_loan.en: expected a bare name as placeholder",
        ),
    ],
)
def test_confirmations_that_could_not_be_asked(
    write: Write, sure: dict[str, Any] | None, fault: str
) -> None:
    """The question must exist, want a yes or a no, and name only what every call has."""
    content = definition()
    content["fields"]["sure"] = sure
    if sure is None:
        del content["fields"]["sure"]

    assert any(fault in one for one in faults(write, content))


def test_a_confirmation_is_no_argument(write: Write) -> None:
    """One yes would be read as the other."""
    arguments = {**LOANS["arguments"], "days": {"provenance": ["model"], "field": "sure"}}

    found = faults(write, definition(arguments=arguments))

    assert any("a yes to one would be read as the other" in one for one in found)


@pytest.mark.parametrize(
    ("loop", "fault"),
    [
        (
            {"hops": [{"kind": "runtime", "emits": "tool_result JSON"}]},
            "hops.0.kind: expected model",
        ),
        ({"hops": ARTICLE["hops"][:2]}, "hops: expected a model last"),
        ({"hops": [{"kind": "model", "emits": "tool_calls | poems"}]}, "hops.0.emits: expected"),
        ({"hops": [{"kind": "person", "emits": "text"}]}, "hops.0.kind"),
        ({"loop": "workflow"}, "loop"),
        ({"stopWhen": ["max_steps"]}, "stopWhen must name final_answer"),
        ({"stopWhen": ["final_answer", "boredom"]}, "stopWhen"),
        ({"maxRetries": 6}, "maxRetries"),
    ],
)
def test_loops_that_nobody_goes(write: Write, loop: dict[str, Any], fault: str) -> None:
    """A line that promises another way would be believed."""
    content = definition()
    content["agents"]["desk"] |= loop

    assert any(fault in one for one in faults(write, content))


# --- final answers ------------------------------------------------------------------------------

ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string"},
        "mood": {"type": "string"},
        "n": {"type": "integer"},
    },
}


def with_answer(folder: Path, schema: Any, /, **changes: Any) -> dict[str, Any]:
    """A catalog whose agent declares a final answer, and its file."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    (folder / "answer.json").write_text(text, encoding="utf-8")
    content = definition()
    content["agents"]["desk"]["finalAnswer"] = {"schema": "answer.json", "version": "2", **changes}
    return content


def test_a_final_answer_has_a_schema_in_a_file_of_its_own(write: Write, tmp_path: Path) -> None:
    """It is loaded with the catalog, counts for its version, and belongs to no tool."""
    first = loaded(write, with_answer(tmp_path, ANSWER))
    again = loaded(write, with_answer(tmp_path, dict(reversed(ANSWER.items()))))
    other = loaded(write, with_answer(tmp_path, {**ANSWER, "additionalProperties": False}))
    newer = loaded(write, with_answer(tmp_path, ANSWER, version="3"))
    versions = [one.decision_version for one in (first, other, newer)]
    check = answer_checks(first.catalog)["desk"]
    broken = check({"text": 5})

    assert ANSWER == first.catalog.agents["desk"].final_answer.content  # type: ignore[union-attr]
    assert 3 == len(set(versions))
    assert again.catalog.tools == first.catalog.tools
    assert check({"text": "x"}) is None
    assert broken is not None
    assert ("/text", "type") == (broken.path, broken.keyword)


@pytest.mark.parametrize(
    ("schema", "changes", "fault"),
    [
        ("{broken", {}, "finalAnswer.schema: 'answer.json' is not JSON"),
        ("[1]", {}, "finalAnswer.schema: 'answer.json': expected a JSON object"),
        ('"' + "x" * 300_000 + '"', {}, "is longer than"),
        (ANSWER, {"schema": "none.json"}, "cannot be read"),
        (ANSWER, {"schema": "../answer.json"}, "expected a file in the folder of the catalog"),
        (ANSWER, {"schema": "/etc/hostname"}, "expected a file in the folder of the catalog"),
        (ANSWER, {"schema": "a\x00b"}, "cannot be read"),
        (ANSWER, {"content": {}}, "finalAnswer.content: the schema stands in a file of its own"),
        (ANSWER, {"schema": 5}, "finalAnswer.schema"),
        (ANSWER, {"version": "two words"}, "finalAnswer.version"),
        (ANSWER, {"text": "said"}, "expected a property of answer.json with type: string"),
        (ANSWER, {"text": "n"}, "expected a property of answer.json with type: string"),
        (ANSWER, {"text": "mood"}, "must be required by answer.json"),
        ({**ANSWER, "type": "array"}, {}, "expected a schema with type: object"),
        ({**ANSWER, "pattern": 5}, {}, "finalAnswer.schema: answer.json /pattern"),
    ],
)
def test_final_answers_that_could_not_be_judged(
    write: Write, tmp_path: Path, schema: Any, changes: dict[str, Any], fault: str
) -> None:
    """The fault names the agent, the file and what was expected."""
    found = faults(write, with_answer(tmp_path, schema, **changes))

    assert any(fault in one for one in found), found


@pytest.mark.parametrize(
    "agents", [[], {"desk": "x"}, {"desk": {"description": "D.", "finalAnswer": "answer.json"}}]
)
def test_another_shape_is_the_shapes_fault(write: Write, agents: Any) -> None:
    """Nothing is read where nothing can be declared."""
    assert [] != faults(write, {**definition(), "agents": agents})


def test_the_other_spelling_is_read_as_well(write: Write, tmp_path: Path) -> None:
    """As for every key of an agent."""
    content = with_answer(tmp_path, ANSWER)
    content["agents"]["desk"]["final_answer"] = content["agents"]["desk"].pop("finalAnswer")

    final = loaded(write, content).catalog.agents["desk"].final_answer

    assert final is not None
    assert ANSWER == final.content
