"""What a decision took is published with it, however its replies and failures came."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson
import pytest
from pydantic import JsonValue

from tests.unit.roles.test_decide import DOWN, FAULTY, Bench, Later, action_in, at, scripted
from turnstream.core.ports import Decider, DeciderUnavailable, DecisionRequest, Proposal
from turnstream.models.scripted import ScriptedDecider, answer


class LaterOnce(Later):
    """One whose reply of one number needs a turn of the event loop; the others come at once."""

    def __init__(self, decider: ScriptedDecider, *, number: int) -> None:
        super().__init__(decider)
        self._number, self._asked = number, 0

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:  # type: ignore[override]
        """Reply, or reply later."""
        self._asked += 1
        later = super().propose(request)
        if self._asked - 1 == self._number:
            return later
        later.close()  # type: ignore[attr-defined]
        return self._decider.propose(request)


async def test_what_a_decision_took_is_published_with_it() -> None:
    """A time-out, a proposal that broke a rule and the one that was acted on are one decision."""
    notes: dict[str, JsonValue] = {"input_tokens": 10, "output_tokens": 2}
    faulty, good = (replace(one, diagnostics=notes) for one in (FAULTY, answer("hours")))
    bench = Bench(Later(scripted(DOWN, faulty, good)), attempts=3)

    action = action_in(await bench.take(at(0)))

    published = orjson.loads(action.diagnostics_json or "{}")
    assert {
        "proposals": 2,
        "input_tokens": 20,
        "output_tokens": 4,
        "failed_attempts": {"unavailable": 1},
    } == published["in_all"]
    assert 20 == bench.counted.value("decider_tokens_total", decider="model", direction="in")


@pytest.mark.parametrize("later", [0, 1, 2, 3])
async def test_replies_that_come_at_once_are_added_up_as_well(later: int) -> None:
    """Whichever of a decision's replies, and of its failures, come at once or are waited for."""
    notes: dict[str, JsonValue] = {"input_tokens": 10, "output_tokens": 2}
    faulty, good = (replace(one, diagnostics=notes) for one in (FAULTY, answer("hours")))
    bench = Bench(LaterOnce(scripted(faulty, DOWN, good), number=later), attempts=3)

    action = action_in(await bench.take(at(0)))

    published = orjson.loads(action.diagnostics_json)
    assert {
        "proposals": 2,
        "input_tokens": 20,
        "output_tokens": 4,
        "failed_attempts": {"unavailable": 1},
    } == published["in_all"]


async def test_two_replies_at_once_are_one_decision() -> None:
    """Without a moment of waiting; a decision of one reply says it all itself."""
    notes: dict[str, JsonValue] = {"input_tokens": 10}
    faulty, good = (replace(one, diagnostics=notes) for one in (FAULTY, answer("hours")))
    bench = Bench(scripted(faulty, good, good))

    first = orjson.loads(action_in(await bench.take(at(0))).diagnostics_json)
    bench.state = None
    second = orjson.loads(action_in(await bench.take(at(1))).diagnostics_json)

    assert {"proposals": 2, "input_tokens": 20, "output_tokens": 0} == first["in_all"]
    assert "in_all" not in second


@pytest.mark.parametrize("wrap", [lambda one: one, Later], ids=["immediate", "patient"])
async def test_what_attempts_in_vain_took_is_published_with_the_handoff(
    wrap: Callable[[ScriptedDecider], Decider],
) -> None:
    """A proposal that broke a rule, and replies that could not be read, were paid for."""
    faulty = replace(FAULTY, diagnostics={"input_tokens": 10, "cost": 0.5, "currency": "EUR"})
    unreadable = [DeciderUnavailable("unreadable"), DeciderUnavailable("unreadable")]
    for one in unreadable:
        one.diagnostics = {"input_tokens": 7, "output_tokens": 3, "cost": 0.25, "currency": "EUR"}
    bench = Bench(wrap(scripted(faulty, *unreadable)))

    action = action_in(await bench.take(at(0)))

    assert "budget" == action.handoff.cause  # type: ignore[union-attr]
    assert {
        "detail": "no proposal in 2 attempts",
        "in_all": {
            "proposals": 1,
            "input_tokens": 24,
            "output_tokens": 6,
            "failed_attempts": {"unavailable": 2},
            "cost": {"EUR": 1.0},
        },
    } == orjson.loads(action.diagnostics_json)
