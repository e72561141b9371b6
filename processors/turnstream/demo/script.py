"""Conversations to play: what is said, by whom, and what must follow.

A script is read from YAML. Each step says one thing and lists, in order, the decisions and outcomes
that must follow before the next step; what does not follow is a deviation, and so is anything more.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from turnstream.core.contract import Action
from turnstream.core.events import ControlKind, Passage, SelectedRecord, SessionClaims, ToolOutcome
from turnstream.core.publications import OutcomeKind

SCRIPTS: Final = "conversations.yaml"


class ScriptError(Exception):
    """The scripts cannot be read; the message names the file, the conversation and the key."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Expected(_Part):
    """One decision or outcome that must follow."""

    answer: str | None = None
    """Approved answer."""
    call: str | None = None
    """Tool."""
    ask: str | None = None
    """Field."""
    refuse: str | None = None
    """Refusal rule."""
    handoff: str | None = None
    """Cause; `proposed` when the decider itself wanted it."""
    outcome: OutcomeKind | None = None
    """An outcome without a decision of its own."""
    arguments: dict[str, Any] | None = Field(default=None, alias="with")
    """Arguments of the call."""
    result: ToolOutcome | None = None
    """How the call must end."""
    text: str | None = None
    """The whole message that the customer sees."""
    contains: str | None = None
    """A part of that message."""
    question_ended: Literal["accepted", "cancelled", "expired", "late"] | None = None
    """How the question ended that this decision closes."""

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"expected exactly one of {', '.join(_KINDS)}, got {given}")
        if (self.arguments is not None or self.result is not None) and self.call is None:
            raise ValueError("`with` and `result` belong to a call")
        return self

    @property
    def action(self) -> Action | None:
        """The decision's action; None for an outcome."""
        return next((_ACTIONS[kind] for kind in _ACTIONS if getattr(self, kind) is not None), None)

    @property
    def subject(self) -> str:
        """The answer, tool, field, rule, cause or outcome that is named."""
        return next(str(getattr(self, kind)) for kind in _KINDS if getattr(self, kind) is not None)

    def __str__(self) -> str:
        return f"{self.action or 'outcome'} {self.subject}"


_ACTIONS: Final[dict[str, Action]] = {
    "answer": "answer",
    "call": "call_tool",
    "ask": "ask",
    "refuse": "refuse",
    "handoff": "handoff",
}
_KINDS: Final = (*_ACTIONS, "outcome")


class Step(_Part):
    """One thing that is said or done, and what must follow."""

    says: str | None = None
    """A customer's turn."""
    person: str | None = None
    """A turn of a person of the shop."""
    control: ControlKind | None = None
    """A command about the conversation."""
    record: SelectedRecord | None = None
    """What the customer had selected."""
    passages: tuple[Passage, ...] = ()
    """Retrieved text that came with the turn."""
    replies_to: int | None = Field(default=None, ge=1)
    """The turn names this question, counted from 1; without it, what it replies to is found out."""
    then: tuple[Expected, ...] = ()
    """What must follow; with nothing listed, the next step follows at once."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if sum(one is not None for one in (self.says, self.person, self.control)) != 1:
            raise ValueError("expected exactly one of says, person, control")
        return self


class Script(_Part):
    """One conversation."""

    id: str = Field(pattern=r"^[a-z0-9-]{1,60}$")
    title: str
    """What there is to see."""
    locale: str = "fr"
    channel: str = "console"
    session: SessionClaims | None = None
    """What the gateway has authenticated; null for a visitor."""
    steps: tuple[Step, ...] = Field(min_length=1)

    def expected(self) -> Iterator[Expected]:
        """Everything that must follow, in order."""
        for step in self.steps:
            yield from step.then


class Scripts(_Part):
    """All conversations of a file."""

    conversations: tuple[Script, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_are_distinct(self) -> Self:
        ids = [script.id for script in self.conversations]
        if len(set(ids)) != len(ids):
            raise ValueError("two conversations have the same id")
        return self


def load_scripts(path: Path | None = None) -> tuple[Script, ...]:
    """Read scripts, the demo's own unless a file is given.

    Raises:
        ScriptError: The file is not a list of scripts.
    """
    source = files("turnstream.demo") / SCRIPTS if path is None else path
    try:
        return Scripts.model_validate(yaml.safe_load(source.read_text("utf-8"))).conversations
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScriptError(f"{source}: cannot be read: {error}") from error
    except ValidationError as error:
        faults = "\n".join(
            f"{source}: {'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        )
        raise ScriptError(faults) from error
