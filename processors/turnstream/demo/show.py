"""The demo from start to end: a deployment, conversations, a summary, and everything stopped."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from turnstream.catalog import CatalogError, load_catalog
from turnstream.config import ConfigurationError, SecretUnavailable
from turnstream.demo.children import ChildDied
from turnstream.demo.errors import BrokerError
from turnstream.demo.player import Player, Result, play_all
from turnstream.demo.role_process import NotReady
from turnstream.demo.script import Script, ScriptError, load_scripts
from turnstream.demo.stack import Stack, running_stack
from turnstream.demo.summary import Summary
from turnstream.demo.timeline import TOPICS, Timeline
from turnstream.demo.traffic import Overdue, Traffic, TrafficError
from turnstream.roles import answer, classify, decide, execute, shadow
from turnstream.roles.writing import EventWriter, WritingError
from turnstream.stream.registry import SchemasUnavailable
from turnstream.stream.topics import TopicsRefused

AT_ONCE: Final = 4
"""Conversations played beside each other: more would only wait for the same two processors."""

_REST_SECONDS: Final = 40.0
"""Labels and comparisons come a moment after the last answer; a role that is stuck must show."""

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_MAY_BE_IGNORED: Final = signal.SIGHUP
"""`nohup` runs a program without its terminal, and means it. Of SIGINT it says nothing that it is
ignored: shells do that to whatever a script starts in the background."""

_LOCALE: Final = "en"
"""Of the chat that is proposed: what the demo says of itself is English too."""

_UNDECIDABLE: Final = (
    '{"conversation_id": "lost", "turn_id": "t-1", "channel_id": "pigeon", "text": "Hello"}'
)
"""A turn on a channel that the catalog does not know."""

_INTERRUPTED: Final = 130
_FAILED: Final = 1
_COULD_NOT_RUN: Final = 2

EXPLAINED: Final = (
    BrokerError,
    CatalogError,
    ChildDied,
    ConfigurationError,
    NotReady,
    Overdue,
    SchemasUnavailable,
    ScriptError,
    SecretUnavailable,
    TopicsRefused,
    TrafficError,
    WritingError,
)
"""What may go wrong outside of us; each says what to do."""

_UNUSABLE: Final = (
    BrokerError,
    CatalogError,
    ConfigurationError,
    SchemasUnavailable,
    ScriptError,
    SecretUnavailable,
    TopicsRefused,
    TrafficError,
    WritingError,
)
"""Of these, what keeps a run from being started at all."""

_SOURCES: Final = {
    "decide": decide.SOURCES,
    "execute": execute.SOURCES,
    "answer": answer.SOURCES,
    "classify": classify.SOURCES,
    "shadow": shadow.SOURCES,
}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo is run."""

    keep: bool = False
    """Stay up after the play, until interrupted."""
    real_kafka: bool = False
    plain: bool = False
    """Plain lines, as a log wants them."""


def show(options: DemoOptions, console: Console) -> int:
    """Run the demo; return the process's exit status.

    0: every conversation went as its script says. 1: one did not, or a process failed. 2: it could
    not be started. 130: interrupted before it only stayed up.
    """
    return run_until_interrupted(_show(options, console), console)


def run_until_interrupted(work: Coroutine[Any, Any, int], console: Console) -> int:
    """Run something until it ends, or is told to: by Ctrl-C, SIGTERM, or the terminal's closing.

    One of them ends it, and another does not disturb its cleanup.
    """
    try:
        return asyncio.run(_interruptible(work))
    # The second: Ctrl-C before the handlers were there, or after.
    except (asyncio.CancelledError, KeyboardInterrupt):
        # A terminal that has been closed takes no words.
        with contextlib.suppress(OSError):
            console.print("interrupted; everything has been stopped")
        return _INTERRUPTED
    except EXPLAINED as error:
        console.print(Text(f"{error}", style="red"), soft_wrap=True)
        return _COULD_NOT_RUN if isinstance(error, _UNUSABLE) else _FAILED
    finally:
        work.close()  # one that was never begun would be reported as forgotten


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.create_task(work)
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            task.cancel()

    loop = asyncio.get_running_loop()
    handled = [
        one
        for one in _INTERRUPTS
        if one is not _MAY_BE_IGNORED or signal.getsignal(one) is not signal.SIG_IGN
    ]
    for number in handled:
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _show(options: DemoOptions, console: Console) -> int:
    scripts = load_scripts()
    began = time.monotonic()

    def report(what: str) -> None:
        console.print(Text(f"[{time.monotonic() - began:5.1f} s] {what}"), soft_wrap=True)

    async with running_stack(real_kafka=options.real_kafka, report=report) as stack:
        status = await stack.while_running(_play(stack, scripts, console, plain=options.plain))
        stack.keep_files = status != 0
        if status:
            report(f"not as expected; the logs stay in {stack.folder}")
        if options.keep:
            _print_addresses(stack, console, report)
            try:
                await stack.watch()
            except asyncio.CancelledError:
                # Ctrl-C is how it is meant to end; what is left to do is to stop everything.
                ending = asyncio.current_task()
                if ending is not None:
                    ending.uncancel()
    report("stopped")
    return status


def _print_addresses(stack: Stack, console: Console, report: Callable[[str], None]) -> None:
    """Say how to talk to what runs, to examine it and to watch it."""
    command = f"{sys.executable} -m turnstream.cli"
    deployment = f"--config {stack.configuration}"
    catalog = load_catalog(stack.settings.catalog).catalog
    locale = "" if catalog.default_locale == _LOCALE else f" --locale {_LOCALE}"
    claims = """--claims '{"subject_id": "C-100", "permissions": ["orders:write"]}'"""
    lines = [
        f"{command} chat {deployment} --conversation me{locale} {claims}",
        f"SHOP_URL={stack.shop_url} {command} doctor {deployment}",
        f"echo '{_UNDECIDABLE}' | {command} turns send - {deployment}",
        f"{command} dlq list {deployment}",
        *(f"{name}: {role.url}" for name, role in stack.roles.items()),
    ]
    report(
        "staying up until Ctrl-C; to talk to it, to examine it, to make a dead letter and look at "
        "it (then `dlq replay` or `discard`), and its metrics:"
    )
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)


async def _play(stack: Stack, scripts: tuple[Script, ...], console: Console, *, plain: bool) -> int:
    timeline = Timeline(console, scripts, plain=plain)
    traffic = Traffic(stack.settings, topics=TOPICS, begin="beginning", dead_letters=_all_sources())
    async with traffic, EventWriter(stack.settings) as writer:
        traffic.listen(timeline.take)

        async def reached(needed: Any) -> None:  # noqa: ANN401 - a mapping, passed on
            await stack.roles["decide"].reached(needed, seconds=_REST_SECONDS)

        async def ended(result: Result) -> None:
            for deviation in result.deviations:
                timeline.problem(result.script.id, deviation)
            await _at_rest(stack, traffic, result.script.id)
            timeline.over(result.script.id)

        player = Player(writer, traffic, reached=reached)
        results = await play_all(player, scripts, at_once=AT_ONCE, ended=ended)
        for result in results:
            if not result.deviations:
                result.deviations += player.surplus(result.script)
        summary = Summary(traffic.all)
        summary.print(console, plain=plain)
        return _verdict(results, summary, console)


async def _at_rest(stack: Stack, traffic: Traffic, conversation_id: str) -> None:
    """Wait until every role has taken in all that a conversation has led to, and it has been seen.

    What a role takes in may lead to more, which others must take in; so until nothing is new.
    """
    before = -1
    while len(traffic.of(conversation_id)) != before:
        before = len(traffic.of(conversation_id))
        for name, role in stack.roles.items():
            needed: dict[tuple[str, int], int] = {}
            for one in traffic.of(conversation_id):
                if one.topic in _SOURCES[name] and not one.dead:
                    place = (one.topic, one.partition)
                    needed[place] = max(needed.get(place, 0), one.offset + 1)
            await role.reached(needed, seconds=_REST_SECONDS)
        await traffic.drained(seconds=_REST_SECONDS)


def _all_sources() -> tuple[str, ...]:
    return tuple(sorted({topic for sources in _SOURCES.values() for topic in sources}))


def _verdict(results: list[Result], summary: Summary, console: Console) -> int:
    problems = [
        f"{result.script.id}: {deviation}" for result in results for deviation in result.deviations
    ]
    good = sum(not result.deviations for result in results)
    compared, decided = summary.agreement.total, summary.decisions.total()
    if compared != decided:
        problems.append(f"the candidate was compared at {compared} of {decided} decisions")
    if summary.unlabelled:
        problems.append(f"{summary.unlabelled} of {summary.labels} exchanges could not be labelled")
    console.print()
    for problem in problems:
        console.print(Text(problem, style="red"), soft_wrap=True)
    text = f"{good} of {len(results)} conversations went as their scripts say"
    console.print(Text(text, style="red" if problems else "bold green"))
    return _FAILED if problems else 0
