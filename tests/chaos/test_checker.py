"""What the checker says of runs that no worker would produce: a few events, without Kafka."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.chaos.fold import Handled
from tests.chaos.ledger import Ledger
from tests.chaos.stage import said
from tests.chaos.written import (
    ACTIONS,
    ANSWERS,
    CONTROL,
    LABELS,
    QUESTION,
    RULESET,
    TURNS,
    Decided,
    changed,
    control,
    found,
    input_of,
    kept,
    ledger,
)
from tests.unit.roles.bench import NOW, record
from turnstream.core.conversation import Conversation
from turnstream.core.events import Answer, Label, Source
from turnstream.core.identity import shadow_id
from turnstream.core.publications import ActionEvent, ShadowComparison, ShadowProposal
from turnstream.core.record import dump
from turnstream.core.step import step
from turnstream.stream import Record

TTL_MS = RULESET.limits.conversation_ttl_ms

# --- the fold -------------------------------------------------------------------------------------


def test_the_fold_takes_the_reply_that_was_committed() -> None:
    """Of two replies to one request, only one leads to what was published."""
    run = Decided()
    fold = run.fold(run.replies)

    assert fold.difference("c-1", [run.handled], [_kept(run.state)]) is None


@pytest.mark.parametrize("known", [slice(0, 1), slice(0, 0)])
def test_a_decision_without_its_reply_is_no_fold(known: slice, tmp_path: Path) -> None:
    """Neither another reply to the same request will do, nor none."""
    run = Decided()
    fold = run.fold(run.replies[known])
    written = ledger()
    written.sources[TURNS, 0, 0] = (run.record, run.turn)
    written.actions = [(record(one, topic=ACTIONS), one) for one in run.actions]

    assert fold.difference("c-1", [run.handled], [_kept(run.state)]) is not None
    assert "unlogged_reply" in found(written, tmp_path, fold)


def test_another_state_is_no_fold() -> None:
    """The state in the changelog is compared whole."""
    run = Decided()
    other = replace(run.state, sequence=run.state.sequence + 1)

    assert run.fold(run.replies).difference("c-1", [run.handled], [_kept(other)]) is not None


@pytest.mark.parametrize("afresh", [True, False])
def test_after_a_tombstone_the_next_input_finds_none_or_the_closed_one(afresh: bool) -> None:
    """A conversation that was closed goes on in one of these two ways, and in no other."""
    run = Decided()
    close, later = control("forget"), control("hand_back")
    closing, following = record(close, 0, topic=CONTROL), record(later, 1, topic=CONTROL)
    closed = step(run.state, input_of(closing, close), RULESET).state
    start = None if afresh else closed
    after = step(start, input_of(following, later), RULESET).state
    inputs = [
        run.handled,
        *(
            Handled(one, event, (), (), None)
            for one, event in ((closing, close), (following, later))
        ),
    ]
    log = [_kept(run.state), _kept(None), _kept(after)]
    wrong = [*log[:2], _kept(replace(after, input_no=after.input_no + 1))]
    fold = run.fold(run.replies)

    assert fold.difference("c-1", inputs, log) is None
    assert fold.difference("c-1", inputs, wrong) is not None
    assert fold.difference("c-1", inputs[:1], log[:2]) is not None


# --- labels, proposals, what is forgotten ---------------------------------------------------------


def _labelled(run: Ledger, *ids: str) -> Ledger:
    """A turn with a composed answer and labels of these ids."""
    turn = said("c-1", 1, QUESTION).model_copy(update={"occurred_at": NOW})
    answer = Answer(
        action_id="a-1",
        conversation_id="c-1",
        turn_id=turn.turn_id,
        text="At nine.",
        failure=None,
        model="",
        occurred_at=0,
    )
    for topic, event in ((TURNS, turn), (ANSWERS, answer)):
        run.sources[topic, 0, 0] = (record(event, topic=topic), event)
    run.answers.append((record(answer, topic=ANSWERS), answer))
    label = Label(
        exchange_id=turn.turn_id,
        conversation_id="c-1",
        title="",
        categories=(),
        model="",
        occurred_at=0,
    )
    run.labels += [(_with_id(record(label, topic=LABELS), one), label) for one in ids]
    return run


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([f"{ANSWERS}/0/0/label"], set()),
        ([f"{TURNS}/0/0/label"], set()),
        ([], {"no_label"}),
        ([f"{ANSWERS}/0/0/label"] * 2, {"labelled_twice"}),
        ([f"{ANSWERS}/0/0/label", f"{TURNS}/0/0/label"], {"labelled_twice"}),
        ([f"{ANSWERS}/0/7/label"], {"wrong_label"}),
    ],
)
def test_an_ending_has_one_label(ids: list[str], expected: set[str], tmp_path: Path) -> None:
    """Its id is that of the input that brought it about."""
    assert expected == found(_labelled(ledger(), *ids), tmp_path)


@pytest.mark.parametrize(("turns", "expected"), [(32, {"no_label"}), (33, set())])
def test_a_label_is_due_while_the_classifier_knows_the_turn(
    turns: int, expected: set[str], tmp_path: Path
) -> None:
    """A long conversation has left its memory; one with many messages has not yet."""
    run = _labelled(ledger())
    for number in range(1, turns):
        turn = said("c-1", number, QUESTION).model_copy(update={"occurred_at": NOW})
        run.sources[TURNS, 0, number] = (record(turn, number, topic=TURNS), turn)

    assert expected == found(run, tmp_path)


@pytest.mark.parametrize(("later_ms", "expected"), [(0, {"no_label"}), (TTL_MS, set())])
def test_a_label_is_due_while_the_conversation_is_followed(
    later_ms: int, expected: set[str], tmp_path: Path
) -> None:
    """A classifier that hears of nothing but the turn for so long lets the conversation go."""
    run = _labelled(ledger())
    ((answered, answer),) = run.answers
    run.answers = [(changed(answered, timestamp=answered.timestamp + later_ms), answer)]

    assert expected == found(run, tmp_path)


@pytest.mark.parametrize(("later_ms", "expected"), [(TTL_MS, {"no_proposal"}), (2 * TTL_MS, set())])
def test_a_proposal_is_due_while_the_turn_is_kept(
    later_ms: int, expected: set[str], tmp_path: Path
) -> None:
    """A shadow that waits so long for the live decision lets the turn go."""
    run, decided = ledger(), Decided()
    (action,) = decided.actions
    run.sources[TURNS, 0, 0] = (decided.record, decided.turn)
    at = decided.record.timestamp + later_ms
    run.actions.append((changed(record(action, topic=ACTIONS), timestamp=at), action))

    assert expected == found(run, tmp_path, decided.fold(decided.replies))


def test_a_shadow_proposes_once_per_decision(tmp_path: Path) -> None:
    """With an id of the decision's source, and beside a decision that there is."""
    run, decided = ledger(), Decided()
    (action,) = decided.actions
    run.sources[TURNS, 0, 0] = (decided.record, decided.turn)
    run.actions.append((record(action, topic=ACTIONS), action))
    fold = decided.fold(decided.replies)
    missing = found(run, tmp_path, fold)
    _propose(run, action, action.source)
    once = found(run, tmp_path, fold)
    _propose(run, action, action.source)
    twice = found(run, tmp_path, fold)
    _propose(run, action, Source(topic=TURNS, partition=0, offset=9))

    assert {"no_proposal"} == missing
    assert set() == once
    assert {"proposed_twice"} == twice
    assert {"proposed_twice", "wrong_proposal"} == found(run, tmp_path, fold)


@pytest.mark.parametrize(
    "change",
    [
        {"comparison_id": "another"},
        {"live_id": "another"},
        {"live_action": "refuse"},
        {"proposed": Decided("human").actions[0].decision},
    ],
)
def test_a_comparison_is_of_what_was_proposed_and_done(
    change: dict[str, Any], tmp_path: Path
) -> None:
    """With an id of the decision's source."""
    decided = Decided()
    run = decided.written()
    (action,) = decided.actions
    _propose(run, action, action.source)
    ((one, comparison),) = run.comparisons
    run.comparisons = [(one, comparison.model_copy(update=change))]

    assert {"wrong_proposal"} == found(run, tmp_path, decided.fold(decided.replies))


def test_a_role_writes_its_own_topics(tmp_path: Path) -> None:
    """A shadow that acts is found by what its records name as their writer."""
    run = ledger()
    run.writers["conversation.actions", "shadow"] += 1

    assert {"wrong_writer"} == found(run, tmp_path)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["[c-1/1]", None], set()),
        (["[c-1/1]", None, "[c-1/2]"], set()),
        (["[c-1/1]", None, "[c-1/1] [c-1/2]"], {"remembered"}),
        (["[c-1/1]", "closed"], {"not_forgotten"}),
    ],
)
def test_what_is_forgotten_is_gone(
    texts: list[str | None], expected: set[str], tmp_path: Path
) -> None:
    """No record is left where nothing came later, and nothing comes back where something did."""
    run = ledger()
    turn = said("c-1", 1, QUESTION)
    run.sources[TURNS, 0, 0] = (record(turn, topic=TURNS), turn)
    run.forget([b"c-1"])
    for number, text in enumerate(texts):
        run.add(kept("classify", b"c-1", None if text is None else {"messages": text}))
        if number == 1:
            run.not_forgotten += run.still_there()

    assert expected == found(run, tmp_path)


def test_the_journal_holds_no_words(tmp_path: Path) -> None:
    """It stays when a conversation is forgotten, so nothing that was said may be in it."""
    run = ledger()
    run.add(kept("execute", b"c-1/a-1", {"phase": "done", "tool": "about [c-1/1]"}))

    assert {"text_in_journal"} == found(run, tmp_path)


# --- records --------------------------------------------------------------------------------------


def _propose(run: Ledger, action: ActionEvent, source: Source) -> None:
    about: dict[str, Any] = {
        "candidate": "other",
        "conversation_id": "c-1",
        "source": source,
        "versions": action.versions,
    }
    proposal = ShadowProposal(
        proposal_id=shadow_id("c-1", source, "proposal"),
        decision=action.decision,
        diagnostics_json="{}",
        decided_at=0,
        **about,
    )
    comparison = ShadowComparison(
        comparison_id=shadow_id("c-1", source, "comparison"),
        proposed=action.decision,
        live_action="answer",
        live_id=action.action_id,
        verdict="same",
        compared_at=0,
        **about,
    )
    run.proposals.append((record(proposal, topic="shadow.proposals"), proposal))
    run.comparisons.append((record(comparison, topic="shadow.comparisons"), comparison))


def _kept(state: Conversation | None) -> Record:
    return kept("decide", b"c-1", None if state is None else orjson.loads(dump(state)))


def _with_id(one: Record, event_id: str) -> Record:
    return changed(one, headers=(("ce_id", event_id.encode()),))
