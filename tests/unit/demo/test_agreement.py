"""Comparisons are counted."""

from tests.unit.demo import events
from turnstream.core.publications import ShadowComparison
from turnstream.demo.agreement import Agreement


def comparison(live: str, proposed: object) -> ShadowComparison:
    """One of a live action with a proposal."""
    event = events.comparison("x", proposed, live_action=live).event  # type: ignore[arg-type]
    assert isinstance(event, ShadowComparison)
    return event


def test_what_does_not_say_what_was_done_is_not_held_against_the_candidate() -> None:
    """An unlabelled live action is counted, and is no disagreement."""
    agreement = Agreement(
        [
            comparison("ask", events.ASK),
            comparison("refuse", events.ASK),
            comparison("unlabelled", events.ASK),
        ]
    )

    assert (3, 2, 1) == (agreement.total, agreement.comparable, agreement.same_action)
    assert agreement.title.startswith("Shadow agreement: 1/2 the same action")


def test_as_json() -> None:
    """Every action is there, also where nothing was counted."""
    found = Agreement([comparison("refuse", events.ASK)]).as_json()

    assert (1, 1, 0) == (found["comparisons"], found["comparable"], found["same_action"])
    assert {"different": 1} == found["verdicts"]
    actions = found["actions"]
    assert isinstance(actions, dict)
    assert [5] * 5 == [len(row) for row in actions.values()]
    assert 1 == actions["refuse"]["ask"]
