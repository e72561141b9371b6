"""How a provider's refusal is named: in its own words where they are words, without its messages.

A message may repeat what was sent, so none is kept. Status, code, type and parameter are enough to
find it in the provider's documentation.
"""

import re
from typing import Final

_WORD: Final = re.compile(r"[A-Za-z0-9_.\[\]:-]{1,80}", re.ASCII)
"""A provider's code or parameter; anything else may be a text of the conversation."""

_NO_TOOLS: Final = re.compile(
    r"tool choice requires --enable-auto-tool-choice"
    r"|does(?: not|n't) support tools?(?: use| calling| calls)?\s*(?:[.,;!]|$)"
    r"|tools? (?:use |calling )?(?:is|are) not supported"
    r"|tool calling is not (?:supported|enabled)",
    re.IGNORECASE,
)

MESSAGE_CHARACTERS: Final = 2_000
"""As far as a provider's message is looked into."""

REFUSALS: Final = frozenset({400, 404, 422, 501})
"""Statuses by which a provider refuses what was asked for, not who asked or how often."""

PASSING: Final = frozenset({408, 425, 429})
"""Statuses of 4xx that pass by themselves."""

NO_KEY: Final = "the key is not accepted"
NO_MODEL: Final = "no such model, deployment, region or address"
NO_QUOTA: Final = "the quota is used up"
TAKES_NO_TOOLS: Final = "the model takes no tools"
REFUSED: Final = "the request is refused"
REDIRECTS: Final = "the address redirects, which is not followed"

_BY_STATUS: Final = {401: NO_KEY, 403: NO_KEY, 404: NO_MODEL}


def says_no_tools(message: str) -> bool:
    """Whether a message of a provider refuses tools in so many words."""
    return _NO_TOOLS.search(message[:MESSAGE_CHARACTERS]) is not None


def words_of(*words: object) -> list[str]:
    """What of it are words, each once."""
    known = [one for one in words if isinstance(one, str) and _WORD.fullmatch(one)]
    return list(dict.fromkeys(known))


def problem(status: int | None, *words: object, what: str | None = None) -> str:
    """A refusal for the log.

    Args:
        status: of the reply, where there is one.
        words: the provider's code, type, parameter.
        what: our words; by default those that the status has.
    """
    named = [*([] if status is None else [f"status {status}"]), *words_of(*words)]
    said = what or _BY_STATUS.get(status or 0, REFUSED)
    return f"{said} ({', '.join(named)})" if named else said
