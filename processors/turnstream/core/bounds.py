"""What keeps a conversation's record within its 524,288 bytes, whatever anybody writes.

Every part of the record has a bound of its own, enforced where the part grows, so that no input
ever needs the whole record to be measured. History is cut to fit. What a suspended step needs is
never cut: a part that does not fit is an explicit handoff, `state_too_large`.

Bounds on text are in characters where cutting is cheap and common, else in bytes of UTF-8 JSON.
"""

from typing import Final

from pydantic_core import to_json

RECORD_BYTES: Final = 524_288
"""Longest stored record. A longer one would not fit the changelog's records with their overhead."""

CHECKPOINT_BYTES: Final = 262_144
"""Of these, reserved for the checkpoint of a suspended loop - a model's replies, its calls and what
came of them: it is never cut, so all else leaves it room."""

ID_CHARACTERS: Final = 128
"""Longest turn id or tenant id. Ids are stored many times over; UUIDs have 36 characters."""

LOCALE_CHARACTERS: Final = 35
"""Longest language tag that is kept (RFC 5646 section 4.4.1); a longer one is no language."""

SESSION_BYTES: Final = 8_192
"""Session claims. More than this is a gateway's mistake that would crowd out the conversation."""

VALUES_BYTES: Final = 16_384
"""All field values of a conversation, or a customer could fill the record with answers."""

CALL_BYTES: Final = 8_192
"""Values that one call is made with; they are stored with the call and with its result."""

CALLS: Final = 16
"""Calls that are made of one reply of a model: each is an action, an order, a timer and a result,
and a reply that asks for hundreds is a model that has lost its way."""

OUTPUT_BYTES: Final = 65_536
"""Longest final answer of an agent as JSON: it travels in an action, which must fit its topic."""

FAULT_CHARACTERS: Final = 300
"""Longest message of a gate to a model. A validator repeats names that the model made up."""

QUESTION_BYTES: Final = 16_384
"""One open question with its suggestions, which come from the catalog."""

VALUE_CHARACTERS: Final = 2_000
"""Longest single value from a session, a record or a result: as long as any field allows."""

CANDIDATES: Final = 8
"""Candidates kept per field. A message that lists more order numbers than this names none."""

ANSWER_CHARACTERS: Final = 16_000
"""Longest answer of a model's own: no channel shows more, and one without end fits no record."""

DIAGNOSTICS_CHARACTERS: Final = 16_384
"""Longest diagnostics of a decision as JSON: a decider's notes must not cost the decision itself,
which more of them would make too large to publish."""

SUGGESTIONS: Final = 100
"""Suggestions offered with a question; no channel shows more, and each is stored."""

ERROR_CODE_CHARACTERS: Final = 100
"""Longest error code of a result; the catalog's own codes are words."""

PENDING_CHARACTERS: Final = 4_000
"""Characters of customer texts that wait for a decision; the newest are kept."""

UTF8_BYTES: Final = 4
"""Most bytes of one character of cleaned text in JSON."""

ESCAPED_BYTES: Final = 6
"""Most bytes of one character of any text in JSON."""

_TURN_BYTES: Final = 48
"""A remembered turn: the hashes of its id and of its content."""

_FIXED_BYTES: Final = 24_576
"""Everything with a small bound by construction: ids of ours, timers, counters, names."""

CUT: Final = " [...]"
"""Marks a text that was cut."""

_CONTROLS: Final = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r"}


def cleaned(text: str) -> str:
    """A text without what JSON writes in six bytes or not at all: controls, lone surrogates."""
    if text.isprintable():
        return text
    text = text.translate(_CONTROLS)
    return text if text.isascii() else text.encode(errors="replace").decode()


def shortened(text: str, characters: int) -> str:
    """A cleaned text of at most so many characters, marked where it was cut."""
    if len(text) > characters:
        text = text[: characters - len(CUT)] + CUT
    return cleaned(text)


def exceeds(value: object, limit: int, *, characters: int) -> bool:
    """Whether a value takes more than `limit` bytes as JSON.

    Args:
        value: what is to be stored.
        limit: bytes.
        characters: its characters, with those of its keys and 32 for each of its parts. While they
            are few the value need not be measured.
    """
    return characters * ESCAPED_BYTES > limit and len(to_json(value)) > limit


def acceptable_id(value: str | None) -> bool:
    """Whether an id given by others may be stored."""
    return value is None or (len(value) <= ID_CHARACTERS and value.isprintable())


def latest(texts: tuple[str, ...], characters: int = PENDING_CHARACTERS) -> tuple[str, ...]:
    """The newest of several texts, as many as the characters allow."""
    total = sum(map(len, texts))
    while total > characters and len(texts) > 1:
        total -= len(texts[0])
        texts = texts[1:]
    return texts


def worst_case(
    *,
    history_messages: int,
    history_characters: int,
    remembered_turns: int,
    remembered_messages: int,
    facts_bytes: int,
    passages_bytes: int,
) -> int:
    """Bytes of the largest record that can come about under a deployment's limits.

    The checkpoint is left out: a model's replies, and the orders and timers of their calls.
    """
    return (
        history_characters * UTF8_BYTES
        + history_messages * 80
        + remembered_turns * _TURN_BYTES
        + remembered_messages * 24
        + facts_bytes
        + passages_bytes
        + PENDING_CHARACTERS * UTF8_BYTES
        + SESSION_BYTES
        + VALUES_BYTES
        + CALL_BYTES
        + QUESTION_BYTES
        + _FIXED_BYTES
    )
