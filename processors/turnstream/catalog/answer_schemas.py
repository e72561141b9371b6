"""Final answers whose schemas stand in files of their own, beside the catalog."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

import orjson
from pydantic import JsonValue

from turnstream.core.schema_tree import Schema

Problem: TypeAlias = tuple[tuple[str | int, ...], str]

_BYTES: Final = 262_144
"""Longest schema file. More than this is another file that was named by mistake."""


def with_answer_schemas(
    content: Mapping[str, JsonValue], folder: Path
) -> tuple[dict[str, JsonValue], list[Problem]]:
    """Read the schemas of final answers.

    Args:
        content: a catalog as its file holds it, its shape not checked yet.
        folder: the catalog's; no schema is read from elsewhere.

    Returns:
        The catalog with each schema in its place, and what kept one from being read.
    """
    agents = content.get("agents")
    if not isinstance(agents, dict):
        return dict(content), []
    faults: list[Problem] = []
    filled: dict[str, JsonValue] = {}
    for name, agent in agents.items():
        filled[name] = agent
        for key in ("finalAnswer", "final_answer"):
            answer = agent.get(key) if isinstance(agent, dict) else None
            if not isinstance(agent, dict) or not isinstance(answer, dict):
                continue
            place = ("agents", name, key)
            if "content" in answer:
                message = "the schema stands in a file of its own; name it under schema"
                faults.append(((*place, "content"), message))
                continue
            file = answer.get("schema", answer.get("schema_file"))
            if not isinstance(file, str) or not file:
                continue  # the shape says so
            read = _read(folder, file)
            if isinstance(read, str):
                faults.append(((*place, "schema"), read))
            else:
                filled[name] = {**agent, key: {**answer, "content": dict(read)}}
    return {**content, "agents": filled}, faults


def _read(folder: Path, file: str) -> Schema | str:
    """A schema, or why there is none."""
    try:
        path = (folder / file).resolve()
        if not path.is_relative_to(folder.resolve()):
            return f"expected a file in the folder of the catalog, got {file!r}"
        with path.open("rb") as opened:
            text = opened.read(_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return f"{file!r} cannot be read ({why}); give the path of a JSON file"
    if len(text) > _BYTES:
        return f"{file!r} is longer than {_BYTES} bytes"
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"{file!r} is not JSON: {error}"
    return found if isinstance(found, dict) else f"{file!r}: expected a JSON object"
