"""Tests stay on this machine, and one that does not fails."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.network import NETWORK, NetworkForbidden

ROOT: Final = Path(__file__).parents[2]

ELSEWHERE: Final = ("192.0.2.1", 9)
"""An address for documentation: nobody has it."""
ELSEWHERE_6: Final = ("2001:db8::1", 9)

RUN: Final = """
import socket

def test_that_swallows_the_error():
    with socket.socket() as one:
        try:
            one.connect(("192.0.2.1", 9))
        except Exception:
            pass

def test_that_stays_here():
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
"""


@pytest.fixture(autouse=True)
def _on_purpose(_this_machine_only: None) -> Iterator[None]:
    """These tests try what no other may."""
    yield
    NETWORK.attempts()


def connect() -> None:
    """Connect."""
    with socket.socket() as one:
        one.connect(ELSEWHERE)


def send() -> None:
    """Send without connecting."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ELSEWHERE)


def send_over_ip_6() -> None:
    """Send in parts."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.sendmsg([b"x"], [], 0, ELSEWHERE_6)


def in_a_thread() -> None:
    """Connect in another thread."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(connect).result()


def in_a_loop() -> None:
    """Connect as the event loop does."""
    asyncio.run(_opened())


async def _opened() -> None:
    await asyncio.open_connection(*ELSEWHERE)


def over_http() -> None:
    """Ask a web server, whose name is looked up in a thread."""
    asyncio.run(_asked())


async def _asked() -> None:
    async with httpx.AsyncClient() as client:
        await client.get("http://example.com/")


@pytest.mark.parametrize(
    "attempt",
    [
        connect,
        send,
        send_over_ip_6,
        in_a_thread,
        in_a_loop,
        over_http,
        lambda: socket.getaddrinfo("example.com", 80),
        lambda: socket.gethostbyname("example.com"),
        lambda: socket.gethostbyaddr(ELSEWHERE[0]),
        lambda: socket.getnameinfo(ELSEWHERE, 0),
    ],
)
def test_nothing_else_is_reached(attempt: Callable[[], object]) -> None:
    """Each way out is refused before anything is sent, and noted."""
    with pytest.raises(NetworkForbidden, match=r"192\.0\.2\.1|2001:db8::1|example\.com"):
        attempt()

    assert 1 == len(NETWORK.attempts())


def test_this_machine_is_reached(tmp_path: Path) -> None:
    """Loopback addresses by number and name, and unix sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, port)).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))

    assert [] == NETWORK.attempts()


def test_a_name_that_cannot_exist_is_unknown() -> None:
    """Nobody is asked for it, and tests of unknown hosts see what their users would."""
    with pytest.raises(socket.gaierror, match="not known"):
        socket.create_connection(("broker.invalid", 9))

    assert [] == NETWORK.attempts()


def test_an_attempt_fails_its_test(tmp_path: Path) -> None:
    """Also where the code under test has swallowed the error."""
    path = tmp_path / "test_run.py"
    path.write_text(RUN, encoding="utf-8")
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]

    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", "/dev/null", path.name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "2 passed, 1 error" in run.stdout
    assert "ERROR test_run.py::test_that_swallows_the_error" in run.stdout
    assert "socket.connect '192.0.2.1'" in run.stdout
