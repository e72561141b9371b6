"""Whether services can be connected to from here; nothing is sent to them."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx

from turnstream.cli.findings import Finding, warn
from turnstream.plain_http import why_broken

_CONNECT_SECONDS: Final = 2.0
"""A service that does not answer must not hang the examination of all others."""

_PORTS: Final = {"http": 80, "https": 443}


def unreachable(check: str, urls: Mapping[str, str], *, remedy: str) -> list[Finding]:
    """The services that take no connection, each with what is behind it.

    Args:
        check: of the findings.
        urls: what is named in the finding to where it is, http or https.
        remedy: of the findings.
    """
    behind: dict[tuple[str, str, int], list[str]] = {}
    nowhere: list[Finding] = []
    for name, url in urls.items():
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        try:
            place = (scheme, parts.hostname or "", parts.port or _PORTS[scheme])
        except ValueError:
            nowhere.append(warn(check, f"{name}: the port of its URL is none", remedy))
            continue
        behind.setdefault(place, []).append(name)
    problems = asyncio.run(_problems([*behind])) if behind else []
    return nowhere + [
        warn(
            check,
            f"{host}:{port} cannot be connected to from here ({problem}): {', '.join(names)}",
            remedy,
        )
        for ((_, host, port), names), problem in zip(behind.items(), problems, strict=True)
        if problem is not None
    ]


async def _problems(places: Sequence[tuple[str, str, int]]) -> list[str | None]:
    secure = any(scheme == "https" for scheme, _, _ in places)
    # Whom our clients trust, whatever the environment says: see `plain_client`.
    context = httpx.create_ssl_context(trust_env=False) if secure else None
    return await asyncio.gather(
        *(
            _problem(host, port, context if scheme == "https" else None)
            for scheme, host, port in places
        )
    )


async def _problem(host: str, port: int, context: ssl.SSLContext | None) -> str | None:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        return why_broken(error)
    except UnicodeError:
        return "the host has no name that can be looked up"
    writer.close()
    return None
