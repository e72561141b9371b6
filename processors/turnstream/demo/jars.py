"""Apache Kafka's program files: fetched once from Maven Central, then kept in the user's cache.

The cache folder appears in one rename, so it is either complete or absent, and a lock file makes
parallel starts wait for the first one instead of fetching twice.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turnstream.demo.errors import BrokerError, MissingProgramError

__all__ = ["KAFKA_VERSION", "fetch_kafka", "find_java"]

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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnstream"
    folder = cache / f"kafka-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{folder.name}.lock"):
        if not folder.is_dir():
            _fetch(folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingProgramError(
            f"no mvn on the search path: Maven fetches Kafka {KAFKA_VERSION} once into "
            f"{str(folder)!r}. Install it (Debian: maven), or set KAFKA_BOOTSTRAP_SERVERS to a "
            "running cluster."
        )
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        project = Path(work)
        jars = project / "jars"
        (project / "pom.xml").write_text(_POM, encoding="utf-8")
        try:
            done = subprocess.run(
                [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(
                f"Maven did not fetch Kafka {KAFKA_VERSION} within {FETCH_SECONDS} s: check the "
                "network and Maven's settings.xml, then run again."
            ) from error
        if done.returncode != 0 or not any(jars.glob("*.jar")):
            said = "\n".join(done.stdout.splitlines()[-15:])
            raise BrokerError(
                f"Maven could not fetch Kafka {KAFKA_VERSION} (exit {done.returncode}): check the "
                f"network and Maven's settings.xml, then run again. Maven said:\n{said}"
            )
        jars.rename(folder)
