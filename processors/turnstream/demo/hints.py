"""Why the bot stopped for want of a session: what a gateway would have authenticated is missing.

A conversation without claims is handed off where a tool needs a customer, which looks like an
outage to whoever tries a deployment from a console.
"""

import re
from typing import Final

import orjson

from turnstream.core.definitions import MISSING_PERMISSION
from turnstream.core.events import SessionClaims
from turnstream.core.publications import ActionEvent

_NO_CUSTOMER: Final = re.compile(r"tool_unavailable; (\w+) needs an authenticated customer(?:;|$)")
_NO_VALUES: Final = re.compile(r"tool_unavailable; (\w+) lacks ([\w, ]+)(?:;|$)")
"""How the policy begins a handoff's summary; what the customer wrote comes after it."""

_EXAMPLE: Final = "customer-7"


def claims_hint(action: ActionEvent, claims: SessionClaims | None) -> str | None:
    """What the session lacked, and how to give it; None when it lacked nothing.

    Args:
        action: A handoff or a refusal.
        claims: Of the session so far.
    """
    wanted = claims or SessionClaims()
    if action.refusal is not None and action.refusal.rule == MISSING_PERMISSION:
        lacking = tuple((action.refusal.detail or "").split(", "))
        missing = f"the permission {', '.join(lacking)}"
        wanted = wanted.model_copy(update={"permissions": (*wanted.permissions, *lacking)})
        return f"no outage: this needs {missing} from the session; {_option(wanted)}"
    summary = action.handoff.summary if action.handoff is not None else ""
    if found := _NO_CUSTOMER.match(summary):
        wanted = wanted.model_copy(update={"subject_id": _EXAMPLE})
        return f"no outage: {found[1]} needs a signed-in customer (subject_id); {_option(wanted)}"
    if found := _NO_VALUES.match(summary):
        fields = found[2].split(", ")
        values = wanted.values | dict.fromkeys(fields, "...")
        option = _option(wanted.model_copy(update={"values": values}))
        return (
            f"no outage: {found[1]} needs {found[2]}, which no message can give; where the session "
            f"should know, {option}"
        )
    return None


def _option(wanted: SessionClaims) -> str:
    given = orjson.dumps(wanted.model_dump(exclude_defaults=True)).decode()
    return f"start the chat with --claims '{given}'"
