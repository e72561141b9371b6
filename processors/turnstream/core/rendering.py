"""Filling an approved answer: one pass over the template, values put in as they are.

A value is data. It is never read as a template, so braces in it mean nothing; and a placeholder is
a bare name, so no template can reach into a value.
"""

import string
from collections.abc import Mapping

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.definitions import ApprovedAnswer, localized
from turnstream.core.errors import TurnstreamError


class MissingValue(TurnstreamError):
    """An approved answer needs a value that is not there; the answer must not be sent."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no value for placeholder {name!r}")
        self.name = name
        """The placeholder, a name from the catalog."""


def as_text(value: JsonValue) -> str:
    """A JSON value as it stands in a sentence."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(as_text(one) for one in value)
    return to_json(value).decode()


def filled_in(template: str, values: Mapping[str, str]) -> str:
    """Fill a text of the catalog.

    Raises:
        MissingValue: a placeholder has no value.
    """
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is not None:
            if name not in values:
                raise MissingValue(name)
            parts.append(values[name])
    return "".join(parts)


def render(
    answer: ApprovedAnswer,
    *,
    locale: str | None,
    values: Mapping[str, str],
    default_locale: str,
) -> tuple[str, str]:
    """Fill an approved answer.

    Args:
        answer: the answer's definition.
        locale: the wanted BCP 47 tag.
        values: placeholder name to value.
        default_locale: the catalog's.

    Returns:
        The locale that was found and the text. Where the catalog has words for a value
        (``shipped``), they stand in the text's locale.

    Raises:
        MissingValue: a placeholder of the text has no value.
    """
    found, template = localized(answer.text, locale, default_locale)
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is None:
            continue
        value = values.get(name)
        if value is None:
            raise MissingValue(name)
        words = answer.words.get(name, {}).get(value)
        parts.append(localized(words, found, default_locale)[1] if words else value)
    return found, "".join(parts)
