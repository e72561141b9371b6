"""Handlers in stages: many records through one stage before the next, and nothing left behind."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.stream import running as module

from .lane_fakes import TURNS, Script, Tally, until
from .test_dispatch import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstream.stream.handler import Handled, LaneContext, Record, Stages


class InStages(Script):
    """The scripted handler, cut into three stages; `odd...` fails in its second one at first."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: list[str] = []
        self.cost = 0.0
        """Seconds that a stage takes, by the clock of the test."""
        self.now = 0.0
        self.after_first: Callable[[], None] | None = None
        """Called by the event loop after the round of the first stage."""

    def handle(  # type: ignore[override]
        self, record: Record, event: str, state: Tally | None, lane: LaneContext[Tally]
    ) -> Stages[Tally]:
        """Do as told, in the last stage."""
        self._enter(f"1 {event}")
        yield
        self._enter(f"2 {event}")
        if event.startswith("odd") and self.stages.count(f"2 {event}") == 1:
            message = "not yet"
            raise RuntimeError(message)
        yield
        self._enter(f"3 {event}")
        handled: Handled[Tally] = super().handle(record, event, state, lane)  # type: ignore[assignment]
        return handled

    def _enter(self, stage: str) -> None:
        self.stages.append(stage)
        self.now += self.cost
        if self.after_first is not None and len(self.stages) == 1:
            asyncio.get_running_loop().call_soon(self.after_first)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> InStages:
    """A handler whose clock is that of the rounds."""
    one = InStages()
    monkeypatch.setattr(module, "perf_counter", lambda: one.now)
    return one


async def test_a_chunk_goes_through_one_stage_before_the_next(script: InStages) -> None:
    """All records whose key is free; what waits behind them follows in a wave of its own."""
    async with running(script=script) as one:
        one.deliver("a:x", "b:y", "a:z")
        await one.committed(turns=3)

    assert ["1 x", "1 y", "2 x", "2 y", "3 x", "3 y", "1 z", "2 z", "3 z"] == script.stages
    assert ["x", "y", "z"] == one.published


@pytest.mark.parametrize("slots", [1, 5, 19])
async def test_fewer_slots_than_keys_strand_nothing(script: InStages, slots: int) -> None:
    """Records that end at once make no task whose end could call the others: a round does."""
    async with running(script=script, slots=slots) as one:
        one.deliver(*[f"key-{number}:value-{number}" for number in range(40)])
        await one.committed(turns=40)

    assert 40 == len(script.calls)


async def test_a_round_ends_between_two_records(script: InStages) -> None:
    """A slow stage lets the event loop go on after each record, whatever the chunk."""
    script.cost = 1.0
    rounds: list[int] = []
    begin = module.Round.begin

    def counted(one: module.Round) -> None:
        rounds.append(len(script.stages))
        begin(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Round, "begin", counted)
        async with running(script=script) as one:
            one.deliver(*[f"key-{number}:value-{number}" for number in range(10)])
            await one.committed(turns=10)

    taken = [after - before for before, after in pairwise(rounds)]
    assert 1 == max(taken)


async def test_what_waits_behind_a_stage_is_no_flood(script: InStages) -> None:
    """A burst of one customer in one fetch is handled, as long as nothing in it needs time."""
    async with running(script=script, max_queued_per_key=3) as one:
        one.deliver(*[f"value-{number}" for number in range(15)])
        await one.committed(turns=15)

        one.deliver("wait", *[f"more-{number}" for number in range(5)])
        await until(lambda: ("handle", "wait") in script.calls)
        one.open_gate("wait")
        await one.committed(turns=21)

    assert {"handle"} == {kind for kind, _ in script.calls[:16]}
    assert ["flood"] * 5 == [kind for kind, _ in script.calls[16:]]


async def test_closing_in_the_middle_of_a_chunk_commits_nothing_of_it(script: InStages) -> None:
    """What is between two stages is dropped and will be read again."""
    script.cost = 1.0
    async with running(script=script) as one:
        script.after_first = one.dispatcher.close_intake
        one.deliver("a:x", "b:y")
        await until(one.dispatcher.slots.closing.is_set)
        await one.dispatcher.wait_running(0)
        await one.lane.drain()

        assert ["1 x"] == script.stages
        assert {} == one.bench.producer.offsets()
        assert [] == one.published


@given(st.data())
async def test_any_mixture_keeps_the_order_of_each_key(data: st.DataObject) -> None:
    """With errors in a stage, waits, few slots and small queues: all handled, in order."""
    kinds = st.sampled_from(("v", "odd", "wait"))
    values = data.draw(st.lists(st.tuples(st.sampled_from("abc"), kinds), max_size=25))
    texts = [f"{key}:{kind}{number}" for number, (key, kind) in enumerate(values)]
    slots, queued = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 30))
    async with running(script=InStages(), slots=slots, max_queued_per_partition=queued) as one:
        for text in texts:
            one.open_gate(text.partition(":")[2])
        at = data.draw(st.integers(0, len(texts)))
        one.deliver(*texts[:at])
        one.deliver(*texts[at:])
        if texts:
            await one.committed(**{TURNS: len(texts)})

    for key in "abc":
        sent = [text.partition(":")[2] for text in texts if text.startswith(key)]
        assert sent == [value for value in one.published if value in sent]
