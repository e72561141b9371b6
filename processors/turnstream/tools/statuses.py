"""What the status and the headers of a reply say of a call, before its body is looked at."""

from http import HTTPStatus
from typing import Final

TRY_LATER: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""4xx after which another attempt may succeed."""

_UNBEGUN: Final = frozenset(
    {HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_IMPLEMENTED}
)
"""By these a service says that it did not begin."""

SENT_ELSEWHERE: Final = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
"""Redirects that ask for the same request at another address: it was not carried out here. Those
before them (303 above all) are also how a service points to the page of what it has just done."""


def refused_unbegun(status: int) -> bool:
    """Whether a service says by a status that it did not begin; others may follow the effect.

    A 503 does not, not even with `Retry-After`: some proxies answer so, header included, where the
    service was silent or its connection broke after the whole request had been sent. A 408 is as
    open: some mean by it that the service gave no reply in time.
    """
    return status in _UNBEGUN
