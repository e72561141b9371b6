"""Keeps tests on this machine: only the loopback addresses and unix sockets can be reached."""

from __future__ import annotations

import socket
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

_LOOK_UPS: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_REVERSE_LOOK_UPS: Final = frozenset({"socket.gethostbyaddr", "socket.getnameinfo"})
_SENDINGS: Final = frozenset({"socket.connect", "socket.sendmsg", "socket.sendto"})
_FAMILIES: Final = frozenset({socket.AF_INET, socket.AF_INET6})

_NOWHERE: Final = ".invalid"
"""Names reserved for not existing: tests of unknown hosts use them, and no server is asked."""


class NetworkForbidden(RuntimeError):
    """A test reaches for another machine: give it a double, or a server on 127.0.0.1."""


class Guard:
    """Refuses whatever would leave this machine, in every thread of this process.

    It sees what goes through the standard library's sockets, asyncio's included. Other processes,
    and libraries with sockets of their own, are out of its reach; so is the look-up of a name that
    a socket itself is told to connect to, but not that connection.
    """

    def __init__(self) -> None:
        self.open = False
        """Lets everything pass: for tests on a cluster that the environment names."""
        self._attempts: list[str] = []

    def install(self) -> None:
        """Watch from now on; an audit hook stays for the life of the process."""
        sys.addaudithook(self._audit)

    def attempts(self) -> list[str]:
        """What was refused since the last look: the code under test may swallow the error."""
        found, self._attempts = self._attempts, []
        return found

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        if event in _LOOK_UPS:
            host = _text(args[0])
            if host.endswith(_NOWHERE):
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            here = _address(host) is not None or host in ("", "localhost")
        elif event in _REVERSE_LOOK_UPS:
            host = _host(args[0])
            here = _is_loopback(host)
        elif event in _SENDINGS:
            if getattr(args[0], "family", None) not in _FAMILIES or args[1] is None:
                return  # a unix socket, or one whose peer was looked at when it connected
            host = _host(args[1])
            here = _is_loopback(host)
        else:
            return
        if here or self.open:
            return
        attempt = f"{event} {host!r}"
        self._attempts.append(attempt)
        raise NetworkForbidden(f"{attempt}: tests may only use 127.0.0.1, ::1 and unix sockets")


NETWORK: Final = Guard()
"""The one of this process."""


def _host(place: object) -> str:
    """The host of an address as sockets take it: the first of a tuple, or a name by itself."""
    return _text(place[0] if isinstance(place, tuple) else place)


def _text(host: object) -> str:
    """A host as text; empty where a server listens on all addresses."""
    if isinstance(host, bytes):
        return host.decode(errors="replace")
    return "" if host is None else str(host)


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
