"""Loading a catalog, and every fault that keeps one from being loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.catalog.small import DEMO, SMALL, with_change
from turnstream.catalog import CatalogError, load_catalog
from turnstream.catalog.schemas import argument_check, argument_checks
from turnstream.core.bindings import HttpBinding
from turnstream.core.errors import DefinitionError
from turnstream.core.ruleset import ArgumentFault

Write = Callable[[str], Path]


MEANT = "unknown key; did you mean"
READ_OR_WRITE = "Input should be 'read' or 'write'"


def faults(path: Path) -> list[str]:
    """Line, path and message of everything that is wrong with a catalog."""
    with pytest.raises(CatalogError) as raised:
        load_catalog(path)
    return [f"{fault.line} {fault.path}: {fault.message}" for fault in raised.value.faults]


def line_of(text: str, piece: str) -> int:
    """The number of the first line that holds a piece of text."""
    return text[: text.index(piece)].count("\n") + 1


def test_a_right_catalog_loads(write: Write) -> None:
    """A catalog without faults comes with its path and both versions."""
    path = write(SMALL)

    loaded = load_catalog(path)

    assert loaded.path == path
    assert list(loaded.catalog.tools) == ["find_loan"]
    assert [16, 16] == [len(loaded.decision_version), len(loaded.presentation_version)]


def test_the_demo_catalog_loads() -> None:
    """The packaged catalog is valid and asks for an order exactly as it was approved."""
    catalog = load_catalog(DEMO).catalog
    question = catalog.fields["order_id"].question

    assert question is not None
    assert question["fr"] == "Indiquez le numéro de la commande concernée."
    assert catalog.subject_of_tool("get_order_status") == "order"


def test_shape_faults_come_all_at_once_with_their_lines(write: Write) -> None:
    """Unknown keys, absent keys and wrong values are reported together, in file order."""
    text = (
        SMALL.replace("default_queue: people\n", "")
        .replace("effect: read", "effect: look")
        .replace('    question: {en: "In which', '    qestion: {en: "In which')
        .replace("type: webchat", "type: webchat, publicaton: true")
    )

    found = faults(write(text))

    assert found == [
        "1 default_queue: required, but absent",
        f"6 channels.web.publicaton: {MEANT} 'publication'?",
        f"{line_of(text, 'look')} tools.find_loan.effect: {READ_OR_WRITE}, got 'look'",
        f"{line_of(text, 'qestion')} fields.format.qestion: {MEANT} 'question'?",
    ]


def test_faults_of_references_come_all_at_once(write: Write) -> None:
    """Two contradictions in one file give two faults."""
    text = SMALL.replace("entry_agent: desk", "entry_agent: none").replace(
        "default_queue: people", "default_queue: nobody"
    )

    assert faults(write(text)) == [
        "2 entry_agent: expected one of agents (desk), got 'none'",
        "3 default_queue: expected one of queues (people), got 'nobody'",
    ]


def test_the_error_names_file_line_and_path(write: Write) -> None:
    """The error's text begins with file and line and is a DefinitionError."""
    path = write(with_change("entry_agent: desk", "entry_agent: none"))

    with pytest.raises(DefinitionError) as raised:
        load_catalog(path)

    expected = f"{path}:2: entry_agent: expected one of agents (desk), got 'none'"
    assert expected == str(raised.value)


HEADERS = '      headers: {Authorization: "env:LIBRARY_TOKEN"}\n'

CONTRADICTIONS = [
    # names
    ("  format:\n    description: The f", "  free_text:\n    description: The f", "is reserved"),
    ("  web: {type", "  'a b': {type", "expected a channel id"),
    ("  hours:\n", "  find_loan:\n", "a tool has the same name"),
    ("  desk: {description", "  9desk: {description", "expected a name"),
    # references
    ("answer: no_loan}", "answer: nothing}", "expected the name of an approved answer"),
    ("answer: due_date\n", "answer: hours\n", "expected an answer with of_tool: find_loan"),
    ('of_tool: find_loan\n    text: {en: "{book}', 'of_tool: x\n    text: {en: "{book}',
     "expected one of tools (find_loan), got 'x'"),
    ("book: {provenance: [record, message]}", "book: {provenance: [message], field: no}",
     "expected a definition of 'no' under fields"),
    ("format: {provenance: [message]}", "colour: {provenance: [message]}",
     "expected a property of input_schema (book, format)"),
    ("format: {provenance: [message]}", "format: {provenance: [tool_result]}",
     "are given together or not at all"),
    ("format: {provenance: [message]}",
     "format: {provenance: [tool_result], from_result: find_loan.colour}",
     "expected TOOL.PROPERTY of a result_schema"),
    ("format: {provenance: [message]}", "format: {provenance: [message, message]}", "twice"),
    ("text: {en: A librarian will answer.}}",
     "text: {en: A.}, causes: [safety]}\n  more: {description: M, text: {en: M}, causes: [safety]}",
     "'safety' already leads to queue 'people'"),
    ("{description: Answers readers of the library.}",
     "{description: A., sub_agents: [nobody]}", "expected one of agents (desk), got 'nobody'"),
    ("{description: Answers readers of the library.}",
     "{description: A., returns_to: nobody}", "expected one of agents (desk), got 'nobody'"),
    ("  missing_permission: {", "  other: {", "expected a rule 'missing_permission'"),
    # arguments that nothing provides, fields that cannot be asked
    ("      book: {provenance: [record, message]}\n", "", "nothing can provide 'book'"),
    ('    question: {en: "Which number has the book whose due date you want to know?"}\n', "",
     "expected a question: find_loan lets the customer be asked for 'book'"),
    ('question: {en: "In which', 'question: {fr: "In which', "a text in the default locale"),
    # texts
    ("{en: Please sign in.}", "{en: ' '}", "got an empty one"),
    ("{en: Please sign in.}", "{en: 'No {right}.'}", "only the text of an approved answer"),
    ("{en: Please sign in.}", "{english: P., en: P.}", "expected a language tag"),
    ("default_locale: en", "default_locale: english language", "expected a language tag"),
    ("is due on {due}.", "is due on {date}.", "nothing provides {date}"),
    ("is due on {due}.", "is due on {due.day}.", "a bare name as placeholder, got {due.day}"),
    ("is due on {due}.", "is due on {due!r:>9}.", "placeholder, got {due!r:>9}"),
    ("is due on {due}.", "is due on {}.", "expected a bare name as placeholder, got {}"),
    ("is due on {due}.", "is due on {due.", "write {{ and }} for braces"),
    ('text: {en: "{book} is', 'words: {x: {a: {en: A}}}\n    text: {en: "{book} is',
     "no text of this answer has the placeholder {x}"),
    # patterns
    ('"B-[0-9]{3}"', '"B-[0-9"', "not a regular expression"),
    ('"B-[0-9]{3}"', "'B$|C-[0-9]{3}'", "an anchor inside the pattern"),
    ('"B-[0-9]{3}"', "'(?u:B-\\d{3})'", "leave the flags u and L out"),
    ('"B-[0-9]{3}"', "'B*'", "matches the empty text"),
    ("    type: choice\n", "    type: choice\n    pattern: x\n", "this one is choice"),
    ('    pattern: "B-[0-9]{3}"\n', '    pattern: "B-[0-9]{3}"\n    suggestions: [B-1]\n',
     "'B-1' is not a valid value"),
    ('    pattern: "B-[0-9]{3}"\n', '    pattern: "B-[0-9]{3}"\n    restricted: true\n',
     "expected suggestions"),
    ('    pattern: "B-[0-9]{3}"\n', "    type: number\n    minimum: 2\n    maximum: 1\n",
     "expected at least minimum, 2"),
    ('    pattern: "B-[0-9]{3}"\n', "    question_for: {nothing: {en: X}}\n",
     "expected the name of a tool or of an approved answer"),
    # schemas
    ("book: {type: string}", "book: {type: text}", "not a usable JSON Schema 2020-12"),
    ("book: {type: string}", "book: {type: string, pattern: '('}", "not a usable JSON Schema"),
    ("book: {type: string}", "book: {type: string, pattern: '(?=a)b'}", "not a usable JSON"),
    ("book: {type: string}", "book: {$ref: 'http://127.0.0.1:9/x'}", "not a usable JSON Schema"),
    ("required: [book]", "required: [book, page]", "'page' is required but not among"),
    ("enum: [print, audio]", "enum: [print, film]", "the field allows 'audio'"),
    ("        answer: due_date\n".removeprefix("    "),
     "    answer: due_date\n    returns_passages: due\n",
     "expected the name of a property of result_schema with type: array"),
    # bindings
    ('"{LIBRARY_URL}/loans/{book}"', "ftp://x/y", "expected http(s):// and a host"),
    ('"{LIBRARY_URL}/loans/{book}"', "https://u:p@x/y", "expected http(s):// and a host"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x{book}/y'", "expected http(s):// and a host"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://{book}.x/y'", "expected http(s):// and a host"),
    ('"{LIBRARY_URL}/loans/{book}"', "'{LIBRARY_URL}loans'", "expected a path after"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x/{PATH}'", "only stand at the start"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x/{page}'", "expected an argument of the tool"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x/{format}'", "must be required"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x/y?api_key=abc'", "send it as a header"),
    ('"{LIBRARY_URL}/loans/{book}"', "'https://x/y#z'", "expected no fragment"),
    ('"env:LIBRARY_TOKEN"', "Bearer abc", "expected a reference to a secret"),
    ('{Authorization: "env:LIBRARY_TOKEN"}', "{X-Api-Key: abc}", "expected a reference to a"),
    ('{Authorization: "env:LIBRARY_TOKEN"}', "{X-Way: Bearer abc}", "expected a reference to"),
    ('{Authorization: "env:LIBRARY_TOKEN"}', "{'X Way': a}", "the name of an HTTP header"),
    ('{Authorization: "env:LIBRARY_TOKEN"}', '{X-Way: "a\\r\\nb"}', "printable ASCII"),
    ('{Authorization: "env:LIBRARY_TOKEN"}', "{idempotency-key: a}", "leave it out"),
    # what became of a call
    (HEADERS, HEADERS + "      reconcile: {url: 'https://x/{idempotency_key}'}\n",
     "only of a write can it be unknown"),
    (HEADERS, HEADERS + "      reconcile: {url: 'https://x/loans/{book}'}\n",
     "expected {idempotency_key}"),
    (HEADERS, HEADERS + "      reconcile: {url: 'https://x/{page}', method: POST}\n",
     "{page}: expected an argument of the tool"),
    (HEADERS, HEADERS + "      reconcile: {url: 'ftp://x/y', method: POST}\n",
     "expected http(s):// and a host"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), CONTRADICTIONS)
def test_contradictions_are_refused_at_their_line(
    write: Write, old: str, new: str, message: str
) -> None:
    """Each contradiction is one of the faults, and every fault has a line and a path."""
    found = faults(write(with_change(old, new)))

    assert any(message in fault for fault in found), found
    assert not any(fault.startswith("None") for fault in found)


def test_no_channel_is_a_fault(write: Write) -> None:
    """A catalog without channels would refuse every turn."""
    found = faults(write(with_change("channels:\n  web: {type: webchat}\n", "channels: {}\n")))

    assert found == ["6 channels: expected at least one channel, else every turn is refused"]


def test_a_literal_secret_is_not_repeated(write: Write) -> None:
    """The error about a header does not show the header's value."""
    assert "hunter2" not in str(faults(write(with_change('"env:LIBRARY_TOKEN"', "hunter2"))))


@pytest.mark.parametrize("pattern", ['"^B-[0-9]{3}$"', "'B-[0-9]{3}\\Z'", "'[$^]{2}\\$'"])
def test_outer_anchors_and_escaped_ones_are_fine(write: Write, pattern: str) -> None:
    """Anchors at both ends say what holds anyway; escaped ones are characters."""
    load_catalog(write(with_change('"B-[0-9]{3}"', pattern)))


def test_an_absent_file_is_a_catalog_error(tmp_path: Path) -> None:
    """A missing catalog stops the start with an error that names the file."""
    with pytest.raises(CatalogError, match=r"none\.yaml: cannot be read"):
        load_catalog(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("'[0-9'", "not a regular expression: unterminated character set at position 0"),
        ("'^(a$'", "not a regular expression: missing ), unterminated subpattern at position 1"),
    ],
)
def test_a_broken_pattern_is_told_in_its_own_terms(
    write: Write, pattern: str, message: str
) -> None:
    """Nothing is quoted that is not in the file."""
    found = faults(write(with_change('"B-[0-9]{3}"', pattern)))

    assert [fault for fault in found if message in fault] == found


def test_a_wrong_entry_is_one_fault(write: Write) -> None:
    """A list is not also too short because its only entry is wrong."""
    found = faults(
        write(with_change("format: {provenance: [message]}", "format: {provenance: [x]}"))
    )

    assert ["tools.find_loan.arguments.format.provenance.0:"] == [
        fault.split()[1] for fault in found
    ]


def test_an_empty_list_is_still_too_short(write: Write) -> None:
    """Nothing else is wrong with it."""
    found = faults(
        write(with_change("format: {provenance: [message]}", "format: {provenance: []}"))
    )

    assert 1 == len(found)
    assert "at least 1 item" in found[0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"\xe9", "2 : expected UTF-8 text, byte 4 of the line is not"),
        (b"\x07", "2 : not valid YAML: the character U+0007 is not allowed"),
    ],
)
def test_what_is_no_text_is_told_with_its_line(tmp_path: Path, bad: bytes, message: str) -> None:
    """Also where the YAML cannot be read at all."""
    path = tmp_path / "catalog.yaml"
    path.write_bytes(b"a: 1\nb: " + bad + b"\n")

    assert [fault[: len(message)] for fault in faults(path)] == [message]


def test_a_list_is_no_catalog(write: Write) -> None:
    """A file of another shape is refused as a whole."""
    assert faults(write("- a\n")) == ["1 : expected a mapping with tools, fields, answers"]


# --- argument checks ----------------------------------------------------------------------------


def test_arguments_are_checked_without_repeating_them() -> None:
    """A fault names path and keyword, and never holds the value."""
    check = argument_checks(load_catalog(DEMO).catalog)["get_order_status"]

    assert check({"order_id": "A-1001"}) is None
    expected = ArgumentFault("/order_id", "pattern", 'the value does not match "^A-[0-9]{4}$"')
    assert expected == check({"order_id": "somebody's secret"})


@pytest.mark.parametrize(
    ("value", "fits"),
    [("A-1\n", False), ("A-١٢", False), ("a-1", False), ("A-1 ", False), ("A-1", True)],
)
def test_patterns_end_at_the_end_and_digits_are_ascii(value: str, fits: bool) -> None:
    r"""In a schema's pattern ``$`` is the very end and ``\d`` is 0 to 9."""
    check = argument_check({"type": "object", "properties": {"id": {"pattern": r"^A-\d+$"}}})

    assert fits == (check({"id": value}) is None)


def test_formats_are_enforced() -> None:
    """A value that is not of its format is refused, as documented."""
    check = argument_check({"type": "object", "properties": {"day": {"format": "date"}}})

    assert check({"day": "2026-01-31"}) is None
    assert check({"day": "not a date"}) is not None


# --- questions about a write --------------------------------------------------------------------


RETURN_BOOK = with_change("effect: read", "effect: write").replace(
    HEADERS, HEADERS + "      reconcile: {url: '{LIBRARY_URL}/by-key/{idempotency_key}/{book}'}\n"
)
"""The small catalog with a write that can be asked about."""


def test_a_binding_is_one_to_http_unless_it_says_otherwise(write: Write) -> None:
    """Most are; and another word is refused with those that there are."""
    plain = load_catalog(write(with_change("kind: http", ""))).catalog
    (fault,) = faults(write(with_change("kind: http", "kind: smoke")))

    assert isinstance(plain.tools["find_loan"].binding, HttpBinding)
    assert "http, function or mcp" in fault


def test_a_write_may_be_asked_about(write: Write) -> None:
    """The key and required arguments may stand in the question's URL; its base is filled in too."""
    catalog = load_catalog(write(RETURN_BOOK)).catalog
    binding = catalog.tools["find_loan"].binding
    assert isinstance(binding, HttpBinding)
    filled = binding.with_variables({"LIBRARY_URL": "http://127.0.0.1:1"})

    assert filled.reconcile is not None
    assert "http://127.0.0.1:1/by-key/{idempotency_key}/{book}" == filled.reconcile.url


def test_no_argument_may_be_taken_for_the_key(write: Write) -> None:
    """A customer's words must not choose which call is asked about."""
    argument = "book: {type: string}\n        idempotency_key: {type: string}\n"
    found = faults(write(RETURN_BOOK.replace("book: {type: string}\n", argument)))

    assert any("cannot be told from ours" in fault for fault in found), found
