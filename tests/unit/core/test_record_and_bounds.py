"""Tests of turnstream.core.record, bounds and ruleset: what is stored, and how much of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from tests.catalogs import DEFINITION, MINUTE, NOW, RULES, ruleset, with_limits
from tests.driving import CLAIMS, Driver, answer, ask, call, hand_off
from turnstream.core.bounds import (
    ANSWER_CHARACTERS,
    PENDING_CHARACTERS,
    RECORD_BYTES,
    acceptable_id,
    cleaned,
    exceeds,
    latest,
    shortened,
)
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Abandoned
from turnstream.core.errors import DefinitionError
from turnstream.core.events import ConversationTurn, Passage, SessionClaims
from turnstream.core.publications import OutboundMessage
from turnstream.core.record import RecordTooNew, RecordUnreadable, dump, load, lost
from turnstream.core.ruleset import Limits

NASTY = ["\U0001f600", "\x00", '"', "é", "\n", "x"]
"""Characters that take one to six bytes in JSON."""


def test_a_record_comes_back_as_it_was() -> None:
    """Everything that a busy conversation holds survives storing, byte for byte."""
    talk = Driver()
    talk.turn("Where is A-1 or A-2? Fees?", ask(), record={"order_id": "A-3"}, locale="fr-FR")
    talk.turn("A-1", call())
    talk.turn("And when do you open?", passages=(Passage(passage_id="p", text="t"),))
    stored = dump(talk.conversation)

    assert talk.conversation == load(stored)
    assert stored == dump(load(stored))
    assert stored.startswith(b'{"record_version":2,')


def test_the_order_of_keys_does_not_matter() -> None:
    """A record that another writer laid out differently is read all the same."""
    found = from_json(dump(Conversation(input_no=3)))
    assert Conversation(input_no=3) == load(to_json(dict(reversed(found.items()))))


@pytest.mark.parametrize("version", [3, 99])
def test_a_newer_record_is_refused_by_its_version(version: int) -> None:
    """The error carries the version, so that the conversation can be parked."""
    with pytest.raises(RecordTooNew, match=str(version)) as caught:
        load(b'{"record_version":%d,"brand_new":1}' % version)
    assert version == caught.value.version


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"not json", "not JSON"),
        (b"[]", "no record_version"),
        (b"{}", "no record_version"),
        (b'{"record_version":true}', "no record_version"),
        (b'{"record_version":0}', "no migration"),
        (b'{"record_version":1,"phase":"SECRET","input_no":"x"}', "input_no, phase"),
        (b'{"record_version":1,', "not a conversation"),
        (b'{"record_version":2,"phase":"SECRET","input_no":"x"}', "input_no, phase"),
    ],
)
def test_unreadable_records(stored: bytes, message: str) -> None:
    """The error says what is wrong and where, never what a customer wrote."""
    with pytest.raises(RecordUnreadable, match=message) as caught:
        load(stored)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("stored", "version", "watermarks"),
    [
        (b"not json", None, {}),
        (b"[]", None, {}),
        (b'{"record_version":"1"}', None, {}),
        (b'{"record_version":0,"watermarks":[1]}', 0, {}),
        (b'{"record_version":0,"watermarks":{"a":7,"b":"x","c":-1,"d":true}}', 0, {"a": 7}),
        (b'{"record_version":1,"watermarks":{"a":7},"phase":"?"}', 1, {"a": 7}),
    ],
)
def test_what_can_be_made_out_of_an_unreadable_record(
    stored: bytes, version: int | None, watermarks: dict[str, int]
) -> None:
    """The version for the log, and the watermarks, so that no input is handled twice."""
    with pytest.raises(RecordUnreadable) as caught:
        load(stored)

    assert version == caught.value.version
    assert watermarks == caught.value.watermarks


OLD = Path(__file__).parents[2] / "fixtures/records/conversation-1.json"


def test_a_record_of_the_first_version_is_migrated() -> None:
    """It counted no messages: those that are left are counted, none as written since then."""
    stored = to_json(from_json(OLD.read_bytes()))
    found = load(stored)
    reversed_keys = to_json(dict(reversed(from_json(stored).items())))

    assert (2, 7) == (found.record_version, len(found.history))
    assert found.spoken == len(found.history)
    assert found.activation is not None
    assert ((), found.spoken) == (found.activation.loop, found.activation.spoken)
    assert found == load(dump(found)) == load(reversed_keys)

    talk = Driver(state=found, now=found.updated_at, turns=50)
    talk.offsets = {"conversation.turns": 99, "conversation.answers": 99}
    talk.answered()
    talk.turn("Where is A-1?", call())
    assert "call_tool" == talk.action.decision.action


def test_turns_that_waited_in_a_record_of_the_first_version() -> None:
    """They count as little as everything else that was said before."""
    talk = Driver()
    talk.turn("Where is A-1?", call())
    talk.turn("When do you open?")
    stored = from_json(dump(talk.conversation))
    del stored["spoken"], stored["backlog"]["spoken"], stored["activation"]["spoken"]
    found = load(to_json({**stored, "record_version": 1}))

    assert found.backlog is not None
    assert 2 == found.spoken == found.backlog.spoken


@pytest.mark.parametrize("turn_id", ["t9", None])
def test_a_lost_conversation_is_handed_off_by_whatever_comes_next(turn_id: str | None) -> None:
    """Turn or not, it never passes for a fresh one: a person is told, and has it from then on."""
    talk = Driver(state=lost({"conversation.labels": 3}, turn_id or ""))
    turn = None
    if turn_id is not None:
        turn = ConversationTurn(
            turn_id=turn_id,
            conversation_id="conv-1",
            channel_id="web",
            role="customer",
            text="Hello?",
            occurred_at=NOW,
        )

    talk.send(Abandoned(turn))

    assert "dead_letter" == talk.cause
    assert ("held", "person") == (talk.phase, talk.conversation.holder)
    assert turn_id == talk.action.turn_id
    assert (["web"] if turn else []) == [one.channel_id for one in talk.of(OutboundMessage)]
    assert {"conversation.labels": 3, "conversation.turns": 0} == talk.conversation.watermarks
    assert talk.conversation == load(dump(talk.conversation))


@pytest.mark.parametrize("character", NASTY)
def test_the_record_stays_bounded(character: str) -> None:
    """However long texts, claims, passages and results are, and whatever they are made of."""
    talk = Driver(with_limits(conversation_ttl_ms=10**12))
    long = character * 50_000
    body: dict[str, JsonValue] = {
        "status": character * (22_000 // len(to_json(character))),
        "total": 1,
    }
    for number in range(40):
        talk.now += MINUTE
        text = f"Where is A-{number}? {long}"
        passages = tuple(Passage(passage_id=f"p{n}", text=long) for n in range(9))
        talk.turn(text, call(), turn_id=f"{number}" + "\U0001f600" * 120, passages=passages)
        talk.turn(long + ".", tenant_id="t" * 128, locale="l" * 99)
        talk.turn(f"A-{number}0 {long}")
        assert len(dump(talk.conversation)) < RECORD_BYTES
        talk.result(body, call())
        talk.result(body, answer("order_status"))
        assert len(dump(talk.conversation)) < RECORD_BYTES
        talk.answered(answer(None, text=long[1:ANSWER_CHARACTERS] + "."), text=long)
        talk.answered(text=long)
    stored = dump(talk.conversation)

    assert "idle" == talk.phase
    assert talk.conversation == load(stored)
    assert len(stored) < RECORD_BYTES
    assert talk.conversation.locale is None


def test_many_fields_stay_bounded() -> None:
    """Values that outgrow their share are an explicit error, and the old ones stay."""
    fields = {
        f"note-{n}": {"description": "N.", "max_length": 2000, "question": {"en": "?"}}
        for n in range(20)
    }
    fields["shade"] = {
        "description": "S.",
        "type": "choice",
        "choices": {"red": {"label": {"en": "red"}}},
    }
    tools = {
        "note_down": {
            **DEFINITION["tools"]["search_help"],
            "input_schema": {
                "type": "object",
                "required": list(fields),
                "properties": {name: {"type": "string"} for name in fields},
            },
            "arguments": {name: {"provenance": ["message"]} for name in fields},
        }
    }
    agents = {"shop": {"description": "S.", "maxSteps": 99, "maxQuestions": 20}}
    talk = Driver(ruleset(fields=fields, tools=tools, answers={}, agents=agents))
    talk.turn("hello", ask("note-0", "note_down"))
    known = 0
    for number in range(1, 19):
        if number == 3:
            break
        talk.turn("\U0001f600" * 2000, ask(f"note-{number}", "note_down"))
        known = len(talk.conversation.values)
        assert len(dump(talk.conversation)) < RECORD_BYTES
        if known == 2:
            break
    talk.turn("\U0001f600" * 2000)

    assert "state_too_large" == talk.cause
    assert known == len(talk.conversation.values)


def test_claims_within_their_share_are_kept() -> None:
    """Large claims are measured, not guessed at."""
    permissions = tuple(f"right-{number}" for number in range(500))
    claims = SessionClaims(subject_id="c1", permissions=permissions, values={"customer": "c1"})
    talk = Driver()
    talk.turn("hello", hand_off(), claims=claims)

    assert claims == talk.conversation.session


def test_cleaning() -> None:
    """Controls and lone surrogates are replaced; line breaks and everything else stay."""
    assert "a\ufffdb\nc\td" == cleaned("a\x00b\nc\td")
    assert "?é" == cleaned("\ud800é")
    assert "é\n" == cleaned("é\n")


def test_shortening() -> None:
    """A text that is too long is cut and says so; any other is the same object."""
    text = "x" * 30
    assert text is shortened(text, 30)
    assert "x" * 14 + " [...]" == shortened(text, 20)


def test_exceeding() -> None:
    """Few characters are never measured; many are, in bytes of JSON."""
    assert not exceeds("x" * 100, 600, characters=100)
    assert not exceeds("x" * 100, 102, characters=100)
    assert exceeds("x" * 100, 101, characters=100)


def test_ids() -> None:
    """An id may be absent; else it is short and printable."""
    assert acceptable_id(None)
    assert acceptable_id("x" * 128)
    assert not acceptable_id("x" * 129)
    assert not acceptable_id("a\x00")


def test_the_newest_texts_stay() -> None:
    """Of several waiting texts the oldest are dropped first, the last never."""
    half = "x" * (PENDING_CHARACTERS // 2)
    assert (half, half) == latest(("old", half, half))
    assert ("y" * 9000,) == latest((half, "y" * 9000))


def test_limits_that_could_break_the_bound() -> None:
    """The error names the bytes and what to change; the largest configurable history is fine."""
    assert 200 == Limits(history_messages=200).history_messages
    with pytest.raises(DefinitionError, match="keep less history"):
        Limits(history_characters=100_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entry_agent": "nobody"}, "entry_agent 'nobody'"),
        ({"default_queue": "nowhere"}, "default_queue 'nowhere'"),
        ({"rules": {}}, "'refund' requires permissions"),
        (
            {"answers": {"a": {"description": "A.", "of_tool": "gone", "text": {"en": "x"}}}},
            "unknown tool 'gone'",
        ),
    ],
)
def test_a_catalog_without_a_way_out(changes: dict[str, Any], message: str) -> None:
    """A catalog that would leave the machine stuck is refused when it is compiled."""
    with pytest.raises(DefinitionError, match=message):
        ruleset(**changes)


def test_compiled_catalog() -> None:
    """Placeholders keep their order, queues their causes; equal inputs compile to equal results."""
    assert ("order_id", "status", "total") == RULES.placeholders["order_status"]
    assert {"tool_unavailable": "outages", "outcome_unknown": "outages"} == RULES.queue_of
    assert RULES.limits == replace(RULES.limits)
    assert NOW > 0
    assert "c1" == CLAIMS.subject_id
