"""Whatever tells the demo to end, it ends in order, once."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import pytest
from rich.console import Console

from turnstream.demo import show


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_after_its_cleanup(number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and a closed terminal; a second signal does not disturb the cleanup."""
    done: list[str] = []

    async def work() -> int:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append("cleaned up")
        return 0

    assert 130 == show.run_until_interrupted(work(), Console(quiet=True))
    assert ["cleaned up"] == done


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under nohup, the terminal may close."""

    async def work() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return 0

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert 0 == show.run_until_interrupted(work(), Console(quiet=True))
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_background_job_of_a_script_can_be_interrupted() -> None:
    """Shells start it with Ctrl-C ignored; it ends on SIGINT all the same."""

    async def work() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return 0

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert 130 == show.run_until_interrupted(work(), Console(quiet=True))
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_before_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before the handlers are there ends as quietly, and nothing is left behind."""
    begun: list[str] = []

    async def work() -> int:
        begun.append("work")
        return 0

    async def interrupted(_: Coroutine[Any, Any, int]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(show, "_interruptible", interrupted)

    assert 130 == show.run_until_interrupted(work(), Console(quiet=True))
    assert [] == begun
