"""Java programs, Apache Kafka above all: fetched once with Maven, then kept in the user's cache.

The cache folder appears in one rename, so it is either complete or absent, and a lock file makes
parallel starts wait for the first one instead of fetching twice.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turnstream.demo.errors import BrokerError, MissingProgramError

__all__ = ["KAFKA_VERSION", "fetch_kafka", "fetched", "find_java", "run_maven"]

KAFKA_VERSION: Final = "4.4.0"

JAVA_VERSION: Final = 17
"""The oldest Java that Kafka 4 brokers run on."""

FETCH_SECONDS: Final = 900
"""A fetch that hangs on the network fails after this, instead of holding the lock for ever."""

VERSION_SECONDS: Final = 30
"""`java -version` answers in a second; a broken installation must not hang the start."""

_JAVA_MAJOR = re.compile(r'version "(?:1\.)?(\d+)')

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>turnstream</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def find_java() -> str:
    """Finds the Java to run a broker with: `JAVA_HOME` first, then the search path.

    Returns:
        The path of a `java` of at least version 17.

    Raises:
        MissingProgramError: No Java was found, or the one found is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home!r})" if home else "on the search path"
        raise MissingProgramError(
            f"no java {where}: Kafka needs Java {JAVA_VERSION} or newer. Install a JRE (Debian: "
            "openjdk-17-jre-headless), or set KAFKA_BOOTSTRAP_SERVERS to a running cluster."
        )
    shown = subprocess.run(
        [java, "-version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=VERSION_SECONDS,
    )
    found = _JAVA_MAJOR.search(shown.stderr + shown.stdout)
    if found is None or int(found.group(1)) < JAVA_VERSION:
        version = found.group(1) if found else "of unknown version"
        raise MissingProgramError(
            f"{java!r} is Java {version}, but Kafka needs Java {JAVA_VERSION} or newer: install "
            "one and point JAVA_HOME at it."
        )
    return java


def fetch_kafka() -> Path:
    """Makes sure that Kafka's jars are in the cache, fetching them with Maven when they are not.

    Returns:
        The folder with every jar of the broker and its tools.

    Raises:
        MissingProgramError: Maven is needed and not installed.
        BrokerError: Maven could not fetch the jars.
    """
    return fetched(f"kafka-{KAFKA_VERSION}", _fetch_kafka)


def _fetch_kafka(folder: Path) -> None:
    (folder / "pom.xml").write_text(_POM, encoding="utf-8")
    jars = folder / "jars"
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    run_maven(copy, folder=folder, what=f"Kafka {KAFKA_VERSION}")
    if not any(jars.glob("*.jar")):
        raise BrokerError(f"Maven fetched no jar of Kafka {KAFKA_VERSION}: run it again")
    (folder / "pom.xml").unlink()
    for jar in jars.iterdir():
        jar.rename(folder / jar.name)
    jars.rmdir()


def fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """Makes sure that a program is in the cache.

    Args:
        name: Of its folder there; a version belongs into it.
        fetch: Puts the program's files into an empty folder, or raises.

    Returns:
        The folder, with what `fetch` once put there.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnstream"
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache) as work:
                files = Path(work) / "files"
                files.mkdir()
                fetch(files)
                files.rename(folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_maven(goal: Sequence[str], *, folder: Path, what: str) -> None:
    """Runs Maven for something that is fetched.

    Args:
        goal: What it shall do, with its options.
        folder: Where it runs.
        what: Name and version of what is fetched, for messages.

    Raises:
        MissingProgramError: It is not installed.
        BrokerError: It failed; the message ends with what it said.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingProgramError(
            f"no mvn on the search path: Maven fetches {what} once into the user's cache. "
            "Install it (Debian: maven), or set KAFKA_BOOTSTRAP_SERVERS to a running cluster."
        )
    try:
        done = subprocess.run(
            [maven, "-q", "-B", *goal],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(
            f"Maven did not fetch {what} within {FETCH_SECONDS} s: check the network and Maven's "
            "settings.xml, then run again."
        ) from error
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-15:])
        raise BrokerError(
            f"Maven could not fetch {what} (exit {done.returncode}): check the network and "
            f"Maven's settings.xml, then run again. Maven said:\n{said}"
        )
