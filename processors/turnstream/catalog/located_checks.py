"""What must be true of URLs and headers wherever a catalog names them: no secret stands in one."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from turnstream.config.secrets import is_reference

Place: TypeAlias = tuple[str | int, ...]
Problem: TypeAlias = tuple[Place, str]

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SECRET_NAME: Final = re.compile(
    r"auth|api[-_]?key|access[-_]?key|token|secret|passw|credential|cookie|session", re.IGNORECASE
)
"""Names of headers, variables and query parameters whose value is a secret in practice."""

_SECRET_VALUE: Final = re.compile(r"(?:basic|bearer|token)\s+\S", re.IGNORECASE)


def url_problems(place: Place, url: str) -> Iterator[Problem]:
    """What must not stand in a URL behind its host."""
    parts = urlsplit(url)
    if parts.fragment:
        yield place, "expected no fragment"
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAME.search(name) and value:
            yield place, f"{name}: a secret in a URL ends up in logs; send it as a header"


def value_problems(place: Place, values: Mapping[str, str]) -> Iterator[Problem]:
    """Values of headers or variables that should be references, or cannot be sent."""
    for name, value in values.items():
        if not HEADER_NAME.fullmatch(name) or is_reference(value):
            continue
        if _SECRET_NAME.search(name) or _SECRET_VALUE.match(value):
            yield (
                (*place, name),
                "expected a reference to a secret: write env:NAME or file:PATH",
            )
        elif not value.isascii() or not value.isprintable():
            yield (*place, name), "expected printable ASCII characters"
