"""The page of keys is that of the models."""

import re

import pytest

from tests.reference import PAGE, PARTS, shown, tables
from turnstream.config import Settings
from turnstream.core.bindings import HttpBinding
from turnstream.core.definitions import Catalog


@pytest.mark.parametrize("part", PARTS)
def test_the_tables_are_current(part: str) -> None:
    """The page shows the models; ``python -m tests.reference`` renews it."""
    assert tables(part) == shown(part)


def test_every_key_has_its_row() -> None:
    """Keys, types, defaults and texts are those of the models."""
    configuration, catalog = tables("configuration"), tables("catalog")

    for name in Settings.model_fields:
        assert f"| `{name}` | " in configuration
    for entry in (*Catalog.model_fields, *HttpBinding.model_fields):
        assert f"| `{entry}` | " in catalog
    assert "| `maxSteps` | integer, from 1 to 100 | `8` | Decisions about one" in catalog
    assert "| `text` | text per locale | required | What the customer reads at the h" in catalog
    assert "| `occurred_at` | milliseconds UTC | required | When it was written. |" in tables(
        "events"
    )


def test_what_the_page_links_to_is_there() -> None:
    """Every file, and every heading of its own."""
    page = PAGE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    }

    for target in re.findall(r"\]\(([^)]*)\)", page):
        if target.startswith("#"):
            assert target[1:] in headings
        else:
            assert (PAGE.parent / target).exists(), target
