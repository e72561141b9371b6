"""The demo runs as a program from start to end, on both brokers, and leaves nothing behind."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from turnstream.demo.script import load_scripts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PLAY_SECONDS = 200.0
"""A play takes twenty seconds on two idle processors; on a busy machine some times that."""

ARTICLE = '{"action":"ask","tool":null,"missing_field":"order_id","reason_code":"missing_input"}'


def environment() -> dict[str, str]:
    """The environment without a cluster, which the demo would use, and without overrides."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "KAFKA_BOOTSTRAP_SERVERS" and not name.startswith("TURNSTREAM_")
    }


def turnstream(*arguments: str) -> list[str]:
    """The command line of this checkout."""
    return [sys.executable, "-m", "turnstream.cli", *arguments]


def processes_of(folder: str) -> dict[str, int]:
    """Role to the id of its process, for the deployment whose files are in a folder."""
    found: dict[str, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended while we looked
        if any(argument.startswith(folder) for argument in arguments) and "run" in arguments:
            found[arguments[arguments.index("run") + 1]] = int(entry.name)
    return found


def folder_of(output: str) -> str:
    """Where a run's files are."""
    match = re.search(r"logs and configuration in (\S+)", output)
    assert match is not None, output
    return match[1]


@contextmanager
def running_demo(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A demo that is played while the test looks on: its process and what it prints."""
    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            # Ctrl-C is ignored, as shells do for what a script starts in the background.
            [
                "sh",
                "-c",
                'trap "" INT; exec "$@"',
                "sh",
                *turnstream("demo", "--plain", *arguments),
            ],
            stdout=file,
            stderr=subprocess.STDOUT,
            # A run that fails keeps its files; here they go where pytest removes them.
            env=environment() | {"TMPDIR": str(tmp_path)},
        )
    try:
        yield process, output
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PLAY_SECONDS)


def wait_until(check: Callable[[], bool], *, what: str) -> None:
    """Poll for a condition with a deadline."""
    deadline = time.monotonic() + PLAY_SECONDS
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def assert_played(output: str) -> None:
    """Every conversation went as its script says, and the summary is complete."""
    scripts = load_scripts()

    assert f"{len(scripts)} of {len(scripts)} conversations went as their scripts say" in output
    for script in scripts:
        assert f"({script.id}, {script.locale}, {script.channel})" in output
    question = output.index(ARTICLE)
    assert question < output.index("Indiquez le numéro de la commande concernée.")
    for title in ("Decisions", "Questions", "Tool calls", "Handoffs", "Labels", "Shadow agreement"):
        assert re.search(f"^{title}", output, re.MULTILINE), title


def assert_letters_can_be_handled(said: str) -> None:
    """The turn that is proposed becomes a dead letter, is replayed, and put aside for good."""

    def ran(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=PLAY_SECONDS,
            env=environment(),
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    send = re.search(r"^  (echo '.*' \| .* turns send .*)$", said, re.MULTILINE)
    look = re.search(r"^  (.* dlq list .*)$", said, re.MULTILINE)
    assert send is not None
    assert look is not None

    def letters() -> int:
        return len(json.loads(ran(f"{look[1]} --json")))

    assert 0 == letters()
    ran(send[1])
    wait_until(lambda: letters() == 1, what="a dead letter")
    assert "1 replayed" in ran(f"{look[1].replace('dlq list', 'dlq replay')} --all --yes")
    wait_until(lambda: letters() == 1, what="the dead letter of what was replayed")
    because = "--because 'no such channel'"
    assert "1 discarded" in ran(f"{look[1].replace('dlq list', 'dlq discard')} --all -y {because}")
    assert 0 == letters()


@pytest.mark.embedded
def test_plays_on_the_embedded_broker() -> None:
    """All conversations go as expected, and no process and no file is left."""
    run = subprocess.run(
        turnstream("demo", "--plain"),
        capture_output=True,
        text=True,
        timeout=PLAY_SECONDS,
        env=environment(),
        check=False,
    )

    assert 0 == run.returncode, run.stdout + run.stderr
    assert_played(run.stdout)
    folder = folder_of(run.stdout)
    assert {} == processes_of(folder)
    assert not Path(folder).exists()


async def demo_topics(bootstrap: str, prefix: str) -> list[str]:
    """The topics with a prefix that a cluster has."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return [topic for topic in await admin.list_topics() if topic.startswith(prefix)]
    finally:
        await admin.close()


def test_plays_on_a_real_kafka(kafka_bootstrap: str) -> None:
    """On a cluster that is there, all goes as expected under names of its own, removed after."""
    run = subprocess.run(
        turnstream("demo", "--plain", "--kafka"),
        capture_output=True,
        text=True,
        timeout=PLAY_SECONDS,
        env=environment() | {"KAFKA_BOOTSTRAP_SERVERS": kafka_bootstrap},
        check=False,
    )

    assert 0 == run.returncode, run.stdout + run.stderr
    assert_played(run.stdout)
    assert {} == processes_of(folder_of(run.stdout))
    match = re.search(r"creating the topics (demo-\w+\.)\*", run.stdout)
    assert match is not None
    prefix = match[1]
    # The cluster deletes a moment after it has said that it will.
    wait_until(lambda: not asyncio.run(demo_topics(kafka_bootstrap, prefix)), what="topics removed")


@pytest.mark.embedded
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    """SIGINT or SIGTERM in the middle of a play in the background stops every process and
    removes the files.
    """
    with running_demo(tmp_path) as (process, output):
        wait_until(lambda: "decide" in output.read_text().partition("== 2/")[2], what="a play")
        folder = folder_of(output.read_text())
        assert 5 == len(processes_of(folder))
        process.send_signal(number)

        assert 130 == process.wait(PLAY_SECONDS)
    assert {} == processes_of(folder)
    assert not Path(folder).exists()


@pytest.mark.embedded
def test_what_stays_up_can_be_examined_and_ends_well(tmp_path: Path) -> None:
    """The printed commands work as they are, and the Ctrl-C that is meant is no failure."""
    with running_demo(tmp_path, "--keep") as (process, output):
        wait_until(lambda: "shadow: http" in output.read_text(), what="the end of a play")
        said = output.read_text()
        examine = re.search(r"^  (SHOP_URL=.* doctor .*)$", said, re.MULTILINE)
        assert examine is not None
        examined = subprocess.run(
            ["sh", "-c", f"{examine[1]} -o json"],
            capture_output=True,
            text=True,
            timeout=PLAY_SECONDS,
            env=environment(),
            check=False,
        )
        assert "chat --config" in said
        assert "--locale en" in said
        assert 5 == len(re.findall(r"^  \w+: http://127.0.0.1:\d+/metrics$", said, re.MULTILINE))
        assert (0, "") == (examined.returncode, examined.stderr)
        assert {"ok"} == {one["status"] for one in json.loads(examined.stdout)}
        assert_letters_can_be_handled(said)
        process.send_signal(signal.SIGINT)

        assert 0 == process.wait(PLAY_SECONDS)
    assert {} == processes_of(folder_of(said))


@pytest.mark.embedded
def test_role_that_dies_is_explained(tmp_path: Path) -> None:
    """A role that ends by itself ends the demo, with its name, its log and all others stopped."""
    with running_demo(tmp_path, "--keep") as (process, output):
        wait_until(lambda: "== 1/" in output.read_text(), what="a play")
        folder = folder_of(output.read_text())
        os.kill(processes_of(folder)["classify"], signal.SIGKILL)

        assert 1 == process.wait(PLAY_SECONDS)
    said = output.read_text()
    assert "classify was killed by signal 9" in said
    assert f"{folder}/classify.log" in said
    assert {} == processes_of(folder)
    assert (Path(folder) / "classify.log").exists()


@pytest.mark.embedded
def test_chat_takes_piped_lines() -> None:
    """A piped conversation gets a reply to each line, and a number picks a suggestion."""
    lines = "Où est mon colis ?\nA-1001\nJ'ai une question sur les conditions de livraison\n2\n"
    run = subprocess.run(
        turnstream("chat", "--demo", "--locale", "fr"),
        input=lines,
        capture_output=True,
        text=True,
        timeout=PLAY_SECONDS,
        env=environment(),
        check=False,
    )
    said = [line[5:] for line in run.stdout.splitlines() if line.startswith(" bot ")]

    assert 0 == run.returncode, run.stdout + run.stderr
    assert "Indiquez le numéro de la commande concernée." == said[0]
    assert said[1].startswith("Votre commande A-1001 est expédiée.")
    assert said[3].startswith("La livraison coûte 4,90")
    assert {} == processes_of(folder_of(run.stdout))
