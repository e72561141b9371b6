"""Kafka's jars are fetched once, whole or not at all, and errors say what to install."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from turnstream.demo.errors import BrokerError, MissingProgramError
from turnstream.demo.jars import KAFKA_VERSION, fetch_kafka, find_java

MAVEN_THAT_FETCHES = """#!/bin/sh
echo call >> "$CALLS"
for argument; do case "$argument" in -DoutputDirectory=*) out="${argument#*=}" ;; esac; done
mkdir -p "$out" && : > "$out/kafka.jar"
"""

MAVEN_THAT_FAILS = """#!/bin/sh
echo call >> "$CALLS"
echo "Could not resolve kafka_2.13"
exit 1
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a shell and nothing else: programs put into its `bin` are found first."""
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "mkdir"):
        (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def install(machine: Path, name: str, script: str) -> Path:
    """Puts an executable script on the machine's search path."""
    path = machine / "bin" / name
    path.write_text(script)
    path.chmod(0o755)
    return path


def java_that_says(version: str) -> str:
    """Writes a java that prints its version as the real one does."""
    return f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"


def test_jars_are_fetched_once_by_parallel_starts(machine: Path) -> None:
    """Four starts at once call Maven once and all find the same complete folder."""
    install(machine, "mvn", MAVEN_THAT_FETCHES)
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: fetch_kafka(), range(4)))

    folder = machine / "cache" / "turnstream" / f"kafka-{KAFKA_VERSION}"
    assert {folder} == folders
    assert ["kafka.jar"] == [path.name for path in folder.iterdir()]
    assert "call\n" == (machine / "calls").read_text()


def test_failed_fetch_leaves_nothing_and_shows_what_maven_said(machine: Path) -> None:
    """After a failure the cache is as before, so the next start fetches again."""
    install(machine, "mvn", MAVEN_THAT_FAILS)
    with pytest.raises(BrokerError, match="Could not resolve"):
        fetch_kafka()
    left = [path.name for path in (machine / "cache" / "turnstream").iterdir()]
    install(machine, "mvn", MAVEN_THAT_FETCHES)

    assert [f"kafka-{KAFKA_VERSION}.lock"] == left
    assert fetch_kafka().is_dir()


def test_missing_maven_is_named_with_its_package(machine: Path) -> None:
    """Without Maven and without a cache the error says what to install."""
    with pytest.raises(MissingProgramError, match="Debian: maven"):
        fetch_kafka()


def test_missing_java_is_named_with_its_package(machine: Path) -> None:
    """Without Java the error says what to install."""
    with pytest.raises(MissingProgramError, match="openjdk-17-jre-headless"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_old_java_is_refused(machine: Path, version: str) -> None:
    """A Java that Kafka does not run on is refused before anything is started."""
    install(machine, "java", java_that_says(version))

    with pytest.raises(MissingProgramError, match="needs Java 17 or newer"):
        find_java()


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1", "25"])
def test_new_java_is_taken(machine: Path, version: str) -> None:
    """Java 17 and newer ones are taken from the search path."""
    java = install(machine, "java", java_that_says(version))

    assert str(java) == find_java()


def test_java_home_comes_before_the_search_path(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME wins, so an old system Java does not stand in the way."""
    install(machine, "java", java_that_says("11"))
    (machine / "jdk" / "bin").mkdir(parents=True)
    wanted = install(machine, "../jdk/bin/java", java_that_says("21"))
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))

    assert str(wanted.resolve()) == find_java()
