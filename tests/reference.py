"""Writes the tables of keys into processors/REFERENCE.md: ``python -m tests.reference``."""

import ast
import inspect
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from turnstream.config import SecretRef, Settings
from turnstream.core.definitions import Catalog
from turnstream.core.events import ConversationControl, ConversationTurn, LiveAction
from turnstream.core.publications import OutboundMessage

PAGE: Final = Path(__file__).parents[1] / "processors" / "REFERENCE.md"

_PLAIN: Final = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretRef: "`env:NAME` or `file:PATH`",
    JsonValue: "any",
}
_MILLIS: Final = (0, 2**53)
"""Bounds of a time in milliseconds."""

_NOT_EMPTY: Final = {"text": "text, not empty", "mapping: name to text": "text per locale"}

_POINTER: Final = re.compile(r"[;,]? ?\(?see :\w+:`[^`]*`\)?")
"""Leads into the code, where a reader of the page is not."""

_ROLE: Final = re.compile(r":(?:class|meth|data|mod|func):`[~.]?([^`]*)`")


def tables(part: str) -> str:
    """The tables of a part of the page, as Markdown."""
    return "\n\n".join(_tables(part))


def _tables(part: str) -> Iterator[str]:
    match part:
        case "configuration":
            yield from _models("", Settings)
        case "catalog":
            yield from _models("", Catalog)
        case "events":
            for model in (ConversationTurn, ConversationControl, LiveAction, OutboundMessage):
                yield from _models(model.__name__, model)


PARTS: Final = ("configuration", "catalog", "events")


def shown(part: str) -> str:
    """A part's tables as the page has them."""
    return _split(part, PAGE.read_text(encoding="utf-8"))[1]


def main() -> None:
    """Replace the page's tables by those of the models."""
    page = PAGE.read_text(encoding="utf-8")
    for part in PARTS:
        before, _, after = _split(part, page)
        page = before + tables(part) + after
    PAGE.write_text(page, encoding="utf-8")


def _split(part: str, page: str) -> tuple[str, str, str]:
    """What stands before the tables of a part, the tables, and what stands after them."""
    begin, end = f"<!-- {part}: generated -->\n", f"\n<!-- end of {part} -->"
    before, _, rest = page.partition(begin)
    inside, closed, after = rest.partition(end)
    assert closed, f"{PAGE.name} has lost the markers around its part {part!r}"
    return before + begin, inside, end + after


# --- models -------------------------------------------------------------------------------------


def _models(path: str, model: type[BaseModel]) -> Iterator[str]:
    """The table of a model, then those of the models inside it, each once and under its path."""
    done: set[type[BaseModel]] = set()
    todo = [(path, model)]
    while todo:
        here, one = todo.pop()
        if one in done:
            continue
        done.add(one)
        yield _table(here, one)
        todo += reversed(
            [
                (f"{here}.{key}{suffix}" if here else key + suffix, inner)
                for key, annotation in _keys(one)
                for suffix, inner in _inside(annotation)
            ]
        )


def _keys(model: type[BaseModel]) -> list[tuple[str, object]]:
    return [(entry.alias or name, entry.annotation) for name, entry in model.model_fields.items()]


def _inside(kind: object) -> list[tuple[str, type[BaseModel]]]:
    """The models inside a type, each with what its path adds."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [("", kind)]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is dict:
        return [(f".NAME{suffix}", model) for suffix, model in _inside(arguments[1])]
    if origin is Annotated:
        return _inside(arguments[0])
    if origin in (Union, types.UnionType, tuple):
        return [found for argument in arguments for found in _inside(argument)]
    return []


def _table(path: str, model: type[BaseModel]) -> str:
    documented = _documented(model)
    of = "".join(
        f" of {tag} `{get_args(entry.annotation)[0]}`"
        for tag in ("kind", "transport")
        if (entry := model.model_fields.get(tag)) is not None and _is_tag(entry.annotation)
    )
    head = [f"#### `{path}`{of}", ""] if path else []
    lines = [*head, _prose(inspect.getdoc(model) or ""), "", "| key | type | default | meaning |"]
    lines.append("| --- | --- | --- | --- |")
    for name, entry in model.model_fields.items():
        meaning = _prose(documented.get(name, ""))
        cells = [f"`{entry.alias or name}`", _type(entry), _default(entry), meaning]
        lines.append(" ".join(("|", " | ".join(cell.replace("|", "\\|") for cell in cells), "|")))
    return "\n".join(lines)


def _is_tag(annotation: object) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def _documented(model: type[BaseModel]) -> dict[str, str]:
    """Field name to the text below it, those of base classes included."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if not issubclass(one, BaseModel) or not one.__module__.startswith("turnstream."):
            continue
        (tree,) = ast.parse(dedent(inspect.getsource(one))).body
        assert isinstance(tree, ast.ClassDef)
        for line, after in zip(tree.body, tree.body[1:], strict=False):
            match line, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = inspect.cleandoc(text)
    return found


def _prose(text: str) -> str:
    """One line of Markdown."""
    text = _POINTER.sub("", text.split("\n\nRaises:", maxsplit=1)[0])
    return " ".join(_ROLE.sub(r"`\1`", text).replace("``", "`").split())


# --- types and defaults -------------------------------------------------------------------------


def _type(entry: FieldInfo) -> str:
    return _bounded(_name(entry.annotation), list(entry.metadata))


def _name(kind: Any) -> str:
    if (plain := _PLAIN.get(kind) if _hashable(kind) else None) is not None:
        return plain
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "section"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner = (one.metadata if isinstance(one, FieldInfo) else [one] for one in arguments[1:])
        return _bounded(_name(arguments[0]), [one for several in inner for one in several])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is dict:
        return f"mapping: name to {_name(arguments[1])}"
    if origin is tuple:
        return f"list of {_name(arguments[0])}"
    names = dict.fromkeys(
        _name(one) for one in arguments if one is not types.NoneType and not _is_marker(one)
    )
    return " or ".join(names)


def _is_marker(kind: object) -> bool:
    """Whether it only says that a reader may meet a newer writer's symbol."""
    return get_args(kind) == ("unrecognized",)


def _hashable(kind: object) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True


def _bounded(name: str, metadata: list[Any]) -> str:
    low = next((one.ge for one in metadata if isinstance(one, Ge)), None)
    high = next((one.le for one in metadata if isinstance(one, Le)), None)
    if (low, high) == _MILLIS:
        return "milliseconds UTC"
    least = next((one.min_length for one in metadata if isinstance(one, MinLen)), 0)
    if least and name in _NOT_EMPTY:
        return _NOT_EMPTY[name]
    bounds = [
        text
        for one in metadata
        for text in (
            f"from {_number(one.ge)}" if isinstance(one, Ge) else "",
            f"above {_number(one.gt)}" if isinstance(one, Gt) else "",
            f"to {_number(one.le)}" if isinstance(one, Le) else "",
            f"below {_number(one.lt)}" if isinstance(one, Lt) else "",
            f"at least {one.min_length}" if isinstance(one, MinLen) else "",
            f"at most {one.max_length}" if isinstance(one, MaxLen) else "",
        )
        if text
    ]
    return f"{name}, {' '.join(bounds)}" if bounds else name


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _default(entry: FieldInfo) -> str:
    value = entry.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "its own"
    if isinstance(value, dict | tuple | str) and not value:
        return "empty"
    if isinstance(value, Path):
        return f"`{value}`"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    main()
