"""Hypothesis strategies for events, built from the models' own types."""

import types
import typing
from typing import Any, Literal

from hypothesis import strategies as st
from pydantic import BaseModel

from turnstream.core.contract import TABLE, Decision
from turnstream.core.events import ConversationTurn, Event, Millis
from turnstream.core.publications import PAYLOAD_OF, ActionEvent

NAMES = st.text(min_size=1, max_size=20)
LONGS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def events(model: type[Event]) -> st.SearchStrategy[Any]:
    """Any event of the model that we may write: every symbol but `unrecognized`."""
    if model is ActionEvent:
        return decisions().flatmap(_action_events)
    return st.builds(model, **_fields(model))


def decisions() -> st.SearchStrategy[Decision]:
    """Any decision that the contract table allows."""

    def of(action: Any) -> st.SearchStrategy[Decision]:
        row = TABLE[action]
        return st.builds(
            Decision,
            action=st.just(action),
            tool=NAMES if row.tool else st.none(),
            missing_field=NAMES if row.missing_field else st.none(),
            reason_code=st.sampled_from(sorted(row.reasons)),
        )

    return st.sampled_from(sorted(TABLE)).flatmap(of)


def _action_events(decision: Decision) -> st.SearchStrategy[ActionEvent]:
    fields = _fields(ActionEvent) | {"decision": st.just(decision)}
    for payload in PAYLOAD_OF.values():
        (model,) = _without_none(typing.get_type_hints(ActionEvent)[payload])
        carried = payload == PAYLOAD_OF[decision.action]
        fields[payload] = events(model) if carried else st.none()
    return st.builds(ActionEvent, **fields)


def _fields(model: type[BaseModel]) -> dict[str, st.SearchStrategy[Any]]:
    hints = typing.get_type_hints(model, include_extras=True)
    fields = {name: _values(hints[name]) for name in model.model_fields}
    if model is ConversationTurn:
        fields |= {"turn_id": NAMES}
    if "conversation_id" in fields:
        fields |= {"conversation_id": NAMES}
    return fields


def _without_none(hint: Any) -> tuple[Any, ...]:
    return tuple(member for member in typing.get_args(hint) if member is not type(None))


def _values(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint == Millis:
        return st.integers(min_value=0, max_value=2**53)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(_values(member) for member in args if member != _UNRECOGNIZED))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(_values(args[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=10), _values(args[1]), max_size=3)
    if hint is Decision:
        return decisions()
    if isinstance(hint, type) and issubclass(hint, Event):
        return events(hint)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=40),
        int: LONGS,
        bool: st.booleans(),
        type(None): st.none(),
    }
    return simple[hint]


_UNRECOGNIZED = Literal["unrecognized"]
