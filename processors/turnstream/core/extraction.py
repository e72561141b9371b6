r"""Finding field values in what a customer writes, by the fields' own validation.

Two kinds of field are recognised anywhere in a message: a `string` with a pattern (an order
number) and a `choice` (a city, by its labels and aliases). The other kinds - numbers, yes or no,
free text - would match too much, so they are read only from a reply to their own question.

Patterns are matched as whole words, with ASCII classes, and to the very end: Python's ``$`` also
matches before a final newline and its ``\d`` matches digits of every script, which no order number
means. A word goes on in any script, so half a word is never taken for a number.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, assert_never

from turnstream.core.bounds import CANDIDATES, cleaned
from turnstream.core.definitions import FieldDefinition
from turnstream.core.folding import folded
from turnstream.core.written_numbers import numbers_in
from turnstream.core.yes_or_no import yes_or_no

_WORD: Final = re.compile(r"\w+")
_ANCHORS: Final = re.compile(r"\A\^|(?<!\\)\$\Z|(?<!\\)\\Z\Z")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")
"""A number as sessions, records and results have it: no other reading of it is possible."""


class Extractor:
    """Finds candidate values for the fields of one catalog."""

    def __init__(self, fields: Mapping[str, FieldDefinition]) -> None:
        """Compile the fields' patterns and choices."""
        self._fields = fields
        self._patterns: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {}
        self._choices: dict[str, list[tuple[tuple[str, ...], str, str]]] = {}
        for name, definition in fields.items():
            if definition.pattern is not None:
                self._patterns[name] = _compiled(definition.pattern)
            for value, choice in definition.choices.items():
                for wording in {value, *choice.label.values(), *choice.aliases}:
                    words = tuple(_WORD.findall(folded(wording)))
                    if words:
                        self._choices.setdefault(words[0], []).append((words, name, value))
        for entries in self._choices.values():
            entries.sort(key=lambda entry: (-len(entry[0]), entry))

    def candidates(self, text: str) -> dict[str, tuple[str, ...]]:
        """The values that a message offers, by field, in order, without repetition."""
        found: dict[str, tuple[str, ...]] = {}
        for name, (search, whole) in self._patterns.items():
            values = _matches(text, search, whole, self._fields[name].max_length)
            if values:
                found[name] = values
        if self._choices:
            self._add_choices(text, found)
        return found

    def reply(self, field: str, text: str) -> tuple[str, ...]:
        """The values that a reply to the field's question offers; empty when it is not valid."""
        definition = self._fields[field]
        stripped = text.strip()
        match definition.type:
            case "choice":
                return self.candidates(text).get(field, ())
            case "boolean":
                said = yes_or_no(stripped)
                return () if said is None else (said,)
            case "integer" | "number":
                return _numbers(stripped, definition)
            case "string":
                if field in self._patterns:
                    search, whole = self._patterns[field]
                    return _matches(text, search, whole, definition.max_length)
                return (cleaned(stripped),) if 0 < len(stripped) <= definition.max_length else ()
            case _ as unreachable:
                assert_never(unreachable)

    def valid(self, field: str, value: str) -> bool:
        """Whether a value given by a session, a record or a result is one that the field allows."""
        definition = self._fields[field]
        if definition.type == "choice":
            return value in definition.choices
        if definition.type == "string" and field in self._patterns:
            fits = len(value) <= definition.max_length
            return fits and self._patterns[field][1].fullmatch(value) is not None
        if definition.type in ("integer", "number"):
            return _NUMBER.fullmatch(value) is not None and _allowed(value, definition)
        return value in self.reply(field, value)

    def _add_choices(self, text: str, found: dict[str, tuple[str, ...]]) -> None:
        words = _WORD.findall(folded(text))
        if self._choices.keys().isdisjoint(words):
            return
        taken: dict[str, int] = {}
        for start, word in enumerate(words):
            for wording, name, value in self._choices.get(word, ()):
                if taken.get(name, 0) > start:
                    continue
                end = start + len(wording)
                if len(wording) > 1 and tuple(words[start:end]) != wording:
                    continue
                taken[name] = end
                known = found.get(name, ())
                if value not in known and len(known) < CANDIDATES:
                    found[name] = (*known, value)


def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    body = _ANCHORS.sub("", pattern)
    whole = re.compile(f"(?:{body})\\Z", re.ASCII)
    search = re.compile(rf"(?<![\w-])(?a:{body})(?![\w-])", re.IGNORECASE)
    return search, whole


def _matches(
    text: str, search: re.Pattern[str], whole: re.Pattern[str], max_length: int
) -> tuple[str, ...]:
    found: list[str] = []
    for match in search.finditer(text):
        written = match.group()
        if len(written) > max_length:
            continue
        # Customers write a-1001 for A-1001; the value is the form that the field defines.
        for value in (written, written.upper(), written.lower()):
            if whole.fullmatch(value):
                if value not in found:
                    found.append(value)
                break
        if len(found) == CANDIDATES:
            break
    return tuple(found)


def _numbers(text: str, definition: FieldDefinition) -> tuple[str, ...]:
    found: list[str] = []
    for number in numbers_in(text, asked=True):
        # What cannot be read may be what was asked for, and the number beside it anything else.
        if number.text is None or number.percent:
            return ()
        if _allowed(number.text, definition) and number.text not in found:
            found.append(number.text)
        if len(found) == CANDIDATES:
            break
    return tuple(found)


def _allowed(number: str, definition: FieldDefinition) -> bool:
    value = Decimal(number)
    if definition.type == "integer" and value != value.to_integral_value():
        return False
    least, most = definition.minimum, definition.maximum
    return (least is None or value >= Decimal(str(least))) and (
        most is None or value <= Decimal(str(most))
    )
