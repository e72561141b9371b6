"""Where the microseconds of one turn go, stage by stage, in one process without a broker.

Each stage is timed around the role's own functions, the clock's own cost taken off. What a turn
costs beyond it - fetching, ordering, batches, the transaction - is the difference to the CPU per
turn that throughput.py measures on the broker.
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.load import turns
from benchmarks.report import Table, finish
from benchmarks.work import Received, Work, settings
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Input, Propose, Publish
from turnstream.core.step import step
from turnstream.roles.intake import source_of
from turnstream.roles.run import tune_collector

CHUNK = 64
"""Records that the stream takes through one stage before the next."""

STAGES = (
    ("decode", "Avro bytes to the checked event, key and partition checks"),
    ("step", "observe: history, values, tool options, the request"),
    ("propose", "the embedded decider"),
    ("step again", "judge and enact: policy, contract, the events as models"),
    ("encode", "events to Avro, headers, metrics"),
    ("dump", "the state record as JSON"),
)


def records(work: Work, count: int) -> list[Received]:
    """Return the encoded turns as records of one partition each conversation hashes to."""
    from turnstream.stream.partitioner import by_murmur2

    codec = work.deployment.codec
    found = []
    for offset, turn in enumerate(turns(count, salt="profile").turns):
        key = turn.conversation_id.encode()
        partition = by_murmur2(key, work.deployment.settings.partitions)
        found.append(
            Received(work.turns, partition, offset, key, codec.encode(turn), turn.occurred_at)
        )
    return found


def profile(count: int) -> dict[str, float]:
    """Return microseconds per turn of each stage."""
    work = Work(settings("unused:9092", "profile."))
    for sample in (records(work, 2_000), records(work, count)):
        spent = _pass(work, sample)
    return {name: one / count * 1e6 for name, one in spent.items()}


def _pass(work: Work, sample: list[Received]) -> dict[str, float]:
    handler, ruleset = work.handler, work.deployment.ruleset
    decider = work.deployment.deciders()[work.deployment.catalog.entry_agent]
    states: dict[bytes, Conversation] = {}
    spent = dict.fromkeys([name for name, _ in STAGES], 0.0)
    clock: Callable[[], float] = time.perf_counter
    gc.collect()
    gc.disable()
    begun = clock()
    for record in sample:
        marks = [clock()]
        _, event = handler.admit(record)
        marks.append(clock())
        cause = Input(
            conversation_id=record.key.decode(),
            event=event,  # type: ignore[arg-type]
            source=source_of(record),
            topic=record.topic,
            offset=record.offset,
            timestamp=record.timestamp,
            now=record.timestamp,
        )
        first = step(states.get(record.key), cause, ruleset)
        marks.append(clock())
        second = first
        asked = first.effects[-1]
        if isinstance(asked, Propose):
            reply: Any = decider.propose(asked.request)
            marks.append(clock())
            second = step(first.state, replace(cause, event=reply), ruleset)
            marks.append(clock())
        else:
            marks += [marks[-1], marks[-1]]
        for effect in second.effects:
            if isinstance(effect, Publish):
                handler._publication(record, event, effect.event)
        marks.append(clock())
        work.format.dump(second.state)
        marks.append(clock())
        states[record.key] = second.state
        for at, name in enumerate(spent):
            spent[name] += marks[at + 1] - marks[at]
    whole = clock() - begun
    gc.enable()
    tick = _cost_of_clock(clock)
    spent = {name: one - tick * len(sample) for name, one in spent.items()}
    del whole
    return spent


def whole_turn(count: int, *, chunk: int) -> float:
    """Return microseconds of CPU per turn of `admit`, `handle` and `dump`, untimed inside.

    Args:
        count: How many turns.
        chunk: How many go through one stage before the next; the stream takes 64.
    """
    work = Work(settings("unused:9092", "profile."))
    tune_collector()
    best = float("inf")
    for number in range(4):
        states: dict[bytes, Conversation] = {}
        sample = records(work, 2_000 if number == 0 else count)
        begun = time.process_time()
        for at in range(0, len(sample), chunk):
            _in_stages(work, sample[at : at + chunk], states)
        if number:
            best = min(best, (time.process_time() - begun) / len(sample))
    return best * 1e6


def _in_stages(work: Work, sample: list[Received], states: dict[bytes, Conversation]) -> None:
    """Take records, each of another conversation, through the handler as the stream does."""
    handler = work.handler
    admitted = [(record, handler.admit(record)[1]) for record in sample]
    staged = [
        (record, handler.handle(record, event, states.get(record.key), None))  # type: ignore[arg-type]
        for record, event in admitted
    ]
    ended: list[tuple[Received, Any]] = []
    while staged:
        going = []
        for record, stages in staged:
            try:
                next(stages)
            except StopIteration as end:
                ended.append((record, end.value))
            else:
                going.append((record, stages))
        staged = going
    for record, handled in ended:
        states[record.key] = work.state(handled)
        work.format.dump(handled.state)


def _cost_of_clock(clock: Callable[[], float]) -> float:
    begun = clock()
    for _ in range(100_000):
        clock()
    return (clock() - begun) / 100_000


def run(count: int) -> dict[str, Any]:
    """Measure; return the figures."""
    runs = [profile(count) for _ in range(3)]
    stages = {name: min(one[name] for one in runs) for name, _ in STAGES}
    return {
        "turns": count,
        "stages_us": stages,
        "one_by_one_us": whole_turn(count, chunk=1),
        "in_chunks_us": whole_turn(count, chunk=CHUNK),
    }


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    total = sum(found["stages_us"].values())
    rows = [
        (name, f"{found['stages_us'][name]:.1f}", f"{found['stages_us'][name] / total:.0%}", text)
        for name, text in STAGES
    ]
    rows.append(("sum of stages", f"{total:.1f}", "100%", "best of three passes each"))
    alone, chunked = found["one_by_one_us"], found["in_chunks_us"]
    rows.append(("one by one", f"{alone:.1f}", "", "admit, handle, dump; CPU time"))
    rows.append(("in chunks", f"{chunked:.1f}", "", f"the same, {CHUNK} records per stage"))
    return Table("One turn of decide", ("stage", "us", "share", "what"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10_000)
    options = parser.parse_args()
    found = run(options.turns)
    finish("profile_turn", found, table(found))


if __name__ == "__main__":
    main()
