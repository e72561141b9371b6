"""Where tools may connect to. Everything else is refused, whatever a catalog or argument says."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from turnstream.tools.errors import BindingError

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Egress:
    """A list of allowed hosts.

    Args:
        patterns: ``host`` (any port), ``host:port``, or ``*.domain`` for sub-domains (any port).
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = frozenset(pattern.lower() for pattern in patterns)

    @classmethod
    def of_urls(cls, urls: Iterable[str]) -> "Egress":
        """Exactly the hosts and ports of these URLs."""
        return cls(f"{host}:{port}" for host, port in map(_place, urls))

    def check(self, url: str) -> None:
        """Let a URL pass.

        Raises:
            BindingError: its scheme is not http or https, or its host is not on the list.
        """
        host, port = _place(url)
        if {host, f"{host}:{port}"} & self._patterns:
            return
        parents = host.split(".")[1:]
        if any(f"*.{'.'.join(parents[start:])}" in self._patterns for start in range(len(parents))):
            return
        allowed = ", ".join(sorted(self._patterns)) or "none"
        raise BindingError(
            f"host {host}:{port} is not allowed for tools (execute.egress_allow: {allowed})"
        )


def _place(url: str) -> tuple[str, int]:
    """Host, lower case, and port of a URL; an IPv6 address keeps its brackets."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        host, port = None, None
    if not host or port is None or parts.username is not None:
        raise BindingError(
            f"url {url!r}: expected http or https, a host and no user name, as "
            "https://orders.example.com/orders/{order_id}"
        )
    return (f"[{host}]" if ":" in host else host), port
