"""Programs that the demo starts: each with its own log file, ended by process id."""

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 25.0
"""A role drains within its grace of 15 s; one that hangs is killed, or the demo would not end."""

_TAIL_BYTES: Final = 65_536
"""The end of a log is read, never a log of any size."""


class ChildDied(Exception):
    """A program ended by itself; the message ends with what it logged last."""


@dataclass
class Child:
    """One running program."""

    name: str
    log: Path
    process: asyncio.subprocess.Process
    stopping: bool = field(default=False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def tail(self, lines: int = 15) -> str:
        """What it logged last."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    async def watch(self) -> None:
        """Return when it has been told to stop and has; raise when it ends by itself.

        Raises:
            ChildDied: It ended and nobody had told it to.
        """
        code = await self.process.wait()
        if self.stopping:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        raise ChildDied(
            f"{self.name} {how}; its log is {self.log}. It ended with:\n"
            f"{self.tail() or '(nothing)'}"
        )


async def start(
    name: str, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]
) -> Child:
    """Start a program in a session of its own: Ctrl-C reaches the demo, which stops it in order."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    return Child(name, log, process)


async def stop(children: Iterable[Child]) -> None:
    """Stop programs beside each other: SIGTERM, and SIGKILL for those that do not end in time."""
    running = [child for child in children if child.process.returncode is None]
    for child in running:
        child.stopping = True
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.gather(*(child.process.wait() for child in running))
    except TimeoutError:
        for child in running:
            if child.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.kill()
                await child.process.wait()
