"""All STAR user turns through `decide` and `shadow` on a real Kafka, then a check of the topics.

Usage: python -m benchmarks.star.run_star [--star DIR] [--rate N] [--limit N] [--roles ...]

Nothing is tuned for the data: the embedded decider with the catalog beside this file, as it is.
"""

import argparse
import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.broker import ends, fresh_prefix, kafka
from benchmarks.report import Table, console, finish
from benchmarks.runner import RunFailed, stop
from benchmarks.star.check import Findings, accounted, examine
from benchmarks.star.convert import Moment, moments
from benchmarks.star.dataset import DataMissing, star_folder
from benchmarks.star.settings import settings, start_role, write
from turnstream.config import Settings
from turnstream.core.contract import ACTIONS
from turnstream.stream.codec import Codec
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import apply

ROLES = ("decide", "execute", "answer", "classify", "shadow")
_LINGER_SECONDS = 1.0
"""How long after a turn what the human did next is sent, where the dialogue goes on later."""
_QUIET_SECONDS = 6.0
"""Every topic must have stood still for so long before it is read."""


@contextlib.contextmanager
def running(roles: Sequence[str], config: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run roles as processes of their own."""
    processes = {role: start_role(role, config, config.with_name(f"{role}.log")) for role in roles}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            stop(process)


async def send(run: Settings, ordered: list[Moment], *, rate: float, progress: Any) -> float:
    """Send turns by their place in their dialogues, interleaved, at a steady rate.

    Turns of one conversation keep their distance, compressed like everything else. What the human
    did goes along, a moment after the turn.
    """
    codec, choose = Codec(), partitioner(run.turns.partitioner)
    turns, live = (
        run.topics.name("conversation.turns"),
        run.topics.name("conversation.live-actions"),
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=run.kafka.bootstrap_servers, linger_ms=5, enable_idempotence=True
    )
    await producer.start()
    later: list[tuple[float, Moment]] = []
    begun = time.monotonic()

    async def put(topic: str, event: Any) -> None:
        key = event.conversation_id.encode()
        partition = choose(key, run.partitions)
        await producer.send(topic, codec.encode(event), key=key, partition=partition)

    async def put_live(until: float) -> None:
        while later and later[0][0] <= until:
            _, moment = later.pop(0)
            await put(live, moment.live.model_copy(update={"occurred_at": _now_ms()}))

    try:
        for number, moment in enumerate(ordered):
            wait = begun + number / rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            await put(turns, moment.turn.model_copy(update={"occurred_at": _now_ms()}))
            later.append((time.monotonic() + _LINGER_SECONDS, moment))
            await put_live(time.monotonic())
            progress(number + 1)
        await put_live(float("inf"))
        await producer.flush()
    finally:
        await producer.stop()
    return time.monotonic() - begun


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def settle(
    run: Settings,
    count: int,
    processes: dict[str, subprocess.Popen[bytes]],
    *,
    seconds: float,
    progress: Any,
) -> None:
    """Wait until every turn is accounted for and nothing moves any more."""
    names = (
        "conversation.actions", "conversation.outcomes", "conversation.answers", "tool.results",
        "conversation.labels", "shadow.proposals", "shadow.comparisons",
    )  # fmt: skip
    topics = [run.topics.name(name) for name in names]
    deadline = time.monotonic() + seconds
    last: dict[str, int] = {}
    still_since = time.monotonic()
    while time.monotonic() < deadline:
        _alive(processes)
        now = await ends(run.kafka.bootstrap_servers, topics, run.partitions)
        if now != last:
            last, still_since = now, time.monotonic()
        elif time.monotonic() - still_since >= _QUIET_SECONDS:
            done = len(await accounted(run))
            progress(done)
            if done >= count:
                return
        await asyncio.sleep(1)
    raise RunFailed(
        f"{len(await accounted(run)):,} of {count:,} turns accounted for after {seconds:.0f} s"
    )


def _alive(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for role, process in processes.items():
        if process.poll() is not None:
            raise RunFailed(f"{role} ended with {process.returncode}")


def tables(found: Findings) -> list[Table]:
    """Return what is printed."""
    wrong = "; ".join(f"{name}: {count:,}" for name, count in found.faults.items())
    agreement = [
        (mine, *(f"{found.agreement[mine][theirs]:,}" for theirs in (*ACTIONS, "unlabelled")))
        for mine in ACTIONS
    ]
    total = sum(found.agreement[mine][theirs] for mine in ACTIONS for theirs in ACTIONS)
    same = sum(found.agreement[mine][mine] for mine in ACTIONS)
    share = f"{same:,} of {total:,} labelled turns ({same / max(total, 1):.1%})"
    return [
        Table(
            "STAR: every turn accounted for",
            ("what", "count"),
            [
                ("user turns sent", f"{found.turns:,}"),
                ("with exactly one batch of actions or one outcome", f"{found.accounted:,}"),
                ("faults", wrong or "0"),
                *((name, f"{count:,}") for name, count in found.events.items()),
            ],
        ),
        _counts("Actions", found.actions),
        _counts("Causes of handoffs", found.handoff_causes),
        _counts("Outcomes", found.outcomes),
        _counts("Tool calls", found.tool_outcomes),
        Table(
            "Shadow (rows) and what the human did next (columns)",
            ("proposed", *ACTIONS, "unlabelled"),
            agreement,
            note=f"the same action: {share}; verdicts: {found.verdicts}",
        ),
    ]


def _counts(title: str, counts: dict[str, int]) -> Table:
    total = sum(counts.values()) or 1
    rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in counts.items()]
    return Table(title, ("what", "count", "share"), rows)


async def run_all(
    bootstrap: str,
    folder: Path,
    *,
    rate: float,
    limit: int | None,
    roles: Sequence[str],
    work: Path,
) -> tuple[Findings, float]:
    """Send, wait, check."""
    prefix = fresh_prefix("star")
    run = settings(bootstrap, prefix)
    await apply(run)
    config = write(work, bootstrap, prefix)
    ordered = sorted(moments(folder, epoch_ms=0), key=lambda one: one.at)
    if limit is not None:
        ordered = ordered[:limit]
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    with running(roles, config) as processes, Progress(*columns, console=console) as shown:
        sending = shown.add_task("turns sent", total=len(ordered))
        took = await send(
            run, ordered, rate=rate, progress=lambda n: shown.update(sending, completed=n)
        )
        waiting = shown.add_task("turns accounted for", total=len(ordered))
        await settle(
            run,
            len(ordered),
            processes,
            seconds=600,
            progress=lambda n: shown.update(waiting, completed=n),
        )
    return await examine(run), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--star", type=Path, help="folder of the data set")
    parser.add_argument("--rate", type=float, default=500.0, help="turns per second")
    parser.add_argument("--limit", type=int, help="send only the first so many")
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=list(ROLES))
    options = parser.parse_args()
    try:
        folder = star_folder(options.star)
    except DataMissing as error:
        sys.exit(str(error))
    work = Path(tempfile.mkdtemp(prefix="turnstream-star-"))
    try:
        with kafka() as bootstrap:
            found, took = asyncio.run(
                run_all(
                    bootstrap,
                    folder,
                    rate=options.rate,
                    limit=options.limit,
                    roles=options.roles,
                    work=work,
                )
            )
    except RunFailed as error:
        for log in sorted(work.glob("*.log")):
            console.print(f"[bold]{log.name}[/bold]")
            console.print("\n".join(log.read_text(errors="replace").splitlines()[-8:]))
        sys.exit(f"the run failed: {error}; logs are in {work}")
    shutil.rmtree(work, ignore_errors=True)
    figures = {**found.as_json(), "sent_in_seconds": round(took, 1), "roles": list(options.roles)}
    finish("star", figures, *tables(found))
    sys.exit(1 if found.faults else 0)


if __name__ == "__main__":
    main()
