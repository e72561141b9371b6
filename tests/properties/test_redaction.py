"""Redaction over any text: nothing comes back, nothing changes twice, places are right."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from turnstream.privacy import MARKERS, Detector, conflict, redacted_json

_DETECTOR = Detector(
    names_from_session=["John Smith", "Rose May", "José O'Brien", "王伟", "Card Phone"],
    default_region="US",
)
_FRENCH = Detector(names_from_session=["Jean-Luc Petit"], default_region="FR")

_PIECES = st.sampled_from(
    [
        *MARKERS.values(),
        "john@example.com",
        "josé@exämple.de",
        "4111 1111 1111 1111",
        "4111111111111111",
        "41111111",
        "DE89 3704 0044 0532 0130 00",
        "DE89",
        "536-90-4399",
        "12345678Z",
        "AB 12 34 56 C",
        "415-555-2671",
        "4155552671",
        "+33 6 12 34 56 78",
        "0612345678",
        "John",
        "smith",
        "Rose",
        "Petit",
        "O'Brien",
        "我是王伟",
        "Card",
        "order",
        "call",
        "ssn",
        "\u200b",
        "\u0301",
        "\u202e",
        "\ud800",
        "\n",
        " ",
        "  ",
        "-",
        ".",
        "@",
        "[",
        "]",
        "+",
        "(",
        "0",
        "7",
        "a",
        "\uff14",
        "\u0664",
        "是",
        '"',
        "'",
    ]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=4), max_size=14).map("".join)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400)
@given(text=_TEXTS, about=st.sampled_from(["", "order", "phone", "ssn"]))
def test_redacting_twice_is_redacting_once(text: str, about: str) -> None:
    """A redacted text has no findings."""
    for detector in (_DETECTOR, _FRENCH):
        once = detector.redacted(text, about=about).text

        assert (once, ()) == tuple(detector.redacted(once, about=about))


@settings(max_examples=200)
@given(text=_TEXTS)
def test_findings_say_what_was_replaced(text: str) -> None:
    """In order, apart, inside the text; what lies between them is in the redacted text."""
    redacted, findings = _DETECTOR.redacted(text)

    end = 0
    rebuilt = ""
    for one in findings:
        assert end <= one.start < one.end <= len(text)
        rebuilt += text[end : one.start] + MARKERS[one.kind]
        end = one.end
    assert rebuilt + text[end:] == redacted


@settings(max_examples=200)
@given(value=_VALUES)
def test_redacted_values_are_free_of_personal_data(value: JsonValue) -> None:
    """Redacted once more they are the same, and nothing in them is in conflict any more."""
    once = redacted_json(value, detector=_DETECTOR).value

    assert (once, {}) == tuple(redacted_json(once, detector=_DETECTOR))
    assert conflict(_DETECTOR, continuation=once) is None


@settings(max_examples=100)
@given(before=_TEXTS, after=_TEXTS)
def test_an_address_on_a_line_of_its_own_never_stays(before: str, after: str) -> None:
    """Whatever stands around it."""
    text = f"{before}\nsentinel-7f3@example.com\n{after}"

    assert "sentinel-7f3" not in _DETECTOR.redacted(text).text
