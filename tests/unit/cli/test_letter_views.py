"""What is shown of a letter: nothing that a customer or a tool said, unless it is asked for."""

import io
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from rich.console import Console

from turnstream.cli.letter_views import (
    event_as_json,
    headers_as_json,
    hidden,
    letter_as_json,
    letters_table,
    printable,
    redacted,
    shown_key,
    shown_time,
    value_as_json,
)
from turnstream.core.events import ConversationTurn
from turnstream.stream.letters import Letter

SAID = "SENTINEL says something"


def a_turn() -> ConversationTurn:
    """A turn that holds a customer's words wherever it can."""
    fields: dict[str, Any] = {
        "turn_id": "t-1",
        "conversation_id": "c-1",
        "channel_id": "web",
        "role": "customer",
        "actor_id": SAID,
        "text": SAID,
        "attachments": [
            {"attachment_id": "a-1", "content_type": "image/png", "name": SAID, "uri": SAID}
        ],
        "session_claims": {"subject_id": SAID, "permissions": [SAID], "values": {"code": SAID}},
        "selected_record": {"kind": "order", "values": {"model": SAID, SAID: "x"}},
        "passages": [{"passage_id": "p-1", "text": SAID, "title": SAID}],
        "occurred_at": 5,
    }
    return ConversationTurn.model_validate(fields)


def test_a_decoded_event_shows_its_ids_and_hides_its_words() -> None:
    """Wherever the words are: in a list, in a map under a name that is shown elsewhere."""
    shown: Any = event_as_json(a_turn(), reveal=False)

    assert "SENTINEL" not in str(shown)
    assert ("t-1", "c-1", "web", "customer", 5) == (
        shown["turn_id"],
        shown["conversation_id"],
        shown["channel_id"],
        shown["role"],
        shown["occurred_at"],
    )
    assert "a-1" == shown["attachments"][0]["attachment_id"]
    assert hidden(SAID) == shown["text"]
    assert shown["text"].startswith("<23 characters, ")


def test_what_is_asked_for_is_shown() -> None:
    """All of it."""
    shown: Any = event_as_json(a_turn(), reveal=True)

    assert (SAID, SAID) == (shown["text"], shown["session_claims"]["values"]["code"])


def test_an_id_as_long_as_a_message_is_hidden() -> None:
    """Somebody may have put one into it."""
    assert {"turn_id": hidden("x" * 300)} == redacted({"turn_id": "x" * 300})
    assert {"unheard_of": hidden("x"), "count": 3, "none": None} == redacted(
        {"unheard_of": "x", "count": 3, "none": None}
    )


@pytest.mark.parametrize("reveal", [False, True])
def test_headers_of_others_may_hold_a_token(reveal: bool) -> None:
    """Their names are shown, and what ours, CloudEvents' and the trace's hold."""
    own = (
        ("authorization", b"SENTINEL"),
        ("empty", None),
        ("traceparent", b"00-1"),
        ("ce_id", b"\xff"),
        ("turnstream.error.topic", b"turns"),
    )
    record = ConsumerRecord("t", 0, 0, 0, 0, b"k", b"v", None, 0, 0, own)
    shown = headers_as_json(record, reveal=reveal)

    assert ["authorization", "empty", "traceparent", "ce_id"] == [name for name, _ in shown]
    assert ["SENTINEL" if reveal else hidden(b"SENTINEL"), None, "00-1", "\\xff"] == [
        text for _, text in shown
    ]


def test_values_and_keys_cannot_steer_a_terminal() -> None:
    """Whatever is no printable character is written out."""
    assert "\\x1b[2Jgone\\u202e" == printable("\x1b[2Jgone\u202e")
    assert ("-", "c-1", "\\xff") == (shown_key(None), shown_key(b"c-1"), shown_key(b"\xff"))
    assert hidden(b"k" * 300) == shown_key(b"k" * 300)
    assert (None, hidden(b"v"), "v\\xff") == (
        value_as_json(None, reveal=True),
        value_as_json(b"v", reveal=False),
        value_as_json(b"v\xff", reveal=True),
    )


def test_a_key_is_shown_as_in_the_table_unless_it_is_asked_for() -> None:
    """Somebody may have put a whole message into it, or a terminal's commands."""
    for key, shown, revealed in (
        (None, None, None),
        (b"c-1", "c-1", "c-1"),
        (b"k" * 300, hidden(b"k" * 300), "k" * 300),
        (b"\x1b[2J\xff", "\\x1b[2J\\xff", "\x1b[2J\\xff"),
    ):
        letter = Letter.of(ConsumerRecord("t.dlq", 0, 0, 0, 0, key, b"v", None, 0, 0, ()))

        assert shown == letter_as_json(letter, None)["key"]
        assert revealed == letter_as_json(letter, None, reveal=True)["key"]


def test_a_header_as_long_as_a_message_is_hidden() -> None:
    """Its name, too, and under a name that is ours or CloudEvents'."""
    own = (("ce_subject", b"x" * 300), ("n" * 300, None))
    record = ConsumerRecord("t", 0, 0, 0, 0, b"k", b"v", None, 0, 0, own)

    assert [["ce_subject", hidden(b"x" * 300)], [hidden("n" * 300), None]] == headers_as_json(
        record, reveal=False
    )
    assert [["ce_subject", "x" * 300], ["n" * 300, None]] == headers_as_json(record, reveal=True)


def test_any_letter_has_a_row() -> None:
    """The record's topic is named where the letter's own name does not say it."""
    places = [("turns", b"1", b"2"), ("turns", b"3", b"4"), ("turns", b"x", b"5")]
    letters = [
        Letter.of(
            ConsumerRecord(
                topic,
                0,
                number,
                0,
                0,
                b"[bold]c",
                b"v",
                None,
                0,
                0,
                (
                    ("turnstream.error.topic", source[0].encode()),
                    ("turnstream.error.partition", source[1]),
                    ("turnstream.error.offset", source[2]),
                    ("turnstream.error.role", b"decide"),
                    ("turnstream.error.reason", b"\x1b[0m"),
                ),
            )
        )
        for number, (topic, source) in enumerate(
            zip(["turns.dlq", "shadow.proposals.dlq", "turns.dlq"], places, strict=True)
        )
    ]
    console = Console(width=150, file=io.StringIO())
    with console.capture() as written:
        console.print(letters_table(letters, {}))
    rows = [line.split()[2:7] for line in written.get().splitlines() if "dlq" in line]

    assert [
        ["turns.dlq/0/0", "1/2", "[bold]c", "decide", "\\x1b[0m"],
        ["shadow.proposals.dlq/0/1", "turns/3/4", "[bold]c", "decide", "\\x1b[0m"],
        ["turns.dlq/0/2", "-", "[bold]c", "decide", "foreign"],
    ] == rows


def test_a_time_that_is_none_is_shown_as_it_is() -> None:
    """Milliseconds UTC to the second."""
    assert ("2027-01-15 08:00:00", f"{10**18} ms") == (
        shown_time(1_800_000_000_999),
        shown_time(10**18),
    )


def test_the_size_that_is_shown_is_the_letters() -> None:
    """Its headers included: the record alone is smaller."""
    headers = [str(column.header) for column in letters_table([], {}).columns]

    assert ["letter bytes", "state"] == headers[-2:]
