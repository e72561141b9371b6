"""What the checker says of runs that no worker would produce: a few events, without Kafka."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos import shop
from tests.chaos.checker import Ledger, check
from tests.chaos.fold import Folder, Handled
from tests.chaos.stage import said
from tests.unit.roles.bench import NOW, record
from turnstream.catalog.schemas import argument_checks
from turnstream.core.conversation import Conversation
from turnstream.core.definitions import Catalog
from turnstream.core.effects import Input, Propose, Publish
from turnstream.core.events import Answer, ConversationControl, Event, Label, Source
from turnstream.core.identity import shadow_id
from turnstream.core.publications import ActionEvent, ShadowComparison, ShadowProposal
from turnstream.core.record import dump
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.roles.intake import source_of
from turnstream.stream import Record

CATALOG = Catalog.model_validate(shop.CATALOG)
RULESET = Ruleset(
    catalog=CATALOG,
    decision_version="d1",
    presentation_version="p1",
    checks=argument_checks(CATALOG),
)
TURNS, CONTROL, ANSWERS, LABELS = (
    f"conversation.{name}" for name in ("turns", "control", "answers", "labels")
)
QUESTION = "when do you open?"


def ledger() -> Ledger:
    """A run in which nothing has happened."""
    return Ledger(
        intake=cast("Any", None),
        logical={},
        decode=cast("Any", None),
        changelogs={f"{role}-log": role for role in ("decide", "classify", "execute")},
        with_calls=False,
        shadowed=True,
    )


def found(run: Ledger, folder: Path, fold: Folder | None = None) -> set[str]:
    """The names of the checks that fail, those aside that ask for the rest of a run."""
    findings = check(
        run, folder=folder, catalog=CATALOG, fold=fold or Folder(RULESET), crashes=True
    )
    return {one.check for one in findings} - {"undecided_turn", "state"}


# --- the fold -------------------------------------------------------------------------------------


class Decided:
    """A turn, decided with one of two replies, and the two replies."""

    def __init__(self) -> None:
        # The record's time is a constant, so the turn's must be as well.
        self.turn = said("c-1", 1, QUESTION).model_copy(update={"occurred_at": NOW})
        self.record = record(self.turn, topic=TURNS)
        cause = _input(self.record, self.turn)
        outcome = step(None, cause, RULESET)
        (asking,) = outcome.effects
        assert isinstance(asking, Propose)
        self.request = shop.asked(asking.request)
        self.replies = [
            shop.Reply(str(proposal.diagnostics[shop.REPLY]), 1, proposal)
            for proposal in (shop.Other().propose(asking.request) for _ in range(200))
            if proposal.tool != shop.NO_TOOL
        ][:2]
        decided = step(outcome.state, cause.with_event(self.replies[1].proposal), RULESET)
        self.state = decided.state
        self.actions = [
            effect.event
            for effect in decided.effects
            if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent)
        ]

    @property
    def handled(self) -> Handled:
        """The turn and what was published for it."""
        return Handled(self.record, self.turn, self.actions, (), None)

    def fold(self, replies: Sequence[shop.Reply]) -> Folder:
        """A fold that knows some replies."""
        return Folder(RULESET, {self.request: replies})


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
    written.actions = [(record(one, topic="conversation.actions"), one) for one in run.actions]

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
    close, later = _control("forget"), _control("hand_back")
    closing, following = record(close, 0, topic=CONTROL), record(later, 1, topic=CONTROL)
    closed = step(run.state, _input(closing, close), RULESET).state
    start = None if afresh else closed
    after = step(start, _input(following, later), RULESET).state
    inputs = [
        run.handled,
        *(
            Handled(one, event, (), (), None)
            for one, event in ((closing, close), (following, later))
        ),
    ]
    kept = [_kept(run.state), _kept(None), _kept(after)]
    wrong = [*kept[:2], _kept(replace(after, input_no=after.input_no + 1))]
    fold = run.fold(run.replies)

    assert fold.difference("c-1", inputs, kept) is None
    assert fold.difference("c-1", inputs, wrong) is not None
    assert fold.difference("c-1", inputs[:1], kept[:2]) is not None


# --- labels, proposals, what is forgotten ---------------------------------------------------------


def _labelled(run: Ledger, *ids: str) -> Ledger:
    """A turn with a composed answer and labels of these ids."""
    turn = said("c-1", 1, QUESTION)
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


def test_a_shadow_proposes_once_per_decision(tmp_path: Path) -> None:
    """With an id of the decision's source, and beside a decision that there is."""
    run, decided = ledger(), Decided()
    (action,) = decided.actions
    run.sources[TURNS, 0, 0] = (decided.record, decided.turn)
    run.actions.append((record(action, topic="conversation.actions"), action))
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


def test_a_role_writes_its_own_topics(tmp_path: Path) -> None:
    """A shadow that acts is found by what its records name as their writer."""
    run = ledger()
    run.writers["conversation.actions", "shadow"] += 1

    assert {"wrong_writer"} == found(run, tmp_path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([b"[c-1/1]", None], set()),
        ([b"[c-1/1]", None, b"[c-1/2]"], set()),
        ([b"[c-1/1]", None, b"[c-1/1] [c-1/2]"], {"remembered"}),
        ([b"[c-1/1]", b"closed"], {"not_forgotten"}),
    ],
)
def test_what_is_forgotten_is_gone(
    values: list[bytes | None], expected: set[str], tmp_path: Path
) -> None:
    """No record is left where nothing came later, and nothing comes back where something did."""
    run = ledger()
    turn = said("c-1", 1, QUESTION)
    run.sources[TURNS, 0, 0] = (record(turn, topic=TURNS), turn)
    run.forget([b"c-1"])
    for number, value in enumerate(values):
        run.add(_changed("classify-log", b"c-1", value))
        if number == 1:
            run.not_forgotten += run.still_there()

    assert expected == found(run, tmp_path)


def test_the_journal_holds_no_words(tmp_path: Path) -> None:
    """It stays when a conversation is forgotten, so nothing that was said may be in it."""
    run = ledger()
    run.add(_changed("execute-log", b"c-1/a-1", b"about [c-1/1]"))

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


def _control(kind: Any) -> ConversationControl:
    return ConversationControl(
        control_id=kind, conversation_id="c-1", kind=kind, actor="desk", occurred_at=0
    )


def _input(source: Record, event: Event) -> Input:
    return Input(
        conversation_id="c-1",
        event=cast("Any", event),
        source=source_of(source),
        topic=source.topic,
        offset=source.offset,
        timestamp=source.timestamp,
        now=source.timestamp,
    )


_changed_by: Callable[..., Record] = replace


def _changed(topic: str, key: bytes, value: bytes | None) -> Record:
    anything = record(_control("close"), topic=topic, key=key)
    return _changed_by(anything, value=value)


def _kept(state: Conversation | None) -> Record:
    return _changed("decide-log", b"c-1", None if state is None else dump(state))


def _with_id(one: Record, event_id: str) -> Record:
    return _changed_by(one, headers=(("ce_id", event_id.encode()),))
