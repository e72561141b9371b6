"""Reading words: folding, splitting, correcting, and what a negation reaches."""

import pytest

from turnstream.text import OptionTexts, TextIndex
from turnstream.text.lexicon import lexicon_of
from turnstream.text.mentions import Mentions
from turnstream.text.vocabulary import Speller, Stems
from turnstream.text.words import BOUNDARY, MAX_CHARACTERS, pieces

INDEX = TextIndex(
    [
        OptionTexts("Cancels an order.", ["Annulez ma commande", "Cancel my order"]),
        OptionTexts("Stock.", ["La bouilloire est-elle disponible à Lyon ?"], ("city",)),
        OptionTexts("", ["Hello", "Merci beaucoup"]),
    ],
    languages=("en", "fr"),
    patterns={"order_id": "^[A-Z]-[0-9]{4}$", "anything": ".*"},
    wordings={"city": ["Lyon", "Aix en Provence"]},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L’étiquette n'est PAS là", ["l", "etiquette", "n", "est", "pas", "la"]),
        ("I don't, sorry", ["i", "dont", BOUNDARY, "sorry"]),
        ("Livrez-vous ?", ["livrez", "vous", BOUNDARY]),
        ("配送料", ["配送", "送料"]),
        ("", []),
    ],
)
def test_pieces(text: str, expected: list[str]) -> None:
    """Words are folded and split at apostrophes, hyphens and punctuation."""
    assert expected == pieces(text)


def test_long_text_is_cut() -> None:
    """Only the beginning of a pasted document is read."""
    assert MAX_CHARACTERS // 2 == len(pieces("a " * 1_000_000))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("comande", "commande"),
        ("cancle", "cancel"),
        ("dispo", "disponible"),
        ("cmd", "commande"),
        ("wehre", "where"),
        ("parcel", None),
        ("xyzzyx", None),
        ("zz", None),
        ("a" * 100, None),
    ],
)
def test_speller(written: str, meant: str | None) -> None:
    """Slips, cut words and consonants are completed; other words are left alone."""
    speller = Speller(["commande", "cancel", "disponible"], ["where", "parce"])

    assert meant == speller.meant(written)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("annulez ma commande", []),
        ("n'annulez pas ma commande", ["annulez", "commande"]),
        ("je ne veux plus annuler", ["annuler"]),
        ("j'ai déjà annulé", ["annule"]),
        ("il me faut annuler, pas attendre", ["attendre"]),
        ("do not cancel", ["cancel"]),
        ("I cancelled it", ["cancelled"]),
        ("has it been cancelled", ["cancelled"]),
        ("I do not like it, cancel", []),
        ("I have an order to cancel", []),
    ],
)
def test_denied_words(text: str, denied: list[str]) -> None:
    """A negation reaches the next content word of its clause, an auxiliary its participle."""
    reading = INDEX.read(text)

    assert denied == [
        reading.words[at].text for at in reading.denied if reading.words[at].text != "like"
    ]


def test_values_are_mentions_of_fields() -> None:
    """Identifiers and choices are found; a pattern that fits everything is not used."""
    reading = INDEX.read("a-1234 à Aix-en-Provence ou LYON")

    assert ("order_id", "city") == reading.fields


def test_phrase_must_be_complete() -> None:
    """The first word of a choice of several words is no mention of it."""
    mentions = Mentions({}, {"city": ["Aix en Provence"]}, Stems(("fr",)).key)
    key = Stems(("fr",)).key

    assert {} == mentions.of_wording([key("aix"), key("bien")])


def test_courtesy_counts_only_alone() -> None:
    """A greeting scores when nothing else is said, and not beside a request."""
    alone = INDEX.score(INDEX.read("Hello")).values
    beside = INDEX.score(INDEX.read("Hello, cancel")).values

    assert alone[2] > 0 == beside[2]


def test_function_words_alone_say_nothing() -> None:
    """A message without content scores zero everywhere."""
    assert [0.0, 0.0, 0.0] == INDEX.score(INDEX.read("is it my")).values


def test_unknown_content_words_are_counted_once_each() -> None:
    """Words that no option knows are evidence against all of them."""
    assert 2 == INDEX.score(INDEX.read("cancel umbrella zebra umbrella")).foreign


def test_description_does_not_stand_for_what_it_excludes() -> None:
    """What comes after a negation in a description is no evidence for the option."""
    index = TextIndex([OptionTexts("Cancels what has not left the depot")], languages=("en",))

    assert [0.0] == index.score(index.read("depot")).values


def test_no_options() -> None:
    """An index of nothing gives no scores."""
    index = TextIndex([], languages=("en",))

    assert [] == index.score(index.read("hello order")).values


def test_language_without_stemmer_uses_whole_words() -> None:
    """A language that Snowball does not know is compared word by word."""
    assert (":kirja",) == Stems(("xx",)).of("kirja")


def test_unknown_language_has_an_empty_lexicon() -> None:
    """Languages without a list add nothing; listed ones come from the library."""
    assert not lexicon_of(("xx",)).function
    assert "und" in lexicon_of(("de",)).function
