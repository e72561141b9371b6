"""A cluster that cannot be used: the message names the setting, what failed, and what to do."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailed,
    UnsupportedVersionError,
)

from turnstream.stream import reachability
from turnstream.stream.reachability import why_unreachable

FAILED = KafkaConnectionError("Unable to bootstrap")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take everything and answer nothing, until the other side leaves."""
    await reader.read()
    writer.close()


async def curt(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hang up at once."""
    writer.close()


async def talkative(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say something that is no TLS, and no Kafka."""
    writer.write(b"220 ready\r\n")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[str]:
    """The address of something that is no broker."""
    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.fixture
def closed_port() -> str:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_STEP_SECONDS", 0.3)


async def told(servers: str, **security: Any) -> tuple[str, str]:
    """What is said of servers: detail and remedy."""
    why = await why_unreachable({"bootstrap_servers": servers, **security}, FAILED)
    assert f"{why.detail}; {why.remedy}" == str(why)
    return why.detail, why.remedy


async def test_a_port_where_nothing_listens(closed_port: str) -> None:
    """The setting and its value are named."""
    detail, remedy = await told(closed_port)

    assert (
        f"no Kafka at {closed_port} (kafka.bootstrap_servers): connection refused, nothing "
        "listens there"
    ) == detail
    assert "start the broker, or correct the address" == remedy


async def test_a_name_that_nobody_knows() -> None:
    """The name is quoted."""
    detail, remedy = await told("nowhere.invalid:9092")

    assert detail.startswith(
        "no Kafka at nowhere.invalid:9092 (kafka.bootstrap_servers): the name 'nowhere.invalid' is "
        "not found"
    )
    assert "correct the name" in remedy


@pytest.mark.parametrize("raised", [TimeoutError(), OSError(113, "No route to host")])
async def test_an_address_that_cannot_be_connected_to(
    raised: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall swallows the attempt, or there is no route."""

    async def unconnected(*_: object) -> None:
        raise raised

    monkeypatch.setattr(asyncio, "open_connection", unconnected)

    detail, remedy = await told("10.0.0.1:9092")

    expected = "no connection within 0.3 s" if raised.errno is None else "(No route to host)"
    assert expected in detail
    assert "correct the address" in remedy


async def test_something_that_takes_the_connection_and_does_not_answer() -> None:
    """As a port-forward without its broker, or a port that waits for TLS."""
    async with server(silent) as address:
        detail, remedy = await told(address)

    assert "it takes the connection and does not answer within 0.3 s" in detail
    assert "that it speaks PLAINTEXT there (kafka.security_protocol)" in remedy


async def test_something_that_hangs_up() -> None:
    """As a port that speaks another protocol, or wants TLS or a user."""
    async with server(curt) as address:
        detail, remedy = await told(address)

    assert "it closes the connection instead of answering" in detail
    assert "kafka.security_protocol is PLAINTEXT: set what this port" in remedy


async def test_a_port_that_speaks_no_tls() -> None:
    """The protocol that is configured is named, and where the certificates are."""
    async with server(talkative) as address:
        detail, remedy = await told(
            address, security_protocol="SSL", ssl_context=ssl.create_default_context()
        )

    assert "TLS failed (" in detail
    assert "kafka.security_protocol is SSL: name a port that speaks TLS" in remedy


async def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it is named, and where the authority is configured."""
    untrusted = ssl.SSLCertVerificationError(1, "verify failed")
    untrusted.verify_message = "self-signed certificate"
    raising(monkeypatch, untrusted)
    async with server(silent) as address:
        detail, remedy = await told(address, security_protocol="SSL")

    assert detail.endswith("its certificate is not trusted (self-signed certificate)")
    assert "kafka.ssl_cafile" in remedy


async def test_a_user_who_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user and the mechanism are named, the password is not."""
    raising(monkeypatch, SaslAuthenticationFailed("Authentication failed"))
    async with server(silent) as address:
        why = await why_unreachable(
            {
                "bootstrap_servers": address,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": "hunter2",
            },
            FAILED,
        )

    assert (
        f"Kafka at {address} (kafka.bootstrap_servers) cannot be used: it refuses the user 'alice' "
        "with PLAIN (SaslAuthenticationFailed)"
    ) == why.detail
    assert "check kafka.sasl_username, kafka.sasl_password and kafka.sasl_mechanism" == why.remedy
    assert "hunter2" not in str(why)
    assert why.lasting


@pytest.mark.parametrize(
    ("error", "lasting"),
    [(FAILED, False), (KafkaTimeoutError(), False), (UnsupportedVersionError(), True)],
)
async def test_what_a_broker_that_is_up_will_not_do_lasts(
    closed_port: str,
    error: KafkaError,
    lasting: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All else may be gone at the next try, as a broker that was restarting."""
    assert not (await why_unreachable({"bootstrap_servers": closed_port}, error)).lasting

    names(monkeypatch)
    async with server(silent) as address:
        assert lasting == (await why_unreachable({"bootstrap_servers": address}, error)).lasting


async def test_brokers_at_addresses_that_lead_nowhere(
    closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer comes, and then nothing: the addresses that brokers say of themselves."""
    names(monkeypatch, ("kafka.invalid", 9092), ("127.0.0.1", int(closed_port.split(":")[1])))
    async with server(silent) as address:
        detail, remedy = await told(address)

    assert "cannot be used: it names brokers that cannot be reached from here: kafka.inv" in detail
    assert f"{closed_port} (connection refused" in detail
    assert "advertised.listeners" in remedy


async def test_of_several_servers_each_is_told_of(closed_port: str) -> None:
    """With what to do about each."""
    detail, remedy = await told(f"{closed_port},nowhere.invalid:9092")

    assert (
        f"{closed_port}: connection refused, nothing listens there; nowhere.invalid:9092: the name"
    ) in detail
    assert remedy.startswith(f"{closed_port}: start the broker, or correct the address; nowhere.")


async def test_servers_with_the_same_fault_have_one_remedy(closed_port: str) -> None:
    """It is said once."""
    _, remedy = await told(f"{closed_port},{closed_port}")

    assert "start the broker, or correct the address" == remedy


async def test_a_cluster_that_works_by_now_is_not_blamed(
    closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server is enough for a client; then it is told how the client failed."""
    async with server(silent) as address:
        host, port = address.split(":")
        names(monkeypatch, (host, int(port)))
        detail, remedy = await told(f"{closed_port},{address}")

    assert detail.endswith("answers, but not to this: KafkaConnectionError: Unable to bootstrap")
    assert "try again" in remedy


def raising(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every connection to a broker end like this."""

    async def create_conn(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(reachability, "create_conn", create_conn)


def names(monkeypatch: pytest.MonkeyPatch, *brokers: tuple[str, int]) -> None:
    """Let every server name these brokers."""

    async def answered(*_: object) -> list[tuple[str, int]]:
        return list(brokers)

    monkeypatch.setattr(reachability, "_brokers", answered)
