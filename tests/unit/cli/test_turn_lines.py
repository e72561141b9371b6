"""Lines of JSON become events, or say why they do not."""

import pytest

from turnstream.cli.turn_lines import BadLine, LineReader
from turnstream.core.events import ConversationControl, ConversationTurn

READER = LineReader("turn", "api", now_ms=lambda: 42)


def test_api_callers_line() -> None:
    """An API caller's message is a customer's turn on the default channel, now."""
    turn = READER.read(b'{"session_id": "s", "payload": {"user_message": "hi"}}', number=1)

    assert isinstance(turn, ConversationTurn)
    assert ("s", "api", "customer", "hi", 42) == (
        turn.conversation_id,
        turn.channel_id,
        turn.role,
        turn.text,
        turn.occurred_at,
    )


def test_what_a_turn_says_is_kept() -> None:
    """Defaults fill only what is missing."""
    line = (
        b'{"conversation_id": "c", "turn_id": "t", "channel_id": "web", "role": "agent", '
        b'"text": "x", "occurred_at": 7}'
    )
    turn = READER.read(line, number=1)

    assert isinstance(turn, ConversationTurn)
    assert ("t", "web", "agent", 7) == (turn.turn_id, turn.channel_id, turn.role, turn.occurred_at)


def test_ids_depend_on_line_and_content() -> None:
    """The same line at the same place has the same id; another line or place has another."""

    def turn_id(text: str, number: int) -> str:
        line = f'{{"conversation_id": "c", "text": "{text}", "occurred_at": 1}}'
        turn = READER.read(line.encode(), number=number)
        assert isinstance(turn, ConversationTurn)
        return turn.turn_id

    assert turn_id("a", 1) == turn_id("a", 1)
    assert 3 == len({turn_id("a", 1), turn_id("b", 1), turn_id("a", 2)})


def test_control_line() -> None:
    """Other events are read by their own model."""
    reader = LineReader("control", now_ms=lambda: 42)
    event = reader.read(b'{"conversation_id": "c", "kind": "close", "actor": "me"}', number=1)

    assert isinstance(event, ConversationControl)
    assert ("close", 42) == (event.kind, event.occurred_at)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"hello", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"session_id": "s"}', "payload: Field required"),
        (b'{"session_id": "s", "payload": {"user_message": ""}}', "payload.user_message"),
        (b'{"conversation_id": "c"}', "text: Field required"),
        (b'{"conversation_id": "c", "text": "x", "secret": 1}', "secret: Extra inputs"),
        (b'{"a": 1, "b": 1, "c": 1, "d": 1}', "and 3 more"),
    ],
)
def test_bad_line_says_why(line: bytes, fault: str) -> None:
    """A line that is no event names the key and what is wrong with it."""
    with pytest.raises(BadLine, match=fault):
        READER.read(line, number=1)


def test_faults_do_not_repeat_what_was_written() -> None:
    """A customer's words do not get into the errors, which people paste into tickets."""
    with pytest.raises(BadLine) as refused:
        READER.read(b'{"conversation_id": "c", "text": 5, "locale": ["my secret"]}', number=1)

    assert "my secret" not in str(refused.value)
