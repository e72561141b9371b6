"""Failpoints do what the environment says, and nothing without it."""

import asyncio
import signal
import sys

import pytest

from turnstream.stream import failpoints
from turnstream.stream.failpoints import (
    POINTS,
    VARIABLE,
    FailpointReached,
    Failpoints,
    Rule,
    arm,
    parse,
)
from turnstream.stream.role import StartRefused


@pytest.fixture(autouse=True)
def disarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no failpoint behind."""
    monkeypatch.setattr(failpoints, "armed", None)


def test_every_action_is_read() -> None:
    """A rule names its place, what happens there, and when."""
    rules = parse(
        "after_commit=crash@17, before_commit=delay:500@3,after_send=raise@2+,after_fence=stop"
    )

    assert (
        Rule("after_commit", "crash", hit=17),
        Rule("before_commit", "delay", delay_ms=500, hit=3),
        Rule("after_send", "raise", hit=2, onward=True),
        Rule("after_fence", "stop"),
    ) == rules


@pytest.mark.parametrize(
    "text",
    [
        "nowhere=crash",
        "after_commit",
        "after_commit=explode",
        "after_commit=delay",
        "after_commit=crash@0",
        "after_commit=crash@two",
        "after_commit=crash,",
    ],
)
def test_what_is_no_failpoint_refuses_the_start(text: str) -> None:
    """A fault that never happens must not let a test pass."""
    with pytest.raises(StartRefused, match="is no failpoint"):
        arm({VARIABLE: text})

    assert failpoints.armed is None


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}])
def test_without_the_variable_nothing_is_set(environment: dict[str, str]) -> None:
    """Production sets none, and none is looked for."""
    arm({VARIABLE: "after_send=raise"})
    arm(environment)

    assert failpoints.armed is None


def test_a_process_says_that_it_will_fail(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody leaves failpoints set without being told."""
    arm({VARIABLE: "after_send=raise"})

    assert "will fail on purpose" in caplog.text


async def test_a_place_fails_the_time_it_is_told_to() -> None:
    """The count of a place is its own."""
    points = Failpoints(parse("after_send=raise@2"))
    await points.reach("after_send")
    await points.reach("before_commit")

    with pytest.raises(FailpointReached):
        await points.reach("after_send")

    await points.reach("after_send")

    assert {"after_send": 3, "before_commit": 1} == points.hits


async def test_from_a_time_on_every_time() -> None:
    """What is to fail for good does."""
    points = Failpoints(parse("after_send=raise@2+"))
    await points.reach("after_send")

    for _ in range(3):
        with pytest.raises(FailpointReached):
            points.pass_by("after_send")


async def test_a_delay_lets_others_go_on() -> None:
    """Waiting at a place is not holding up the process."""
    points = Failpoints(parse("after_send=delay:20"))
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    task = asyncio.create_task(other())
    await points.reach("after_send")
    order.append("delayed")
    await task

    assert ["other", "delayed"] == order


async def test_work_has_begun_where_it_is_interrupted() -> None:
    """In the middle of a call is after its first step."""
    points = Failpoints(parse("during_call=raise"))
    begun: list[str] = []

    async def call() -> str:
        begun.append("call")
        await asyncio.sleep(60)
        return "reply"

    with pytest.raises(FailpointReached):
        await points.during("during_call", call())

    assert ["call"] == begun


async def test_work_that_is_not_interrupted_gives_its_reply() -> None:
    """A failpoint that is not due changes nothing."""

    async def call() -> str:
        return "reply"

    assert "reply" == await Failpoints(()).during("during_call", call())


async def test_a_crash_is_a_kill() -> None:
    """No handler, no cleanup, no last word."""
    script = (
        "from turnstream.stream.failpoints import Failpoints, parse\n"
        "try:\n"
        "    Failpoints(parse('after_send=crash')).pass_by('after_send')\n"
        "finally:\n"
        "    print('cleaned up')\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    assert (b"", -signal.SIGKILL) == (output, process.returncode)


def test_every_point_says_what_is_true_there() -> None:
    """The list is what one reads before setting one."""
    assert all(len(text) > 20 for text in POINTS.values())
