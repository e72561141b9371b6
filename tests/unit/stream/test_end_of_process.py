"""A process that must end does, whatever else fails."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError

from turnstream.stream.role import EXIT_FAILED, EXIT_REFUSED, LaneFailed, StartRefused, end_process
from turnstream.stream.takeover import TakeoverStalled

_SCRIPT = """
import io, resource, sys
from turnstream.stream.role import LaneFailed, end_process
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.stdout = io.TextIOWrapper(open(1, "wb", buffering=65_536))
print("what the log cannot take any more")
end_process(LaneFailed("no lane"))
"""


async def test_a_full_disk_does_not_keep_a_process_alive(tmp_path: Path) -> None:
    """The log on the same disk can be written no more than the state."""
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SCRIPT, stdout=log, stderr=log
        )

    assert EXIT_FAILED == await process.wait()


def failed(message: str, cause: BaseException) -> LaneFailed:
    """Return a failure with a cause."""
    error = LaneFailed(message)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status", "said", "traced"),
    [
        (failed("lane 2 stands", TimeoutError()), EXIT_FAILED, ": lane 2 stands. Nothing", False),
        (TakeoverStalled("no answer"), EXIT_FAILED, ": no answer. Nothing", False),
        (KafkaTimeoutError("late"), EXIT_FAILED, "(kafka.bootstrap_servers)", False),
        (KafkaConnectionError("gone"), EXIT_FAILED, "(kafka.bootstrap_servers)", False),
        (failed("lane 2 stands", KeyError("k")), EXIT_FAILED, ": lane 2 stands. Nothing", True),
        (KeyError("k"), EXIT_FAILED, "status 3: KeyError('k'). Nothing", True),
        (StartRefused("no topic"), EXIT_REFUSED, "start refused: no topic", False),
    ],
)
def test_an_outage_ends_with_one_line_and_a_fault_with_its_traceback(  # noqa: PLR0917 - pytest passes by name
    error: BaseException,
    status: int,
    said: str,
    traced: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever is on call reads what is wrong and what to do; whoever mends it, where it was."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    end: Callable[[BaseException], object] = end_process
    end(error)

    (line,) = caplog.records
    assert [status] == ended
    assert said in line.getMessage()
    assert traced == bool(line.exc_info)
