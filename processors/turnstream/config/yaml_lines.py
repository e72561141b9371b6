"""YAML that remembers its lines, so that an error can say file, line, path and what was expected.

The dialect is the JSON part of YAML 1.2: mappings with text keys, sequences, strings, integers,
numbers, ``true``, ``false`` and ``null``. What YAML 1.1 adds is left out on purpose: ``no`` is a
locale and ``on`` a word, not a boolean; ``12:30`` is not an integer; a date stays text.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Final, TypeAlias, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

Location: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the top of a document to a value."""

_LARGEST_INTEGER: Final = 2**63 - 1
"""Larger integers do not survive JSON in most readers, so two hosts would hash them differently."""

_MAX_DEPTH: Final = 64
"""Nesting of a document; an anchor that contains itself would otherwise never end."""

_SHOWN_CHARACTERS: Final = 60
"""Longest piece of a wrong value in an error: a pasted document must not fill the screen."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file, and where."""

    file: str
    line: int | None
    """First line is 1; None when the file as a whole is meant."""
    path: str
    """Dotted path inside the document, empty for its top."""
    message: str
    """What is wrong, what was expected, what to do."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class YamlUnreadable(Exception):
    """The file is absent or is not YAML of this dialect; whoever edits the file must act."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as JSON values, with the line of every key and item."""

    path: Path
    value: JsonValue
    lines: Mapping[Location, int] = field(default_factory=dict)

    def line(self, location: Sequence[str | int]) -> int | None:
        """The line of a value, or of the nearest thing around it that has one."""
        place = tuple(location)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    def fault(self, location: Sequence[str | int], message: str) -> Fault:
        """A fault at a place of this document."""
        return Fault(
            file=str(self.path),
            line=self.line(location),
            path=".".join(str(part) for part in location),
            message=message,
        )

    def faults(self, error: ValidationError, *, model: type[BaseModel]) -> list[Fault]:
        """Translate a model's validation errors into faults at their lines, in file order."""
        found = [
            self.fault(location, message)
            for location, message in expectations(error, model=model, value=self.value)
        ]
        return sorted(found, key=lambda fault: (fault.line or 0, fault.path))


def read_yaml(path: Path) -> Document:
    """Read one YAML document.

    Raises:
        YamlUnreadable: no such file, not UTF-8, not YAML, a repeated key, or a value outside the
            dialect. Every fault but a syntax error is reported at once.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"cannot be read ({error.strerror}); give the path of an existing YAML file"
        raise YamlUnreadable([Fault(str(path), None, "", message)]) from error
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        message = f"expected UTF-8 text, byte {column} of the line is not; save the file as UTF-8"
        fault = Fault(str(path), before.count(b"\n") + 1, "", message)
        raise YamlUnreadable([fault]) from error
    return parse_yaml(text, path=path)


def parse_yaml(text: str, *, path: Path) -> Document:
    """Read a YAML document from text; `path` is what its faults name.

    Raises:
        YamlUnreadable: as :func:`read_yaml`.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        at = text[: error.position].count("\n") + 1
        message = f"not valid YAML: the character U+{error.character:04X} is not allowed"
        raise YamlUnreadable([Fault(str(path), at, "", message)]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "its structure is broken"
        line = mark.line + 1 if mark is not None else None
        raise YamlUnreadable([Fault(str(path), line, "", f"not valid YAML: {problem}")]) from error
    if node is None:
        return Document(path, {})
    reading = _Reading(path)
    value = reading.value(node, ())
    if reading.faults:
        raise YamlUnreadable(reading.faults)
    return Document(path, value, reading.lines)


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as YAML 1.2 does."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's class attribute, filled just below


_Loader.add_implicit_resolver("!null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""])
_Loader.add_implicit_resolver("!bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("!int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "!float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


@dataclass(slots=True)
class _Reading:
    """Turns composed nodes into JSON values while it notes lines and collects faults."""

    path: Path
    lines: dict[Location, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def value(self, node: yaml.Node, location: Location) -> JsonValue:
        self.lines.setdefault(location, node.start_mark.line + 1)
        if len(location) > _MAX_DEPTH:
            self._fault(node, location[:4], f"nested deeper than {_MAX_DEPTH} levels")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, location)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> JsonValue:
        result: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, location, "expected text as the key of a mapping")
                continue
            key = str(key_node.value)
            place = (*location, key)
            if key in result:
                first = self.lines[place]
                self._fault(key_node, place, f"repeated key, first given on line {first}")
                continue
            self.lines[place] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, place)
        return result

    def _scalar(self, node: yaml.Node, location: Location) -> JsonValue:
        text = str(node.value)
        match node.tag:
            case "!null":
                return None
            case "!bool":
                return text == "true"
            case "!int":
                number = int(text) if len(text) <= len(str(_LARGEST_INTEGER)) + 1 else 2**64
                if abs(number) > _LARGEST_INTEGER:
                    self._fault(node, location, "expected an integer of at most 64 bits")
                return number
            case "!float":
                return float(text)
            case "tag:yaml.org,2002:str" | "!":
                if any("\ud800" <= character <= "\udfff" for character in text):
                    self._fault(node, location, "half a surrogate pair is not text")
                return text
        self._fault(node, location, f"the tag {node.tag!r} is not supported; write plain values")
        return None

    def _fault(self, node: yaml.Node, location: Location, message: str) -> None:
        path = ".".join(str(part) for part in location)
        self.faults.append(Fault(str(self.path), node.start_mark.line + 1, path, message))


# --- validation errors in words -----------------------------------------------------------------


def expectations(
    error: ValidationError, *, model: type[BaseModel], value: JsonValue
) -> Iterator[tuple[Location, str]]:
    """Say where each validation error is in a document and what was expected there.

    A wrong value is quoted only where it must come from a closed list or be a number or a truth
    value, so that a secret written in the wrong place is never repeated.
    """
    items = error.errors(include_url=False, include_context=False)
    places = [item["loc"] for item in items]
    for item in items:
        kind, here = item["type"], item["loc"]
        if kind == "too_short" and any(
            len(place) > len(here) and place[: len(here)] == here for place in places
        ):
            continue  # an entry that is wrong does not count as one
        location = _in_document(item["loc"], model, value, last=kind in _NAMES_ITS_KEY)
        if kind == "extra_forbidden":
            yield location, _unknown_key(str(location[-1]), allowed_keys(model, location[:-1]))
        elif kind == "missing":
            yield location, "required, but absent"
        else:
            message = item["msg"].removeprefix("Value error, ")
            yield location, message + _got(kind, item["input"])


_NAMES_ITS_KEY: Final = frozenset({"extra_forbidden", "missing"})
"""Kinds of error whose location ends in a key that the document or the model does not have."""


def _unknown_key(key: str, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, allowed, n=1)
    if near:
        return f"unknown key; did you mean {near[0]!r}?"
    if allowed:
        return f"unknown key; expected one of {', '.join(sorted(allowed))}"
    return "unknown key; remove it"


def _got(kind: str, value: object) -> str:
    if not kind.startswith(
        ("literal", "enum", "int", "float", "bool", "greater", "less", "union_tag")
    ):
        return ""
    if isinstance(value, Mapping):
        return ""
    shown = repr(value)
    return f", got {shown[:_SHOWN_CHARACTERS]}{'...' if len(shown) > _SHOWN_CHARACTERS else ''}"


def _in_document(
    location: Sequence[str | int], model: type[BaseModel], value: JsonValue, *, last: bool
) -> Location:
    """Drop the parts of an error's location that are no keys, as the tags of unions are.

    A value that overrides the document is not in it, so the model says what is a key; below the
    model's reach, in free JSON, the document does. With `last`, the last part is a key for certain.
    """
    place: list[str | int] = []
    kinds: list[object] = [model]
    here: JsonValue = value
    for index, part in enumerate(location):
        inner = [found for kind in kinds for found in _step(kind, part)]
        below: JsonValue = None
        is_there = False
        if isinstance(here, dict) and part in here:
            below, is_there = here[str(part)], True
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            below, is_there = here[part], True
        if inner or is_there or (last and index == len(location) - 1):
            place.append(part)
            kinds, here = inner, below
    return tuple(place)


def allowed_keys(model: type[BaseModel], location: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that a model allows at a place of its document; empty when any text is allowed."""
    kinds: list[object] = [model]
    for part in location:
        kinds = [inner for kind in kinds for inner in _step(kind, part)]
    return tuple(
        entry.alias or name
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for name, entry in kind.model_fields.items()
    )


def _step(kind: object, part: str | int) -> list[object]:
    """The types found under one key of a type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, entry in kind.model_fields.items():
            if part in (name, entry.alias):
                return _flat(entry.annotation)
        return []
    arguments = get_args(kind)
    if arguments and get_origin(kind) in (dict, Mapping) and part != "[key]":
        return _flat(arguments[1])
    if arguments and get_origin(kind) in (tuple, list) and isinstance(part, int):
        return _flat(arguments[0])
    return []


def _flat(kind: object) -> list[object]:
    """A union's members, without annotations."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _flat(get_args(kind)[0])
    if origin in (Union, UnionType):
        return [inner for member in get_args(kind) for inner in _flat(member)]
    return [kind]
