"""Labelled messages to the demo's shop, as the JSON lines that `turnstream calibrate` reads.

Usage: python -m tests.cases.labelled TUNING CONTROL

The tuning set are the requests that the embedded decider was developed with, the control set are
the paraphrases that it was not. Each message is a conversation.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import yaml
from pydantic import JsonValue

from tests.cases.playing import WRITER, cases

DEVELOPED_WITH = Path(__file__).parents[1] / "unit" / "models" / "dev_requests.yaml"


def tuning() -> Iterator[bytes]:
    """The requests that were there when the decider was made."""
    requests = yaml.safe_load(DEVELOPED_WITH.read_text(encoding="utf-8"))
    for number, (text, action, target) in enumerate(requests):
        tool = target if action == "call_tool" else None
        yield from _lines(f"request-{number}", text, {"action": action, "tool": tool})


def control() -> Iterator[bytes]:
    """The paraphrases."""
    for case in cases("paraphrases.yaml"):
        expected = case["expect"]
        permissions = case.get("permissions", list(WRITER))
        assert isinstance(expected, dict)
        assert isinstance(permissions, list)
        label = {name: expected.get(name) for name in ("action", "tool", "missing_field")}
        yield from _lines(
            str(case["id"]),
            str(case["text"]),
            label,
            locale=str(case["locale"]),
            permissions=permissions,
        )


def _lines(
    conversation: str,
    text: str,
    label: Mapping[str, JsonValue],
    *,
    locale: str | None = None,
    permissions: Sequence[JsonValue] = WRITER,
) -> Iterator[bytes]:
    yield orjson.dumps(
        {
            "conversation_id": conversation,
            "turn_id": "turn-1",
            "channel_id": "web",
            "text": text,
            "locale": locale,
            "session_claims": {"subject_id": "customer-1", "permissions": permissions},
        }
    )
    yield orjson.dumps(
        {"conversation_id": conversation, "turn_id": "turn-1", "actor": "person", **label}
    )


if __name__ == "__main__":
    for name, lines in zip(sys.argv[1:3], (tuning(), control()), strict=True):
        Path(name).write_bytes(b"\n".join(lines) + b"\n")
