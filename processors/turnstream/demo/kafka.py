"""A real Apache Kafka on this machine, for `turnstream demo --kafka`, the tests and the benchmarks.

One node in KRaft mode that is broker and controller at once, on 127.0.0.1 only, with its data in a
folder of its own. Stopping or killing it keeps the data and the ports, so a later start is what
clients see as a restart; closing it removes what it made.
"""

import asyncio
import atexit
import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from turnstream.demo.errors import BrokerError
from turnstream.demo.jars import fetch_kafka, find_java

__all__ = ["KafkaBroker"]

START_SECONDS: Final = 90.0
"""A start takes three seconds; on a busy machine it may take ten times that, never for ever."""

STOP_SECONDS: Final = 30.0
"""A clean stop takes two seconds; a broker that hangs is killed, or its owner would hang too."""

FORMAT_SECONDS: Final = 60.0
"""Formatting takes two seconds; a Java that hangs must not hang the start."""

PROBE_MS: Final = 2_000
"""One metadata request; a broker that accepts but does not answer is asked again."""

POLL_SECONDS: Final = 0.1

START_TRIES: Final = 3
"""Between choosing a port and the broker's bind another program may take it: choose again."""

_FIRST_PORT: Final = 20_000
_LAST_PORT: Final = 31_999
# Below the range that the system hands to outgoing connections. In that range a client that keeps
# connecting to the port of a stopped broker may be given that very port as its own end, connect to
# itself, and keep the broker from coming back.

_HOST: Final = "127.0.0.1"

_SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fifty partitions each by default: four make the first transaction fast.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # A group's first member waits three seconds for others by default.
    "group.initial.rebalance.delay.ms": "0",
}


class KafkaBroker:
    """One real Kafka broker, started with `with` or `start()`.

    Attributes:
        bootstrap: Its address, `127.0.0.1:PORT`; the same over restarts.
        data_dir: The folder with its log, its settings and its output (`broker.log`).
    """

    def __init__(
        self, data_dir: Path | None = None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        """Prepares a broker without starting it.

        Args:
            data_dir: Where its data goes and, when it holds a former broker's, comes from; kept on
                `close()`. A temporary folder, removed on `close()`, when not given.
            settings: Broker settings on top of the built-in ones.
        """
        self._temporary = data_dir is None
        self._settings = {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: tuple[int, int] | None = None
        self.data_dir = (
            Path(tempfile.mkdtemp(prefix="turnstream-kafka-"))
            if data_dir is None
            else data_dir.resolve()
        )

    @property
    def bootstrap(self) -> str:
        """The address for clients, known once the broker has been started."""
        if self._ports is None:
            raise BrokerError("the Kafka broker has no address yet: call start() first")
        return f"{_HOST}:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker; None when it does not run."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Whether the broker's process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the broker, on the data and the ports it had before, if any.

        Returns when it has answered a metadata request.

        Raises:
            MissingProgramError: Java or Maven is missing or too old.
            BrokerError: The broker did not come up; the message ends with what it printed.
        """
        if self.running:
            return
        java, jars = find_java(), fetch_kafka()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        atexit.unregister(self.close)
        atexit.register(self.close)
        keeps_ports = self._ports is not None
        for tries_left in reversed(range(1 if keeps_ports else START_TRIES)):
            ports = self._ports or _free_ports()
            try:
                self._launch(java, jars, ports)
            except BrokerError:
                self.kill()
                if not tries_left or not _is_port_clash(self._log):
                    raise
            else:
                self._ports = ports
                return

    def stop(self) -> None:
        """Stops the broker cleanly and keeps its data and its ports; `start()` brings it back."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # a suspended broker would sleep through SIGTERM
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Ends the broker with SIGKILL, as a crash would; keeps its data and its ports."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        self._process = None

    def close(self) -> None:
        """Stops the broker and removes its data, unless the caller gave the folder."""
        atexit.unregister(self.close)
        if self._temporary:
            self.kill()  # what a clean stop writes would be thrown away
            shutil.rmtree(self.data_dir, ignore_errors=True)
        else:
            self.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _log(self) -> Path:
        return self.data_dir / "broker.log"

    def _launch(self, java: str, jars: Path, ports: tuple[int, int]) -> None:
        settings = self._write_settings(ports)
        classpath = f"{jars}{os.sep}*"
        if not (self.data_dir / "data" / "meta.properties").exists():
            self._format(java, classpath, settings)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [java, "-Xmx512m", "-cp", classpath, "kafka.Kafka", str(settings)],
                cwd=self.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C must reach the workers, not the broker under them.
                start_new_session=True,
            )
        self._wait_until_ready(f"{_HOST}:{ports[0]}")

    def _write_settings(self, ports: tuple[int, int]) -> Path:
        broker, controller = ports
        settings = {
            **self._settings,
            "log.dirs": str(self.data_dir / "data"),
            "listeners": f"PLAINTEXT://{_HOST}:{broker},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{broker}",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
        }
        path = self.data_dir / "server.properties"
        lines = (f"{name}={value}\n" for name, value in settings.items())
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def _format(self, java: str, classpath: str, settings: Path) -> None:
        tool = [java, "-cp", classpath, "kafka.tools.StorageTool", "format"]
        with self._log.open("wb") as log:
            try:
                subprocess.run(
                    [*tool, "-t", _cluster_id(), "-c", str(settings)],
                    cwd=self.data_dir,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=True,
                    timeout=FORMAT_SECONDS,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                raise self._failure("could not format its storage") from error

    def _wait_until_ready(self, bootstrap: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        host, port = bootstrap.rsplit(":", 1)
        while time.monotonic() < deadline:
            if not self.running:
                raise self._failure("stopped while starting")
            if _accepts(host, int(port)) and _answers(bootstrap):
                return
            time.sleep(POLL_SECONDS)
        raise self._failure(f"did not answer within {START_SECONDS:.0f} s")

    def _failure(self, what: str) -> BrokerError:
        said = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
        return BrokerError(
            f"the Kafka broker {what}; its settings are in "
            f"{str(self.data_dir / 'server.properties')!r}. It printed:\n{said or '(nothing)'}"
        )


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _answers(bootstrap: str) -> bool:
    """Asks for the cluster's metadata, in a thread: the caller may be inside an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _has_a_node(bootstrap)).result()


async def _has_a_node(bootstrap: str) -> bool:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=PROBE_MS)
    try:
        await admin.start()
        cluster = await admin.describe_cluster()
    except (KafkaError, OSError, TimeoutError):
        return False
    finally:
        await admin.close()
    return bool(cluster["brokers"])


def _free_ports() -> tuple[int, int]:
    """Two ports on 127.0.0.1 that nobody listens on, looked for from a start of the process's own.

    The start is spread by process id, so that runs beside each other seldom look at the same port.
    """
    free = _free_port_numbers()
    try:
        return next(free), next(free)
    except StopIteration:
        raise BrokerError(
            f"no two free ports between {_FIRST_PORT} and {_LAST_PORT} on {_HOST}: stop what "
            "listens there, or set KAFKA_BOOTSTRAP_SERVERS to a running cluster."
        ) from None


def _free_port_numbers() -> Iterator[int]:
    size = _LAST_PORT - _FIRST_PORT + 1
    start = (os.getpid() * 17 + time.monotonic_ns() // 1_000_000) % size
    for step in range(size):
        port = _FIRST_PORT + (start + step) % size
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        yield port


def _is_port_clash(log: Path) -> bool:
    return log.exists() and "Address already in use" in log.read_text(errors="replace")


def _cluster_id() -> str:
    """A random id in the form Kafka wants; its first bit is 0, so it never looks like an option."""
    raw = bytearray(os.urandom(16))
    raw[0] &= 0x7F
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
