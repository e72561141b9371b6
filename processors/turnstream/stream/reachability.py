"""Why a cluster cannot be used: which setting, what failed, what to do.

A Kafka client tells only that none of its servers could be used, and logs the reason where nobody
looks. So after such a failure each server is tried once more, step by step: the name, the
connection, TLS, the first answer, the user, and the addresses that the cluster gives its brokers.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from turnstream.stream.outage import is_outage

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEP_SECONDS: Final = 3.0
"""A broker in good health answers in milliseconds, and whoever waits for the message has waited for
the client's own time-out already."""

_SETTING: Final = "kafka.bootstrap_servers"

_START: Final = "start the broker, or correct the address"

_USER_REFUSED: Final = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why a cluster cannot be used."""

    detail: str
    """Where, and what failed."""
    remedy: str
    """What to do."""
    lasting: bool = False
    """Whether it is so until somebody changes something: else another try may find it otherwise."""

    def __str__(self) -> str:
        return f"{self.detail}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one server."""

    what: str
    remedy: str
    speaks: bool = False
    """Whether a Kafka broker has answered."""
    lasting: bool = False
    """See `Unreachable`."""


async def why_unreachable(
    client_options: Mapping[str, object], error: BaseException
) -> Unreachable:
    """Find out why a client could not be started, or got no answer.

    Args:
        client_options: what the client was given: servers and security.
        error: how it failed; said where everything works by now.
    """
    servers = str(client_options["bootstrap_servers"])
    security = {
        name: option
        for name, option in client_options.items()
        if name.startswith(("security_", "ssl_", "sasl_"))
    }
    hosts = [(host, port) for host, port, _ in collect_hosts(servers, randomize=False)]
    found = await asyncio.gather(*(_fault(host, port, security) for host, port in hosts))
    faults = [
        (_address(host, port), fault)
        for (host, port), fault in zip(hosts, found, strict=True)
        if fault is not None
    ]
    # One server is enough for a client: the others' faults do not matter when one works.
    if len(faults) < len(hosts):
        return Unreachable(
            f"Kafka at {servers} ({_SETTING}) answers, but not to this: {_named(error)}",
            "try again, and look at the broker's log; `turnstream doctor` tells more",
            lasting=isinstance(error, KafkaError) and not is_outage(error),
        )
    several = len(faults) > 1
    whats = [f"{at}: {fault.what}" if several else fault.what for at, fault in faults]
    remedies = {fault.remedy: at for at, fault in reversed(faults)}
    todo = [f"{at}: {remedy}" if len(remedies) > 1 else remedy for remedy, at in remedies.items()]
    where = f"no Kafka at {servers} ({_SETTING})"
    if any(fault.speaks for _, fault in faults):
        where = f"Kafka at {servers} ({_SETTING}) cannot be used"
    return Unreachable(
        f"{where}: {'; '.join(whats)}",
        "; ".join(reversed(todo)),
        lasting=all(fault.lasting for _, fault in faults),
    )


async def _fault(host: str, port: int, security: Mapping[str, Any]) -> _Fault | None:
    """Try one server; None when it can be used."""
    unconnected = await _unconnected(host, port)
    if unconnected is not None:
        return unconnected
    protocol = security.get("security_protocol", "PLAINTEXT")
    try:
        brokers = await _brokers(host, port, security)
    except ssl.SSLCertVerificationError as error:
        return _Fault(
            f"its certificate is not trusted ({error.verify_message})",
            "name the authority that signed it in kafka.ssl_cafile, and the broker by a name that "
            "its certificate has",
            lasting=True,
        )
    except ssl.SSLError as error:
        return _Fault(
            f"TLS failed ({error.reason or error})",
            f"kafka.security_protocol is {protocol}: name a port that speaks TLS, and give "
            "kafka.ssl_certfile and kafka.ssl_keyfile if the broker asks for a certificate",
        )
    except _USER_REFUSED as error:
        return _Fault(
            f"it refuses the user {security.get('sasl_plain_username')!r} with "
            f"{security.get('sasl_mechanism')} ({type(error).__name__})",
            "check kafka.sasl_username, kafka.sasl_password and kafka.sasl_mechanism",
            speaks=True,
            lasting=True,
        )
    except TimeoutError:
        return _Fault(
            f"it takes the connection and does not answer within {_STEP_SECONDS:g} s",
            f"see that the broker is up, that this is its address, and that it speaks {protocol} "
            "there (kafka.security_protocol)",
        )
    except (KafkaError, OSError) as error:
        return _Fault(
            f"it closes the connection instead of answering ({_named(error)})",
            f"kafka.security_protocol is {protocol}: set what this port of the broker speaks, or "
            "correct the address",
        )
    return await _lost(brokers)


async def _brokers(host: str, port: int, security: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Ask a server which addresses its cluster's brokers have."""
    limit = int(_STEP_SECONDS * 1000)
    connection = await create_conn(host, port, request_timeout_ms=limit, **security)
    try:
        metadata = await connection.send(MetadataRequest([]))
    finally:
        connection.close()
    return [(broker[1], broker[2]) for broker in metadata.brokers]


async def _lost(brokers: list[tuple[str, int]]) -> _Fault | None:
    """Tell whether the addresses that a cluster gives its brokers lead nowhere."""
    tried = await asyncio.gather(*(_unconnected(host, port) for host, port in brokers))
    lost = [
        f"{_address(host, port)} ({fault.what})"
        for (host, port), fault in zip(brokers, tried, strict=True)
        if fault is not None
    ]
    if not lost:
        return None
    return _Fault(
        f"it names brokers that cannot be reached from here: {', '.join(lost)}",
        "start those that are down, or set their advertised.listeners to addresses that can be",
        speaks=True,
    )


async def _unconnected(host: str, port: int) -> _Fault | None:
    """Why no connection can be made; None when it can."""
    try:
        async with asyncio.timeout(_STEP_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except socket.gaierror as error:
        return _Fault(
            f"the name {host!r} is not found ({error.strerror})",
            "correct the name, or make it known to this host",
        )
    except ConnectionRefusedError:
        return _Fault("connection refused, nothing listens there", _START)
    except TimeoutError:
        return _Fault(
            f"no connection within {_STEP_SECONDS:g} s",
            "correct the address, or see whether a firewall is between",
        )
    except OSError as error:
        return _Fault(f"no connection ({error.strerror or error})", _START)
    writer.close()
    return None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _named(error: BaseException) -> str:
    text, name = str(error), type(error).__name__
    return text if text.startswith(name) else f"{name}: {text}" if text else name
