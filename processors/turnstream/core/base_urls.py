"""URLs of a catalog whose scheme and host are a variable of the process's environment."""

import re
from collections.abc import Mapping
from typing import Final

from turnstream.core.errors import DefinitionError

BASE_URL_VARIABLE: Final = re.compile(r"\{([A-Z][A-Z0-9_]*)\}", re.ASCII)
"""The name in capitals at the start of a URL."""

HTTP_BASE: Final = re.compile(r"https?://[^\s/?#{}@]+(?=[/?#]|\Z)", re.ASCII)
"""Scheme and host of a URL: no credentials, nothing left to fill in."""


def leading_variable(url: str) -> str | None:
    """The environment variable that holds a URL's base, if there is one."""
    found = BASE_URL_VARIABLE.match(url)
    return found.group(1) if found else None


def with_variable(url: str, environment: Mapping[str, str]) -> str:
    """The URL with its base filled in.

    Raises:
        DefinitionError: the variable is not set, or does not hold an http(s) URL.
    """
    found = BASE_URL_VARIABLE.match(url)
    if found is None:
        return url
    name = found.group(1)
    base = environment.get(name, "").rstrip("/")
    if not HTTP_BASE.match(base):
        raise DefinitionError(
            f"url {url!r}: set the environment variable {name} to the base URL of the service, "
            "as http://127.0.0.1:8080"
        )
    return base + url.removeprefix(found.group())
