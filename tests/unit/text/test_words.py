"""Reading words: folding, splitting, correcting, and what a negation reaches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import process
from rapidfuzz.distance import OSA

from turnstream.text import OptionTexts, TextIndex, vocabulary
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


LETTERS = "abcdeinorstué配"


@given(
    known=st.lists(st.text(LETTERS, min_size=1, max_size=9), max_size=20),
    function=st.lists(st.text(LETTERS, min_size=1, max_size=9), max_size=5),
    word=st.text(LETTERS, min_size=1, max_size=12),
    data=st.data(),
)
def test_the_speller_leaves_out_only_what_cannot_be_meant(
    known: list[str], function: list[str], word: str, data: st.DataObject
) -> None:
    """It finds what a comparison with every known word would."""
    if known:
        begun = data.draw(st.sampled_from(known))
        word = data.draw(st.sampled_from([word, begun + word[:1], begun[:-1], begun[1:]])) or word

    assert compared_with_all(word, known, function) == Speller(known, function).meant(word)


def compared_with_all(word: str, content: list[str], function: list[str]) -> str | None:
    """The word that is meant, found without any index."""
    if 1 < len(word) <= 4 and not set("aeiouy") & set(word):
        found = [one for one in content if one[0] == word[0] and in_order(word, one)]
        return min(
            found, key=lambda one: (vocabulary._consonants(one) - len(word), one), default=None
        )
    if len(word) < 4:
        return None
    if cut := [one for one in content if one.startswith(word)]:
        return min(cut, key=lambda one: (len(one), one))
    everything = sorted({*content, *(one for one in function if len(one) >= 4)})
    best = process.extractOne(
        word, everything, scorer=OSA.normalized_similarity, score_cutoff=vocabulary._SIMILAR
    )
    if best is None or not (best[0] in content or len(best[0]) == len(word)):
        return None
    return str(best[0])


def in_order(letters: str, word: str) -> bool:
    """Whether a word has the letters in this order."""
    rest = iter(word)
    return all(letter in rest for letter in letters)


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
    alone = INDEX.score(INDEX.read("Hello"))
    beside = INDEX.score(INDEX.read("Hello, cancel"))

    assert alone[2] > 0 > beside[2]


def test_function_words_alone_say_nothing() -> None:
    """A message without content scores zero everywhere."""
    assert [0.0, 0.0, 0.0] == INDEX.score(INDEX.read("is it my"))


def test_share_of_unknown_content_words() -> None:
    """Words that no option and no concept knows are told apart from the others."""
    assert 0.5 == INDEX.read("cancel zebra").foreign_share
    assert 0.0 == INDEX.read("cancel my order").foreign_share


def test_unknown_words_dilute_a_request() -> None:
    """What a message says counts for less among words that no option knows."""
    plain = INDEX.score(INDEX.read("cancel"))
    diluted = INDEX.score(INDEX.read("cancel zebra giraffe"))

    assert plain[0] > diluted[0] > 0


def test_no_word_decides_alone() -> None:
    """However often a word stands in the examples, what it says is bounded."""
    word = INDEX.read("cancel").words[0]

    assert all(-3.5 <= weight <= 3.5 for weight in word.weights)


@pytest.mark.parametrize("text", ["scrap it", "abandonner", "call off", "laisser tomber"])
def test_other_words_of_a_concept_are_understood(text: str) -> None:
    """A word that no example uses scores through its concept, alone or as a phrase."""
    scores = INDEX.score(INDEX.read(text))

    assert max(scores) == scores[0] > 0


@pytest.mark.parametrize(("short", "long"), [("cmd", "commande"), ("ordr", "order")])
def test_abbreviations_stand_for_their_word(short: str, long: str) -> None:
    """An abbreviation says what its word says."""
    assert INDEX.read(long).words[0].weights == INDEX.read(short).words[0].weights


def test_background_takes_what_belongs_to_no_option() -> None:
    """Requests of the background score below zero for every option."""
    index = TextIndex(
        [OptionTexts("", ["Cancel my order", "Drop my order"])],
        languages=("en",),
        background=["Change my address", "Cancel my order please"],
    )

    assert index.score(index.read("new address"))[0] < 0 < index.score(index.read("cancel"))[0]


def test_description_does_not_stand_for_what_it_excludes() -> None:
    """What comes after a negation in a description is no evidence for the option."""
    index = TextIndex([OptionTexts("Cancels what has not left the depot")], languages=("en",))

    assert [0.0] == index.score(index.read("depot"))


def test_no_options() -> None:
    """An index of nothing gives no scores."""
    index = TextIndex([], languages=("en",))

    assert [] == index.score(index.read("hello order"))


def test_language_without_stemmer_uses_whole_words() -> None:
    """A language that Snowball does not know is compared word by word."""
    assert (":kirja",) == Stems(("xx",)).of("kirja")


def test_unknown_language_has_an_empty_lexicon() -> None:
    """Languages without a list add nothing."""
    assert not lexicon_of(("xx",)).function
    assert lexicon_of(("en",)) == lexicon_of(("en", "xx"))


def test_words_about_the_conversation_count_only_without_a_value() -> None:
    """Beside a value, what says that it was mistyped is no content."""
    assert INDEX.read("wrong number").has_content
    assert not INDEX.read("sorry, wrong number, I meant A-1234").has_content
