"""Reading a yes or a no, where it may be all that stands between a proposal and a side effect.

A reply counts only as a whole: each of its words must belong to a yes, to a no, or to a courtesy.
One word that is not known may turn a yes around ("yes, but not now"), so it makes the reply none,
and the question is asked again. A no may be followed by reasons, for it leads to nothing.

The words are those of the languages that replies come in, not of a locale: people reply in
another language than the one they were asked in.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from turnstream.core.folding import folded

_WORD: Final = re.compile(r"\w+")

_ALONE: Final[Mapping[str, Literal["true", "false"]]] = {
    "y": "true",
    "o": "true",
    "s": "true",
    "j": "true",
    "1": "true",
    "n": "false",
    "0": "false",
}
"""What is a reply only where nothing else is written: beside others these are ordinary words."""

_YES: Final = (
    "yes, yeah, yep, yup, sure, ok, okay, of course, go ahead, please do, do it, true, correct, "
    "that is right, that s right, that is correct, that s correct, i confirm, confirmed, agreed, "
    "i agree, absolutely, definitely, all right, alright, yes i do, yes i am, yes it is, "
    "oui, ouais, d accord, bien sur, vas y, allez y, je confirme, c est bon, tout a fait, "
    "entendu, volontiers, "
    "ja, jawohl, jep, in ordnung, einverstanden, gerne, auf jeden fall, naturlich, stimmt, "
    "ich bestatige, "
    "si, claro, vale, de acuerdo, por supuesto, confirmo, adelante, correcto, "
    "sim, certo, va bene, d accordo"
)
_NO: Final = (
    "no, nope, nah, false, never, don t, do not, please don t, don t do it, do not do it, "
    "not now, no i don t, no i do not, no i am not, no it is not, "
    "non, pas maintenant, surtout pas, jamais, "
    "nein, nee, lieber nicht, nicht, niemals, auf keinen fall, "
    "nunca, ahora no, mejor no, nao"
)
_COURTESY: Final = (
    "please, pls, thanks, thank you, thank you very much, many thanks, "
    "merci, merci beaucoup, s il vous plait, s il te plait, svp, stp, "
    "bitte, danke, vielen dank, danke schon, "
    "gracias, muchas gracias, por favor, obrigado, obrigada, grazie"
)


_Meaning = Literal["true", "false", ""]
_LISTED: Final[Mapping[_Meaning, str]] = {"true": _YES, "false": _NO, "": _COURTESY}
_MEANING: Final = {
    tuple(phrase.split()): meaning
    for meaning, listed in _LISTED.items()
    for phrase in listed.split(", ")
}
_LONGEST: Final = max(map(len, _MEANING))
_NO_WITH_REASONS: Final = re.compile(r"\W*(?:no|nope|non|nein|nee|nao)\s*[,.;:!\u2013\u2014-]")
_ASKS: Final = frozenset("?\u00bf\u061f\uff1f\u037e")
_PLAIN: Final = re.compile(r"\w(?:[\w\s.,!'\"\u2019\u2013\u2014\u2026-]|[\U0001f44d\U0001f64f])*")
"""A yes is written in words and plain punctuation; two gestures only agree. What else there is, a
thumb down or letters that are struck through, may turn it around."""

_LAUGHTER: Final = "ja"
"""A yes that is none when repeated."""


def yes_or_no(text: str) -> Literal["true", "false"] | None:
    """Return what a reply to a question for a yes or a no says.

    Returns:
        `None` where it is not clearly one of the two.
    """
    if not _ASKS.isdisjoint(text):
        return None
    plain = folded(text)
    words = _WORD.findall(plain)
    meanings = list(_meanings(words))
    if len(words) == 1 and words[0] in _ALONE:
        meanings = [_ALONE[words[0]]]
    said = {meaning for meaning in meanings if meaning}
    whole = None not in meanings
    if whole and said == {"true"} and words.count(_LAUGHTER) <= 1:
        return "true" if _PLAIN.fullmatch(unicodedata.normalize("NFC", text)) else None
    if "true" not in said and ((whole and said) or _NO_WITH_REASONS.match(plain)):
        return "false"
    return None


def _meanings(words: Sequence[str]) -> Iterator[_Meaning | None]:
    """The meaning of each phrase, the longest first; `None` for a word of none."""
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST, len(words) - at), 0, -1):
            meaning = _MEANING.get(tuple(words[at : at + length]))
            if meaning is not None:
                yield meaning
                at += length
                break
        else:
            yield None
            at += 1
