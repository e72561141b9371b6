"""Advice about catalogs that load."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.catalog.small import DEMO, SMALL, with_change
from turnstream.catalog.lint import lint
from turnstream.catalog.load import CatalogError
from turnstream.catalog.overlap import OVERLAP, overlap

Write = Callable[[str], Path]


def found(path: Path) -> list[str]:
    """Severity, code, place and message of every finding."""
    return [
        f"{finding.severity} {finding.code} {finding.path}: {finding.message}"
        for finding in lint(path)
    ]


def test_right_catalogs_give_no_findings(write: Write) -> None:
    """Neither the small catalog nor the demo's is advised against."""
    assert found(write(SMALL)) == []
    assert found(DEMO) == []


SECOND_TOOL = """
  second:
    description: Second.
    examples: [Something else]
    effect: read
    input_schema: {type: object}
    result_schema: {type: object}
    binding: {kind: function, target: "a:b"}
fields:
"""

ADVICE = [
    ("\nfields:\n", SECOND_TOOL.replace("Second.", "Find a borrowed book's due date."),
     "warning overlap tools.second.description: overlaps with tools.find_loan, score 100 of 100"),
    ("\nfields:\n", SECOND_TOOL.replace("Something else", "When is  MY book due!"),
     "warning shared_example tools.second.examples.0: the same request is an example of tools.f"),
    ("    examples: [When do you open]\n", "", "info no_examples answers.hours"),
    ("\nfields:\n", SECOND_TOOL.replace("  second:", "  deleteLoan:"),
     "warning read_that_writes tools.deleteLoan: effect is read, but the name begins with 'de"),
    ("method: GET", "method: DELETE", "warning read_that_writes tools.find_loan.binding.method"),
    ('method: GET\n      url: "{LIBRARY_URL}/loans/{book}"',
     'method: POST\n      url: "{LIBRARY_URL}/loans"', "info read_by_post tools.find_loan"),
    ("format: {enum: [print, audio]}", "format: {enum: [print, audio]}\n        new_date: {}",
     "warning read_that_writes tools.find_loan.input_schema.properties.new_date"),
    ("format: {enum: [print, audio]}", "format: {enum: [print, audio]}\n        page: {}",
     "info never_filled tools.find_loan.input_schema.properties.page"),
    ("book: {type: string}", "book: {type: string, format: isbn}",
     "warning unknown_format tools.find_loan.input_schema.properties.book.format: 'isbn' is no"),
    ("effect: read", "effect: write", "info no_threshold tools.find_loan"),
    ("effect: read", "effect: write\n    threshold: 0.5\n    retry: {attempts: 2}",
     "info unused_retry tools.find_loan.retry"),
    ("In which format did you borrow the book?", "Please give more information on it.",
     "warning vague_question fields.format.question.en"),
    ("In which format did you borrow the book?", "Format?",
     "warning vague_question fields.format.question.en"),
    ("{en: Please sign in.}", "{en: Please sign in., fr-CA: Connectez-vous.}",
     "warning missing_locale answers.hours.text: no text in fr, which other texts have"),
    ("{type: webchat}", "{type: webchat, default_locale: de}",
     "warning missing_locale rules.missing_permission.text: no text in de"),
    ('"B-[0-9]{3}"', '"B(-[0-9]+)+"', "warning slow_pattern fields.book.pattern"),
    ("audio: {label: {en: Audio}}", "audio: {label: {en: Audio}, aliases: [PRINT]}",
     "warning ambiguous_choice fields.format.choices.audio: 'PRINT' also means 'print'"),
    ("answer: no_loan}", "}", "warning unreachable answers.no_loan"),
    ("required: [due]", "required: []",
     "warning uncertain_placeholder answers.due_date.text.en: {due} is not required"),
    ("text: {en: A librarian will answer.}}",
     "text: {en: A.}}\n  more: {description: M., text: {en: M.}}",
     "warning unreachable queues.more: no handoff cause leads to this queue"),
    ("      format: {provenance: [message]}\n", "", "info unused fields.format"),
    ("      subject_header: X-Reader\n", "",
     "warning unnamed_subject tools.find_loan.binding: data_scope is own, but"),
    ("      required: [due]\n", "      required: [due]\n      additionalPropertys: false\n",
     "warning unknown_keyword tools.find_loan.result_schema.additionalPropertys: no keyword of JS"),
    ("format: {enum: [print, audio]}", "format: {anyOf: [{enum: [print, audio]}, {nullable: 1}]}",
     "warning unknown_keyword tools.find_loan.input_schema.properties.format.anyOf.1.nullable"),
    ("desk: {description: Answers", "desk: {freeQuestions: true, description: Answers",
     "info not_used_yet agents.desk.freeQuestions: kept, but no decision depends on it"),
    ("desk: {description: Answers", "desk: {sub_agents: [desk], description: Answers",
     "info not_used_yet agents.desk.sub_agents"),
    ("desk: {description: Answers", "desk: {returns_to: desk, description: Answers",
     "info not_used_yet agents.desk.returns_to"),
    # faults of loading are findings, too
    ("effect: read", "efect: read", "error shape tools.find_loan.efect: unknown key"),
    ("      book: {provenance: [record, message]}\n", "",
     "error check tools.find_loan.input_schema.required.0: nothing can provide 'book'"),
    ('    question: {en: "Which number has the book whose due date you want to know?"}\n', "",
     "error check fields.book: expected a question"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), ADVICE)
def test_each_weakness_is_found(write: Write, old: str, new: str, expected: str) -> None:
    """Each weakness gives its finding, with severity, code and place."""
    findings = found(write(with_change(old, new)))

    assert any(finding.startswith(expected) for finding in findings), findings


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Manages an order", "Manage orders of a customer"),
        ("Handles an order of the customer", "Handles the customer's orders"),
        ("Gère une commande", "Permet de gérer les commandes"),
    ],
)
def test_descriptions_that_promise_the_same_overlap(one: str, other: str) -> None:
    """Two tools that both promise to manage an order cannot be told apart."""
    assert overlap(one, other) >= OVERLAP


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Looks up one order", "Cancels one order"),
        ("Searches flights", "Searches hotels"),
        ("Books a hotel room", "Searches for a hotel room"),
        ("", "Cancels one order"),
    ],
)
def test_descriptions_that_differ_by_their_verb_or_object_do_not(one: str, other: str) -> None:
    """A verb or an object of its own is enough to tell two short descriptions apart."""
    assert overlap(one, other) < OVERLAP


def test_a_file_that_cannot_be_read_is_no_finding(tmp_path: Path) -> None:
    """There is nothing to lint where nothing can be read."""
    with pytest.raises(CatalogError, match="cannot be read"):
        lint(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("      subject_header: X-Reader\n", "    data_scope: public\n"),
        ("due: {type: string}", "due: {type: string, x-unit: day}"),
        ("due: {type: string}", "due: {type: string, default: {additionalPropertys: 1}}"),
    ],
)
def test_what_is_meant_so_is_no_finding(write: Write, old: str, new: str) -> None:
    """Public data needs no customer; names of one's own and free values are no keywords."""
    assert found(write(with_change(old, new))) == []


def test_an_absent_default_locale_is_told_once(write: Write) -> None:
    """As an error; no warning repeats it for every text."""
    findings = found(write(with_change("default_locale: en", "default_locale: fr")))

    assert findings
    assert not [one for one in findings if not one.startswith("error check ")]
