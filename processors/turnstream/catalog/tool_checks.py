"""What must be true of a tool: its schemas, where its arguments come from, how it is called."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import JsonValue

from turnstream.catalog.schemas import (
    UnusableSchema,
    accepts,
    properties,
    required,
    validator,
)
from turnstream.config.secrets import is_reference
from turnstream.core.arguments import typed
from turnstream.core.definitions import (
    BASE_URL_VARIABLE,
    HTTP_BASE,
    ArgumentSource,
    Catalog,
    HttpBinding,
    HttpReconcile,
    Tool,
)
from turnstream.core.ruleset import ArgumentPlan
from turnstream.core.schema_tree import Schema

Place: TypeAlias = tuple[str | int, ...]
Problem: TypeAlias = tuple[Place, str]

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SECRET_NAME: Final = re.compile(
    r"auth|api[-_]?key|access[-_]?key|token|secret|passw|credential|cookie|session", re.IGNORECASE
)
"""Names of headers and query parameters whose value is a secret in practice."""

_KEY: Final = "idempotency_key"
_KEY_HEADER: Final = "idempotency-key"

_SECRET_VALUE: Final = re.compile(r"(?:basic|bearer|token)\s+\S", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_ARGUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def tool_problems(catalog: Catalog) -> Iterator[Problem]:
    """Everything that is wrong with the tools of a catalog."""
    for name, tool in catalog.tools.items():
        place: Place = ("tools", name)
        usable = []
        for key, schema in (
            ("input_schema", tool.input_schema),
            ("result_schema", tool.result_schema),
        ):
            broken = list(_schema((*place, key), schema))
            yield from broken
            usable.append(not broken)
        yield from _arguments(catalog, place, tool, values=usable[0])
        yield from _answers(catalog, name, tool)
        if tool.returns_passages is not None:
            yield from _passages(place, tool)
        yield from _reconcile((*place, "binding", "reconcile"), tool)
        if isinstance(tool.binding, HttpBinding):
            yield from _url((*place, "binding", "url"), tool, tool.binding.url)
            yield from _headers((*place, "binding", "headers"), tool.binding)


# --- schemas ------------------------------------------------------------------------------------


def _schema(place: Place, schema: Schema) -> Iterator[Problem]:
    try:
        validator(schema)
    except UnusableSchema as error:
        yield (*place, *error.path), str(error)
        return
    if schema.get("type") != "object":
        yield place, "expected a schema with type: object"
    declared = properties(schema)
    for index, name in enumerate(required(schema)):
        if name not in declared:
            yield (*place, "required", index), f"{name!r} is required but not among the properties"


def _passages(place: Place, tool: Tool) -> Iterator[Problem]:
    entry = properties(tool.result_schema).get(tool.returns_passages or "")
    if not isinstance(entry, dict) or entry.get("type") != "array":
        yield (
            (*place, "returns_passages"),
            "expected the name of a property of result_schema with type: array",
        )


# --- arguments ----------------------------------------------------------------------------------


def _arguments(catalog: Catalog, place: Place, tool: Tool, *, values: bool) -> Iterator[Problem]:
    declared = properties(tool.input_schema)
    for index, name in enumerate(required(tool.input_schema)):
        if name in declared and name not in tool.arguments:
            yield (
                (*place, "input_schema", "required", index),
                f"nothing can provide {name!r}; give it a provenance under arguments",
            )
    for name, source in tool.arguments.items():
        here = (*place, "arguments", name)
        if name not in declared:
            allowed = ", ".join(declared) or "there is none"
            yield here, f"expected a property of input_schema ({allowed})"
            continue
        yield from _source(catalog, here, name, source)
        if values:
            yield from _values(catalog, here, tool, name)


def _source(
    catalog: Catalog, place: Place, argument: str, source: ArgumentSource
) -> Iterator[Problem]:
    field = source.field or argument
    entry = catalog.fields.get(field)
    if entry is None and set(source.provenance) == {"model"} and source.field is None:
        pass  # the schema alone says what is valid, and nobody is asked
    elif entry is None:
        yield (
            (*place, "field") if source.field else place,
            f"expected a definition of {field!r} under fields: it says which values are valid",
        )
    elif {"message", "record"} & set(source.provenance) and entry.question is None:
        yield (
            ("fields", field),
            f"expected a question: {place[1]} lets the customer be asked for {argument!r}",
        )
    if len(set(source.provenance)) != len(source.provenance):
        yield (*place, "provenance"), "a source is named twice"
    if ("tool_result" in source.provenance) != (source.from_result is not None):
        yield place, "provenance tool_result and from_result are given together or not at all"
    elif source.from_result is not None:
        tool_name, _, property_name = source.from_result.partition(".")
        tool = catalog.tools.get(tool_name)
        if tool is None or property_name not in properties(tool.result_schema):
            yield (
                (*place, "from_result"),
                f"expected TOOL.PROPERTY of a result_schema, got {source.from_result!r}",
            )


def _values(catalog: Catalog, place: Place, tool: Tool, argument: str) -> Iterator[Problem]:
    """Choices and suggestions that the argument's schema would refuse after they were accepted."""
    source = tool.arguments[argument]
    entry = catalog.fields.get(source.field or argument)
    if entry is None:
        return
    plan = ArgumentPlan(
        name=argument,
        field=source.field or argument,
        required=False,
        source=source,
        types=types_of(properties(tool.input_schema)[argument]),
    )
    try:
        is_accepted = accepts(tool.input_schema, argument)
    except UnusableSchema:
        return
    for value in (*entry.choices, *entry.suggestions):
        if not is_accepted(typed(value, plan)):
            yield (
                place,
                f"the field allows {value!r}, the schema of the argument does not; make them agree",
            )


def types_of(schema: JsonValue) -> frozenset[str]:
    """The JSON types that a schema names; empty when it does not say."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    names = kind if isinstance(kind, list) else [kind] if isinstance(kind, str) else []
    return frozenset(str(name) for name in names)


# --- answers ------------------------------------------------------------------------------------


def _answers(catalog: Catalog, name: str, tool: Tool) -> Iterator[Problem]:
    presented: list[tuple[Place, str]] = []
    if tool.answer is not None:
        presented.append((("tools", name, "answer"), tool.answer))
    for code, rule in tool.errors.items():
        if rule.answer is not None:
            presented.append((("tools", name, "errors", code, "answer"), rule.answer))
    for place, answer_name in presented:
        answer = catalog.answers.get(answer_name)
        if answer is None:
            yield place, f"expected the name of an approved answer, got {answer_name!r}"
        elif answer.of_tool != name:
            yield (
                place,
                f"expected an answer with of_tool: {name}; others may be chosen without a result",
            )


# --- bindings -----------------------------------------------------------------------------------


def _reconcile(place: Place, tool: Tool) -> Iterator[Problem]:
    rule = tool.binding.reconcile
    if rule is None:
        return
    if tool.effect == "read":
        yield place, "only of a write can it be unknown whether it was carried out"
    if _KEY in properties(tool.input_schema):
        yield place, f"an argument named {_KEY} cannot be told from ours; give it another name"
    if isinstance(rule, HttpReconcile):
        yield from _url((*place, "url"), tool, rule.url, ours=frozenset({_KEY}))
        if rule.method == "GET" and _KEY not in _PLACEHOLDER.findall(rule.url):
            yield (*place, "url"), f"expected {{{_KEY}}}: it says which call is asked about"


def _url(
    place: Place, tool: Tool, url: str, *, ours: frozenset[str] = frozenset()
) -> Iterator[Problem]:
    found = BASE_URL_VARIABLE.match(url)
    variable = found.group(1) if found else None
    rest = url.removeprefix(f"{{{variable}}}") if variable else url
    if variable is None:
        if not HTTP_BASE.match(url):
            yield (
                place,
                "expected http(s):// and a host without credentials or placeholders, or {VARIABLE}",
            )
            return
    elif rest and not rest.startswith("/"):
        yield place, f"expected a path after {{{variable}}}"
    declared = properties(tool.input_schema)
    for name in _PLACEHOLDER.findall(rest):
        if name in ours:
            continue
        if BASE_URL_VARIABLE.fullmatch(f"{{{name}}}") and name not in declared:
            yield place, f"{{{name}}}: a variable may only stand at the start of the URL"
        elif not _ARGUMENT.fullmatch(name) or name not in declared:
            yield place, f"{{{name}}}: expected an argument of the tool"
        elif name not in required(tool.input_schema):
            yield place, f"{{{name}}}: an argument in the URL must be required by input_schema"
    parts = urlsplit(_PLACEHOLDER.sub("x", url))
    if parts.fragment:
        yield place, "expected no fragment"
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAME.search(name) and value:
            yield place, f"{name}: a secret in a URL ends up in logs; send it as a header"


def _headers(place: Place, binding: HttpBinding) -> Iterator[Problem]:
    for name, value in _all_headers(binding).items():
        here = (*place, name) if name in binding.headers else (*place[:-1], "subject_header")
        if not _HEADER_NAME.fullmatch(name):
            yield here, "expected the name of an HTTP header"
        elif name.lower() == _KEY_HEADER:
            yield here, "this header carries the idempotency key of each call; leave it out"
        elif value is None or is_reference(value):
            continue
        elif _SECRET_NAME.search(name) or _SECRET_VALUE.match(value):
            yield here, "expected a reference to a secret: write env:NAME or file:PATH"
        elif not value.isascii() or not value.isprintable():
            yield here, "expected printable ASCII characters"


def _all_headers(binding: HttpBinding) -> Mapping[str, str | None]:
    own: dict[str, str | None] = dict(binding.headers)
    return own if binding.subject_header is None else {**own, binding.subject_header: None}
