"""Categories and titles without a model."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.classifiers.embedded import (
    MAX_CATEGORIES,
    TITLE_CHARACTERS,
    EmbeddedClassifier,
)
from turnstream.core.definitions import Catalog
from turnstream.core.ports import Classification, Exchange, Message


def _catalog() -> Catalog:
    path = Path(__file__).parents[2] / "fixtures" / "shop_catalog.yaml"
    return Catalog.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


CATALOG = _catalog()
CLASSIFIER = EmbeddedClassifier(CATALOG)


def _classified(*texts: str) -> Classification:
    messages = tuple(Message("customer", text) for text in texts)
    return CLASSIFIER.classify(Exchange("exchange", "en", messages))


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Where is my order A-1001?", "orders"),
        ("Combien coûte la livraison ?", "delivery"),
        ("Je veux renvoyer un article", "returns"),
        ("Quels sont vos horaires ?", "stores"),
    ],
)
def test_category_of_a_request(text: str, category: str) -> None:
    """The best category of a plain request comes first."""
    assert category == _classified(text).categories[0]


def test_categories_describe_the_whole_conversation() -> None:
    """An earlier subject stays a category after the customer has gone on to another."""
    found = _classified("Where is my order?", "What are your opening hours?")

    assert {"orders", "stores"} <= set(found.categories)


def test_nothing_is_labelled_by_chance() -> None:
    """A subject outside the catalog gets no category."""
    assert () == _classified("Quelle est la recette des crêpes ?").categories


@pytest.mark.parametrize("text", ["Bonjour !", "thank you very much", "", "?!", "merci svp"])
def test_courtesies_have_no_title(text: str) -> None:
    """A greeting or thanks leaves title and categories empty."""
    found = _classified(text)

    assert ("", ()) == (found.title, found.categories)


def test_title_is_the_question_without_its_greeting() -> None:
    """The title is the sentence that asks, without what is said to be polite."""
    found = _classified("Hello, where is my parcel? I ordered it last week.")

    assert "Where is my parcel?" == found.title


def test_title_is_the_latest_request() -> None:
    """Thanks at the end do not replace the last request's title."""
    assert "Cancel my order" == _classified("Opening hours?", "cancel my order", "thanks").title


@pytest.mark.parametrize(
    "private",
    ["a.b@example.org", "+33 6 12 34 56 78", "4111 1111 1111 1111", "https://example.org/x?y=1"],
)
def test_title_has_no_contact_details(private: str) -> None:
    """Addresses and long numbers do not reach a title."""
    title = _classified(f"Cancel my order, write to {private} please").title

    assert private not in title
    assert "ancel my order" in title


def test_only_the_customer_is_read() -> None:
    """Our own messages and those of agents label nothing."""
    messages = (Message("assistant", "Your order is cancelled"), Message("agent", "opening hours"))
    found = CLASSIFIER.classify(Exchange("exchange", "en", messages))

    assert Classification("", (), "embedded-1") == found


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=200), max_size=5))
def test_labels_are_closed_and_bounded(texts: list[str]) -> None:
    """Whatever is written, categories are the catalog's and a title fits its line."""
    found = _classified(*texts)

    assert set(found.categories) <= set(CATALOG.categories)
    assert len(found.categories) <= MAX_CATEGORIES
    assert len(found.title) <= TITLE_CHARACTERS
    assert "\n" not in found.title
