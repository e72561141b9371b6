"""Names that the session has told, and words that are the same."""

import pytest

from turnstream.privacy import Detector


@pytest.mark.parametrize(
    ("name", "text", "redacted"),
    [
        ("John Smith", "I am JOHN SMITH.", "I am [name]."),
        ("John Smith", "smith, john and Smith's", "[name] and [name]'s"),
        ("John Smith", "Johnson Smithers goldsmith", "Johnson Smithers goldsmith"),
        ("John Smith", "J. Smith or John S.", "[name] or [name]."),
        ("John Smith", "a smith named John", "a [name] named [name]"),
        ("John Smith", "John Smith John Smith, John", "[name] [name], [name]"),
        ("José García", "jose GARCIA", "[name]"),
        ("Jose Garcia", "Jose\u0301 Garci\u0301a", "[name]"),
        ("Jean-Pierre Dupont", "jean pierre, jeanpierre Dupont", "[name]"),
        ("Sean O'Brien", "OBrien and O\u2019Brien", "[name] and [name]"),
        ("Łukasz Wójcik", "lukasz wojcik", "[name]"),
        ("Straße", "STRASSE", "[name]"),
        ("Vincent van Gogh", "vincent van gogh in a van", "[name] in a van"),
        ("Ludwig van Beethoven", "the van is late", "the van is late"),
        ("Li Wei", "li wei; Li; I like li", "[name]; Li; I like li"),
        ("Li Wei", "I am Li", "I am [name]"),
        (
            "Will Smith",
            "Will you? will you? smith will call",
            "Will you? will you? [name] will call",
        ),
        ("Will Smith", "will smith", "[name]"),
        ("Rose May", "I met Rose in May", "I met [name] in [name]"),
        ("Rose May", "a rose may help", "a [name] help"),
        ("Rose", "rose", "[name]"),
        ("Rose", "my name is rose, a rose", "my name is [name], a rose"),
        ("May", "may I have your name", "may I have your name"),
        ("Petit", "je m'appelle petit, un petit colis", "je m'appelle [name], un petit colis"),
        ("Rose", "Rose!", "[name]!"),
        ("Rose", "a rose.\nRose water", "a rose.\nRose water"),
        ("王伟", "我是王伟。", "我是[name]。"),
        ("王 伟", "我是王伟。", "我是[name]。"),
        ("王", "我是王伟。", "我是王伟。"),
        ("Анна Иванова", "это АННА иванова", "это [name]"),
        ("دانة", "أنا دانة هنا", "أنا [name] هنا"),
        ("Matt and Alissa", "matt and others and alissa", "[name] and others [name]"),
        ("Agent 007", "agent 007", "[name] 007"),
        ("", "nothing", "nothing"),
        ("...", "nothing...", "nothing..."),
    ],
)
def test_names_are_whole_words(name: str, text: str, redacted: str) -> None:
    """Case, accents and hyphens do not matter; everyday words count only where they are meant."""
    detector = Detector(["name"], names_from_session=[name])

    assert redacted == detector.redacted(text).text


def test_parts_of_two_names_are_two_names() -> None:
    """Only parts of one name belong together."""
    detector = Detector(["name"], names_from_session=["John Smith", "Anna Miller"])

    assert "[name] [name]" == detector.redacted("John Miller").text


def test_a_claim_that_is_a_text_is_no_name() -> None:
    """Else each of its words would be removed everywhere."""
    text = "please leave the parcel with the neighbours on the left side of the street thanks"

    assert text == Detector(["name"], names_from_session=[text]).redacted(text).text


def test_names_are_looked_for_only_where_asked() -> None:
    """Names that are given do nothing without their kind."""
    assert "John" == Detector(["email"], names_from_session=["John"]).redacted("John").text


def test_a_detector_does_not_say_whose_it_is() -> None:
    """It holds names, and whatever logs it must not write them."""
    detector = Detector(names_from_session=["Zebulon Quartermain"])

    assert "ebulon" not in repr(detector) + str(detector)
