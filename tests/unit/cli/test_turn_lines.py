"""Lines of JSON become events, or say why they do not."""

import tracemalloc

import pytest

from turnstream.cli.turn_lines import BadLine, Line, LineReader, LineSplitter
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
        (
            b'{"conversation_id": "c", "text": "x", "secret": 1}',
            "secret: unknown key; expected one of turn_id, ",
        ),
        (
            b'{"conversation_id": "c", "text": "x", "session_claims": {"foo": 1}}',
            "session_claims.foo: unknown key; expected one of subject_id, permissions, values",
        ),
        (
            b'{"conversation_id": "c", "text": "x", "occurred_at": "2026-01-31T08:00"}',
            "occurred_at: expected milliseconds since 1970 UTC",
        ),
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


def split(*chunks: bytes, limit: int = 10) -> list[Line]:
    """The lines of some chunks."""
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.end()]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b"a\nb\n"], [Line(b"a", 2), Line(b"b", 2)]),
        ([b"a\n\nb"], [Line(b"a", 2), Line(b"", 1), Line(b"b", 1)]),
        ([b"a", b"b", b"\n", b"c"], [Line(b"ab", 3), Line(b"c", 1)]),
        ([b"0123456789\n"], [Line(b"0123456789", 11)]),
        ([b"01234", b"567890", b"12\nb\n"], [Line(None, 14), Line(b"b", 2)]),
        ([b"a\n01234567890"], [Line(b"a", 2), Line(None, 11)]),
    ],
)
def test_lines_are_put_together(chunks: list[bytes], expected: list[Line]) -> None:
    """However the input is cut, its lines are the same; one that is too long is not kept."""
    assert expected == split(*chunks)


def test_a_huge_line_is_not_kept() -> None:
    """Its memory is bounded by the limit, not by its size."""
    splitter, chunk = LineSplitter(limit=100_000), bytes(10_000).replace(b"\0", b"x")
    tracemalloc.start()
    try:
        lines = [line for _ in range(1_000) for line in splitter.feed(bytes(bytearray(chunk)))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [Line(None, 10_000_000)] == [*lines, *splitter.end()]
    assert peak < 1_000_000
