"""A model that takes 50 ms: turns per second of one process, and whether order is kept.

`decide` waits for many conversations at once, one turn of each at a time. The other ways of
delivery wait for one turn after the other; a handful of turns shows it.
"""

import argparse
import asyncio
from typing import Any

from benchmarks.broker import kafka
from benchmarks.load import turns as make_turns
from benchmarks.report import Table, console, finish
from benchmarks.runner import BARE, DECIDE, FAUST, QUIX, Measured, measure
from turnstream.core.conversation import Conversation
from turnstream.core.definitions import Catalog
from turnstream.core.effects import Input, Propose
from turnstream.core.events import Source
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.models.catalog_rules import CatalogRules

SECONDS = 0.05
SLOTS = 1_000


class Delayed:
    """The embedded decider, as if it were far away: it takes time, and no CPU of the process.

    So what it replies to the load's turns is worked out before the first of them comes.
    """

    def __init__(self, catalog: Catalog, *, seconds: float, turns: int) -> None:
        self._rules = CatalogRules(catalog, "benchmark")
        self._seconds = seconds
        self._replies = _replies(self._rules, catalog, turns)

    @property
    def name(self) -> str:
        """Name and version."""
        return f"delayed-{self._rules.name}"

    async def propose(self, request: DecisionRequest) -> Proposal:
        """Propose after a while."""
        await asyncio.sleep(self._seconds)
        return self._replies[_written(request)]


def delayed(catalog: Catalog, *, seconds: float, turns: int) -> Delayed:
    """Make the decider; a deployment names this function in its `deciders`."""
    return Delayed(catalog, seconds=seconds, turns=turns)


def _written(request: DecisionRequest) -> tuple[str, ...]:
    return tuple(one.text for one in request.messages if one.role == "customer")


def _replies(rules: CatalogRules, catalog: Catalog, turns: int) -> dict[tuple[str, ...], Proposal]:
    """What the decider replies to each turn of the load, by what the customer has written."""
    ruleset = Ruleset(catalog, decision_version="", presentation_version="")
    states: dict[str, Conversation] = {}
    replies: dict[tuple[str, ...], Proposal] = {}
    for offset, turn in enumerate(make_turns(turns, salt="").turns):
        name, topic, at = turn.conversation_id, "conversation.turns", turn.occurred_at
        source = Source(topic=topic, partition=0, offset=offset)
        cause = Input(name, turn, source, topic, offset, at, at)
        taken = step(states.get(name), cause, ruleset)
        for effect in taken.effects:
            if isinstance(effect, Propose):
                reply = rules.propose(effect.request)
                replies[_written(effect.request)] = reply
                taken = step(taken.state, cause.with_event(reply), ruleset)
        states[name] = taken.state
    return replies


def run(bootstrap: str, *, count: int, rounds: int, sequential: int) -> dict[str, Any]:
    """Measure `decide` with `count` turns and the sequential ones with `sequential`."""
    found: list[Measured] = []
    stream = {"slots": SLOTS}
    for _ in range(rounds):
        one = measure(DECIDE, bootstrap, count=count, delay_seconds=SECONDS, stream=stream)
        console.print(f"  {one.peer}: {one.rate:,.0f} turns/s, {one.checked.faults or 'checked'}")
        found.append(one)
    best = [max(found, key=lambda one: one.rate)]
    best += [
        measure(peer, bootstrap, count=sequential, delay_seconds=SECONDS)
        for peer in (FAUST, QUIX, BARE)
    ]
    return {
        "delay_seconds": SECONDS,
        "slots": SLOTS,
        "peers": [one.as_json() for one in best],
        "rounds": [one.as_json() for one in found],
    }


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = [
        (
            one["peer"],
            f"{one['turns_per_second']:,}",
            f"{one['turns']:,} in {one['conversations']:,}",
            "; ".join(f"{kind}: {count}" for kind, count in one["faults"].items()) or "exact",
        )
        for one in found["peers"]
    ]
    return Table(
        f"With a model that takes {found['delay_seconds'] * 1000:.0f} ms",
        ("delivery", "turns/s", "turns in conversations", "order and state"),
        rows,
        note=f"decide: {found['slots']} slots; the others as they come, one turn at a time",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sequential", type=int, default=100)
    options = parser.parse_args()
    with kafka() as bootstrap:
        found = run(
            bootstrap, count=options.turns, rounds=options.rounds, sequential=options.sequential
        )
    finish("slow_model", found, table(found))


if __name__ == "__main__":
    main()
