"""Agents of the catalog: under which options decisions are made, and how their loop ends.

The loop is always the same - a model proposes, the runtime calls what it asked for and tells it,
until there is a final answer. An agent says how long it may take and what its answer looks like.
"""

from typing import Final, Literal, Self, get_args

from pydantic import Field, JsonValue, field_validator, model_validator

from turnstream.core.definition import Definition

StopWhen = Literal["final_answer", "max_steps", "user_cancel", "schema_fail"]
STOPS: Final[tuple[StopWhen, ...]] = get_args(StopWhen)


class Hop(Definition):
    """One hop of the loop: who acts, and what comes of it."""

    kind: Literal["model", "runtime"]
    emits: str
    """``tool_calls | text``, ``next_tool | final JSON`` or a part of them for a model,
    ``tool_result JSON`` for the runtime."""


class FinalAnswer(Definition):
    """The form of an agent's final answer, for the customer or a system behind it.

    It is no tool's schema: it stands in a file of its own, with a version of its own. A decider of
    your own may still give an approved answer instead.
    """

    schema_file: str = Field(alias="schema", min_length=1)
    """The file of its JSON Schema 2020-12, an object; relative to the catalog, in its folder."""
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Of the form; raise it whenever the file changes what it means."""
    text: str = "text"
    """The property that the customer reads."""
    content: dict[str, JsonValue] = {}  # noqa: RUF012 - pydantic gives each model its own
    """What the file holds; never written into the catalog."""


class AgentExtra(Definition):
    """What an agent says of its decider."""

    native_tools: bool | None = None
    """Overrides the `native_tools` of its agent model's section: whether tools are given to the
    model as such, or described in its instructions (ReAct)."""

    @field_validator("native_tools", mode="before")
    @classmethod
    def _is_a_boolean(cls, value: object) -> object:
        if not isinstance(value, bool):
            raise ValueError("expected true or false")  # noqa: TRY004 - what pydantic takes
        return value


MAX_RETRIES: Final = 5
"""Most proposals that may be asked for again: a model that fails six times will fail a seventh."""


class Agent(Definition):
    """A set of options under which decisions are made."""

    description: str
    decider: str = "catalog_rules"
    """Name of the decider in the configuration."""
    max_steps: int = Field(default=8, ge=1, le=100, alias="maxSteps")
    """Decisions about one customer turn; a person takes over at the bound."""
    max_questions: int = Field(default=2, ge=0, le=20, alias="maxQuestions")
    """Questions about one request; a person takes over at the bound."""
    max_retries: int = Field(default=1, ge=0, le=MAX_RETRIES, alias="maxRetries")
    """Proposals asked for again because the one before could not be acted on. An agent model may
    also correct the calls of one tool only so often in a row, with or without sound calls beside
    them."""
    loop: Literal["agent"] = "agent"
    """The only loop there is: the model chooses each step."""
    stop_when: tuple[StopWhen, ...] = Field(default=STOPS, alias="stopWhen")
    """What ends the work on a turn. `max_steps` and `schema_fail` do so in any case, named or not;
    `user_cancel`, the control event, only where it is named; `final_answer` must be, since nothing
    else ends it well."""
    hops: tuple[Hop, ...] = ()
    """The way of the loop, for its readers: model and runtime by turns. One that is not the way
    that is gone is refused."""
    final_answer: FinalAnswer | None = Field(default=None, alias="finalAnswer")
    """The form of its final answer; a text by default."""
    free_questions: bool = Field(default=False, alias="freeQuestions")
    """For deciders of your own; `catalog_rules` asks approved questions only."""
    extra: AgentExtra = AgentExtra()
    sub_agents: tuple[str, ...] = ()
    """For deciders of your own; names of other agents."""
    returns_to: str | None = None
    """For deciders of your own; the name of another agent."""

    @model_validator(mode="after")
    def _can_end(self) -> Self:
        if "final_answer" not in self.stop_when:
            raise ValueError("stopWhen must name final_answer: nothing else ends a turn well")
        return self
