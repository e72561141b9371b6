"""Starts one way of delivery on a backlog of turns, waits for its end, measures and checks it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.broker import create_topics, delete_topics, ends, fresh_prefix, produce
from benchmarks.load import turns as make_turns
from benchmarks.meter import read
from benchmarks.verify import Checked, check
from benchmarks.work import outputs, settings
from turnstream.config import Settings

ROOT = Path(__file__).resolve().parent.parent
_POLL_SECONDS = 0.25


class Peer(NamedTuple):
    """One way of delivery."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    changelog: str | None = None
    """Template of its changelog's name: {prefix}, {group}, {turns}."""


DECIDE = Peer(
    "turnstream decide", "turnstream_decide", changelog="{prefix}turnstream-decide-state-changelog"
)
FAUST = Peer("Faust agent, stock", "faust_stock", changelog="{group}-state-changelog")
QUIX = Peer("quixstreams, at least once", "quix", changelog="changelog__{group}--{turns}--default")
QUIX_ONCE = QUIX._replace(name="quixstreams, exactly once", arguments=("exactly-once",))
BARE = Peer("aiokafka loop, no changelog", "bare_aiokafka")


class Measured(NamedTuple):
    """The figures of one run."""

    peer: str
    turns: int
    conversations: int
    seconds: float
    cpu_us: float
    """CPU of the process per turn, microseconds, from its first record on."""
    checked: Checked

    @property
    def rate(self) -> float:
        """Turns per second."""
        return self.turns / self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return the figures, without what was decided."""
        return {
            "peer": self.peer,
            "turns": self.turns,
            "conversations": self.conversations,
            "seconds": round(self.seconds, 3),
            "turns_per_second": round(self.rate),
            "cpu_us_per_turn": round(self.cpu_us, 1),
            "events": self.checked.events,
            "faults": self.checked.faults,
        }


class RunFailed(Exception):
    """A measured process ended or took too long; the message ends with what it printed."""


def start(module: str, argument: dict[str, Any], *more: str, log: Path) -> subprocess.Popen[bytes]:
    """Start `python -m benchmarks.MODULE JSON`, its output going to a file."""
    paths = (os.environ.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "processors"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{module}", orjson.dumps(argument).decode(), *more],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def stop(process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """End a process of ours."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(
    peer: Peer,
    bootstrap: str,
    *,
    count: int,
    delay_seconds: float = 0.0,
    stream: dict[str, Any] | None = None,
    limit_seconds: float = 240,
) -> Measured:
    """Run one peer on a backlog of `count` turns of its own topics."""
    return asyncio.run(_measure(peer, bootstrap, count, delay_seconds, stream or {}, limit_seconds))


async def _measure(  # noqa: PLR0917
    peer: Peer,
    bootstrap: str,
    count: int,
    delay_seconds: float,
    stream: dict[str, Any],
    limit_seconds: float,
) -> Measured:
    prefix = fresh_prefix(peer.module.replace("_", "-"))
    run = settings(bootstrap, prefix)
    published = list(outputs(run).values())
    await create_topics(run, stamped=published)
    load = make_turns(count, salt=prefix)
    await produce(run, load.turns)
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    argument = {
        "bootstrap": bootstrap,
        "prefix": prefix,
        "folder": str(folder),
        "delay_seconds": delay_seconds,
        "turns": count,
        "stream": stream,
    }
    process = start(f"peers.{peer.module}", argument, *peer.arguments, log=folder / "log")
    try:
        await _until_done(process, run, count, limit_seconds, folder / "log")
        # The last samples of the meter lie after the last record.
        await asyncio.sleep(0.3)
    finally:
        stop(process)
    group = f"{prefix}group"
    names = {"prefix": prefix, "group": group, "turns": run.topics.name("conversation.turns")}
    changelog = None if peer.changelog is None else peer.changelog.format(**names)
    checked = await check(run, load.turns, changelog=changelog)
    reading = read(folder / "meter")
    if reading is None:
        raise RunFailed(f"{peer.name}: met no record\n{tail(folder / 'log')}")
    seconds = checked.last_at - reading.began
    cpu = reading.cpu_at(checked.last_at) / count * 1e6
    shutil.rmtree(folder, ignore_errors=True)
    await delete_topics(bootstrap, prefix)
    return Measured(peer.name, count, load.conversations, seconds, cpu, checked)


async def _until_done(
    process: subprocess.Popen[bytes], run: Settings, count: int, limit_seconds: float, log: Path
) -> None:
    """Wait until all events are there and nothing is added any more.

    End offsets count transaction markers as well, so reaching the count is not enough: they must
    also stand still, longer than any of the peers waits before it writes.
    """
    deadline = time.monotonic() + limit_seconds
    topics = outputs(run)
    decided = (topics["conversation.actions"], topics["conversation.outcomes"])
    last: dict[str, int] = {}
    still = 0
    while True:
        if process.poll() is not None:
            raise RunFailed(f"the process ended with {process.returncode}\n{tail(log)}")
        now = await ends(run.kafka.bootstrap_servers, list(topics.values()), run.partitions)
        still = still + 1 if now == last else 0
        if sum(now[topic] for topic in decided) >= count and still >= 8:
            return
        if time.monotonic() > deadline:
            raise RunFailed(f"{now} of {count} turns after {limit_seconds} s\n{tail(log)}")
        last = now
        await asyncio.sleep(_POLL_SECONDS)


def tail(log: Path) -> str:
    """Return the end of what a process printed."""
    lines: Sequence[str] = log.read_text(errors="replace").splitlines()[-25:]
    return "\n".join(lines)
