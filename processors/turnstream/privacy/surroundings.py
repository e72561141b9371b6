"""What the words around a number say it is.

A bare number looks like many things. The nearest word that says one or the other decides: the words
before it in its sentence come first, then those after it, then the key that it stands under in a
JSON object.
"""

import re
from collections.abc import Iterator
from typing import Final

from turnstream.privacy.reading import folded

_BEFORE: Final = 60
"""Characters looked at before a number: five words of any language."""
_AFTER: Final = 40
"""Characters looked at after it."""
_WORDS_BEFORE: Final = 5
_WORDS_AFTER: Final = 4

_WORD: Final = re.compile(r"[^\W\d_]+")
_END: Final = re.compile(r"[!?;]|[^\W\d_]{4,}\.\s|\n\s*\n")
"""The end of a sentence. A full stop after a short word may be that of *no.* or *tel.*"""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words(table: str) -> frozenset[str]:
    """The words of a table, without case and accents."""
    return frozenset(folded(table).text.split())


IDENTIFIERS: Final = words(
    """
    order orders ordernumber invoice reference ref tracking track ticket case booking reservation
    confirmation parcel package shipment item product article sku serial imei isbn ean upc customer
    account member membership id code transaction payment claim policy contract quote
    commande facture référence suivi colis dossier réservation article produit série client compte
    contrat devis billet
    pedido factura referencia seguimiento reserva cuenta cliente encomenda fatura rastreio
    bestellung bestellnummer rechnung rechnungsnummer sendung sendungsnummer kundennummer auftrag
    auftragsnummer vorgang artikel artikelnummer
    ordine fattura spedizione pratica
    bestelling bestelnummer ordernummer factuur factuurnummer klantnummer
    zamówienie zamówienia faktura
    """
)
"""A number after one of these is a shop's, not a person's."""


def told(
    text: str,
    start: int,
    end: int,
    *,
    yes: frozenset[str],
    no: frozenset[str] = frozenset(),
    about: str = "",
) -> bool | None:
    """Whether the words around a part of a reading say yes or no; None where they say neither.

    Args:
        text: the reading.
        start: where the part begins.
        end: where it ends.
        yes: folded words for it.
        no: folded words against it.
        about: the key of the JSON object that holds the text, or empty.
    """
    for word in _words_around(text, start, end, about):
        if word in yes:
            return True
        if word in no:
            return False
    return None


def _words_around(text: str, start: int, end: int, about: str) -> Iterator[str]:
    sentence = _END.split(text[max(0, start - _BEFORE) : start])[-1]
    yield from reversed(_folded_words(sentence)[-_WORDS_BEFORE:])
    sentence = _END.split(text[end : end + _AFTER], maxsplit=1)[0]
    yield from _folded_words(sentence)[:_WORDS_AFTER]
    yield from reversed(_folded_words(_HUMP.sub(" ", about)))


def _folded_words(text: str) -> list[str]:
    return _WORD.findall(folded(text).text)
