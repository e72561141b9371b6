"""A real schema registry on this machine: Apicurio, which speaks Confluent's API."""

import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from turnstream.demo.errors import BrokerError
from turnstream.demo.jars import fetched, find_java, run_maven

VERSION: Final = "3.0.9"
"""The newest that runs on Java 17, which Kafka needs too."""

START_SECONDS: Final = 90.0
"""A start takes five seconds; on a busy machine some times that, never for ever."""

_START_TRIES: Final = 3
"""Between choosing a port and the program's bind another program may take it: choose again."""

_STOP_SECONDS: Final = 20.0
_API: Final = "/apis/ccompat/v7"
_PROJECT: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>turnstream</groupId><artifactId>registry</artifactId><version>1</version>
  <packaging>pom</packaging>
</project>
"""


@contextmanager
def running_registry() -> Iterator[str]:
    """Start a registry that keeps everything in memory; give the root of its API."""
    java, files = find_java(), fetched(f"apicurio-{VERSION}", _fetch)
    with tempfile.TemporaryDirectory(prefix="turnstream-registry-") as folder:
        log = Path(folder) / "registry.log"
        for tries_left in reversed(range(_START_TRIES)):
            port = _free_port()
            process = _launch(java, files, port=port, log=log)
            try:
                if not _answers(process, f"http://127.0.0.1:{port}{_API}"):
                    said = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                    if tries_left and "already in use" in said:
                        continue
                    raise BrokerError(f"the registry did not come up. It printed:\n{said}")
                yield f"http://127.0.0.1:{port}{_API}"
                return
            finally:
                _stop(process)


def _fetch(folder: Path) -> None:
    (folder / "pom.xml").write_text(_PROJECT, encoding="utf-8")
    artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    copy = ["dependency:copy", artifact, f"-DoutputDirectory={folder}"]
    run_maven(copy, folder=folder, what=f"Apicurio {VERSION}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


def _launch(java: str, files: Path, *, port: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [
                java,
                "-Xmx384m",
                f"-Dquarkus.http.port={port}",
                "-Dquarkus.http.host=127.0.0.1",
                "-jar",
                str(files / f"apicurio-registry-app-{VERSION}-runner.jar"),
            ],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(f"{url}/subjects").is_success:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(0.1)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
