"""What must be true of an agent: its loop is the one that is gone, its final answer can be judged.

The way of the loop is fixed: a model proposes, the runtime carries out and tells the model, until
there is a final answer. `hops` says so for its readers; what it says is checked, since a line that
promises another way would be believed.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from turnstream.catalog.schemas import UnusableSchema, properties, required, validator
from turnstream.core.agents import Agent, FinalAnswer
from turnstream.core.definitions import Catalog

Place: TypeAlias = tuple[str | int, ...]
Problem: TypeAlias = tuple[Place, str]

_EMITS: Final = {
    "model": frozenset({"tool_calls", "next_tool", "text", "final JSON"}),
    "runtime": frozenset({"tool_result JSON"}),
}
"""What each side of the loop can bring forth."""


def agent_problems(catalog: Catalog) -> Iterator[Problem]:
    """Everything that is wrong with the loops of a catalog's agents."""
    for name, agent in catalog.agents.items():
        place: Place = ("agents", name)
        yield from _hops(place, agent)
        if agent.final_answer is not None:
            yield from _final_answer((*place, "finalAnswer"), agent.final_answer)


def _hops(place: Place, agent: Agent) -> Iterator[Problem]:
    for index, hop in enumerate(agent.hops):
        turn = ("model", "runtime")[index % 2]
        if hop.kind != turn:
            yield (
                (*place, "hops", index, "kind"),
                f"expected {turn}: model and runtime act by turns, the model first",
            )
            continue
        emitted = {one.strip() for one in re.split(r"\|", hop.emits)}
        if not emitted <= _EMITS[hop.kind]:
            allowed = " | ".join(sorted(_EMITS[hop.kind]))
            yield (*place, "hops", index, "emits"), f"expected {allowed}, got {hop.emits!r}"
    if agent.hops and agent.hops[-1].kind != "model":
        yield (*place, "hops"), "expected a model last: only a model can end the loop"


def _final_answer(place: Place, final: FinalAnswer) -> Iterator[Problem]:
    schema = final.content
    try:
        validator(schema)
    except UnusableSchema as error:
        where = "/".join(str(part) for part in error.path)
        yield (*place, "schema"), f"{final.schema_file} /{where}: {error}"
        return
    if schema.get("type") != "object":
        yield (*place, "schema"), f"{final.schema_file}: expected a schema with type: object"
    said = properties(schema).get(final.text)
    if not isinstance(said, dict) or said.get("type") != "string":
        yield (
            (*place, "text"),
            f"expected a property of {final.schema_file} with type: string, got {final.text!r}",
        )
    elif final.text not in required(schema):
        yield (
            (*place, "text"),
            f"{final.text!r} must be required by {final.schema_file}: the customer reads it",
        )
