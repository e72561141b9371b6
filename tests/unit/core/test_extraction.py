"""Tests of turnstream.core.extraction."""

import pytest

from tests.catalogs import RULES
from turnstream.core.definitions import FieldDefinition
from turnstream.core.extraction import Extractor
from turnstream.core.folding import folded

EXTRACTOR = RULES.extractor


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where is A-12?", ("A-12",)),
        ("a-12 and A-13, a-12", ("A-12", "A-13")),
        ("A-12\n", ("A-12",)),
        ("BA-12", ()),
        ("A-12-3", ()),
        ("A-1٢", ()),
        ("éA-1", ()),
        ("A-١٢", ()),
        (" ".join(f"A-{number}" for number in range(20)), tuple(f"A-{n}" for n in range(8))),
        ("A-" + "1" * 300, ()),
    ],
)
def test_patterns_in_messages(text: str, found: tuple[str, ...]) -> None:
    """A pattern is found as a whole word, in the form that the field defines."""
    assert found == EXTRACTOR.candidates(text).get("order_id", ())


def test_a_form_that_no_case_makes_right_is_no_value() -> None:
    """A field whose values mix cases is found as written only."""
    field = FieldDefinition.model_validate({"description": "", "pattern": "Ab-[0-9]+"})
    extractor = Extractor({"lot": field})

    assert ("Ab-2",) == extractor.candidates("aB-1, AB-1 or Ab-2")["lot"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the FEES please", ("fees",)),
        ("les frais", ("fees",)),
        ("costs, costs, fees", ("fees",)),
        ("How long, and which fees?", ("delays", "fees")),
        ("how", ()),
        ("how many", ()),
    ],
)
def test_choices_in_messages(text: str, found: tuple[str, ...]) -> None:
    """A choice is found by its value, labels and aliases, in any case and locale."""
    assert found == EXTRACTOR.candidates(text).get("topic", ())


def test_longest_wording_wins() -> None:
    """A longer wording hides a shorter one inside it; unusable wordings do no harm."""
    fields = {
        "lamp": FieldDefinition.model_validate(
            {
                "description": "Lamp.",
                "type": "choice",
                "choices": {
                    "desk": {"label": {"en": "desk lamp"}},
                    "lamp": {"label": {"en": "lamp"}, "aliases": ["desk lamp shade", "!?"]},
                },
            }
        )
    }
    extractor = Extractor(fields)

    assert {"lamp": ("lamp",)} == extractor.candidates("a desk lamp shade")
    assert {"lamp": ("desk", "lamp")} == extractor.candidates("desk lamp lamp")


@pytest.mark.parametrize(
    ("field", "text", "found"),
    [
        ("order_id", "it is a-3", ("A-3",)),
        ("topic", "fees", ("fees",)),
        ("topic", "nothing", ()),
        ("receipt", "Yes, please", ("true",)),
        ("receipt", "false", ("false",)),
        ("receipt", "0", ("false",)),
        ("receipt", "yes and no", ()),
        ("receipt", "perhaps", ()),
        ("copies", "3", ("3",)),
        ("copies", "3.0", ("3",)),
        ("copies", "2 or 3", ("2", "3")),
        ("copies", "3 3", ("3",)),
        ("copies", "3.5", ()),
        ("copies", "0", ()),
        ("copies", "10", ()),
        ("copies", "9" * 5000, ()),
        ("copies", "v3", ()),
        ("total", "-1,50 EUR", ("-1.5",)),
        ("total", "1,250", ()),
        ("total", "1.250", ()),
        ("total", "1,250.00", ("1250",)),
        ("total", "1.250,50 EUR", ("1250.5",)),
        ("total", "1 250,50", ("1250.5",)),
        ("total", "1 250", ("1250",)),
        ("total", "1 250 or 3", ()),
        ("total", "1,250 for 3", ()),
        ("total", "1.250 Euro für 3", ()),
        ("total", "order 12 500 euros", ()),
        ("total", "5k for 3", ()),
        ("total", "5 million", ()),
        ("total", "10 %", ()),
        ("total", "50% of 80", ()),
        ("total", "0.125", ("0.125",)),
        ("total", "007", ("7",)),
        ("total", " ".join(map(str, range(20))), tuple(map(str, range(8)))),
        ("note", "  call me ", ("call me",)),
        ("note", "a\x00b", ("a\ufffdb",)),
        ("note", " ", ()),
        ("note", "x" * 51, ()),
    ],
)
def test_replies(field: str, text: str, found: tuple[str, ...]) -> None:
    """A reply is read by its field's type; what is not a value of that type is no reply."""
    assert found == EXTRACTOR.reply(field, text)


@pytest.mark.parametrize(
    ("field", "value", "valid"),
    [
        ("order_id", "A-1", True),
        ("order_id", "A-1\n", False),
        ("order_id", "a-1", False),
        ("order_id", "A-" + "1" * 300, False),
        ("topic", "fees", True),
        ("topic", "Fees", False),
        ("copies", "3", True),
        ("copies", "3 4", False),
        ("total", "3.50", True),
        ("total", "3.125", True),
        ("total", "3,50", False),
        ("copies", "3.0", True),
        ("copies", "3.5", False),
        ("copies", "0", False),
        ("copies", "10", False),
        ("receipt", "true", True),
        ("receipt", "yes", False),
        ("note", "hi", True),
        ("note", "x" * 51, False),
    ],
)
def test_values_from_elsewhere(field: str, value: str, valid: bool) -> None:
    """A value from a record is taken only in the field's own form."""
    assert valid == EXTRACTOR.valid(field, value)


@pytest.mark.parametrize("pattern", ["^X[0-9]$", r"X\d\Z", "X[0-9]", r"^X[0-9]\Z"])
def test_anchors_do_not_matter(pattern: str) -> None:
    """A pattern is whole whether it says so or not."""
    extractor = Extractor({"x": FieldDefinition(description="X.", pattern=pattern)})

    assert {"x": ("X1",)} == extractor.candidates("it is x1.")
    assert not extractor.valid("x", "X1\n")


def test_an_escaped_dollar_is_no_anchor() -> None:
    """The text's own dollar stays."""
    extractor = Extractor({"x": FieldDefinition(description="X.", pattern=r"[0-9]+\$")})

    assert extractor.valid("x", "5$")


def test_lower_case_patterns() -> None:
    """A value whose form is lower case is found in upper case, too."""
    extractor = Extractor({"x": FieldDefinition(description="X.", pattern="ref-[0-9]")})

    assert {"x": ("ref-1",)} == extractor.candidates("REF-1")
    assert {} == extractor.candidates("Ref-x")


def test_folding() -> None:
    """Words are compared without case and accents."""
    assert "deja vu" == folded("DÉJÀ Vu")
    assert "abc" == folded("AbC")
