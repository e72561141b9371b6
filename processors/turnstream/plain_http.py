"""HTTP as this project speaks it, to tools and to models alike: no more than what was asked for.

A client goes nowhere but where it is sent and keeps nothing. A body is read up to a bound. A wish
to be left alone is read from whatever a header holds.
"""

import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

_CONNECTIONS: Final = 1000
"""As many as the default slots: with fewer, calls use up their time-outs waiting for each other."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)

_DEEPEST: Final = 12
"""Causes behind an error that are looked at: a cycle of them must not hang who asks."""

_DATE_CHARACTERS: Final = 64
"""Longest `Retry-After` that is read, twice a date: a parser need not work on a whole header."""


def plain_client() -> httpx.AsyncClient:
    """A client for many requests at once, to be told its time-outs with each.

    It takes nothing from the environment: a proxy variable would be a way around an egress list.
    It keeps no cookies: what a service sets for one customer's call would go out with another's.
    """
    return httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=100),
    )


async def read_up_to(response: httpx.Response, max_bytes: int) -> bytes | None:
    """The body of a streamed response; None when it is longer, or compressed.

    Requests ask for replies as they are (``Accept-Encoding: identity``): a compressed one could be
    small on the wire and large in memory.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return None
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a service wants to be left alone (RFC 9110, 10.2.3); None where it does not say.

    Args:
        headers: of a reply; names in any case.
    """
    text = headers.get("Retry-After", "").strip()
    if len(text) > _DATE_CHARACTERS:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(0.0, at.timestamp() - time.time())
    except Exception:  # noqa: BLE001 - the parser names no bound on what it raises for any text
        return None


def without_framing(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Headers but for those about a body as it came, for one that has been read or left out."""
    framing = ("content-length", "content-encoding", "transfer-encoding")
    return [(name, text) for name, text in headers.items() if name.lower() not in framing]


def why_broken(error: BaseException) -> str:
    """What broke a connection, in words of the system: no address, nothing of what was sent.

    Args:
        error: a client's; what the system said is behind it.
    """
    for one in behind(error):
        if isinstance(one, ssl.SSLError):
            # OpenSSL's own have one; those that code raises may lack it.
            return f"TLS: {getattr(one, 'reason', None) or type(one).__name__}"
        if isinstance(one, socket.gaierror):
            return "the name of the host cannot be resolved"
        if isinstance(one, OSError) and one.errno:
            return os.strerror(one.errno)
    # Libraries give their own names to the errors of the client below them.
    named = [one for one in behind(error) if type(one).__module__ != "builtins"]
    return type((named or [error])[-1]).__name__


def behind(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the nearest first; of several at once the first."""
    one: BaseException | None = error
    for _ in range(_DEEPEST):
        if one is None:
            return
        yield one
        if isinstance(one, BaseExceptionGroup):
            one = one.exceptions[0]
        else:
            one = one.__cause__ or one.__context__
