"""Ids and hashes. Everything is a function of the input, so a replay gives the same ids."""

import hashlib
import uuid
from typing import Final

from pydantic_core import to_json

from turnstream.core.events import ConversationTurn, Source

_NAMESPACE: Final = uuid.UUID("6f1d8e52-5a0b-5f0c-9d53-0a5c2c0b7e11")
"""Namespace of every id of ours. Changing it would change the idempotency keys of running calls."""


_NAMESPACE_BYTES: Final = _NAMESPACE.bytes

_VARIANT: Final = {digit: f"{int(digit, 16) & 0x3 | 0x8:x}" for digit in "0123456789abcdef"}
"""Digit of the hash to the one with the variant bits of RFC 9562, section 4.1, in its place."""


def action_id(conversation_id: str, source: Source, index: int) -> str:
    """The idempotency key of the `index`-th action that an input caused.

    UUIDv5 (RFC 9562) over ``topic/partition/offset/index/conversation_id``. The conversation id
    comes last because it is the only part that may hold any character.
    """
    return _uuid5(f"{source.topic}/{source.partition}/{source.offset}/{index}/{conversation_id}")


def decision_id(conversation_id: str, source: Source) -> str:
    """The id shared by all actions of one input."""
    return _uuid5(f"{source.topic}/{source.partition}/{source.offset}/decision/{conversation_id}")


def turn_hash(turn: ConversationTurn) -> str:
    """16 hex digits that differ when a repeated turn id comes with another content."""
    content = f"{turn.role}\x1f{turn.content_type}\x1f{turn.occurred_at}\x1f{turn.text}"
    more = (turn.attachments, turn.selected_record, turn.reply_to_question_id, turn.passages)
    if any(more):
        content += f"\x1f{to_json(more).decode()}"
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def text_hash(text: str) -> str:
    """16 hex digits of a text, to recognise an echo of our own message."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).hexdigest()


def shadow_id(conversation_id: str, source: Source, kind: str) -> str:
    """The id of a shadow's proposal or comparison about one input."""
    name = f"{source.topic}/{source.partition}/{source.offset}/shadow-{kind}/{conversation_id}"
    return _uuid5(name)


def _uuid5(name: str) -> str:
    """The text of ``uuid.uuid5(_NAMESPACE, name)``, without the object in between."""
    text = hashlib.sha1(_NAMESPACE_BYTES + name.encode()).hexdigest()  # noqa: S324
    variant = _VARIANT[text[16]]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"
