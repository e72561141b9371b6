"""Where secrets are referred to, and whether those that a role needs lead to a value.

They are read at each use, so a start with one that leads nowhere would look healthy, and hand off
every conversation. A secret that ends later is another matter: its use says so, and the process
goes on.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from turnstream.config import (
    DecisionsSettings,
    PythonSettings,
    SecretRef,
    SecretUnavailable,
    Settings,
    is_reference,
)
from turnstream.core.definitions import Catalog
from turnstream.stream.topic_definitions import RoleName

_OF_ALL = ("kafka.", "registry.")

OF_EXECUTE = ("tools.", "servers.", "queues.")
"""Places of references that `execute` reads and no other role."""


def check_secrets(role: RoleName, *, settings: Settings, catalog: Catalog) -> None:
    """Resolve the references that a role will use.

    Raises:
        SecretUnavailable: some lead nowhere; the text names them all, and nothing they lead to.
    """
    needed = _needed(role, settings, catalog)
    faults = []
    for where, reference in references(settings, catalog):
        if not where.startswith(needed):
            continue
        try:
            reference.resolve()
        except SecretUnavailable as error:
            faults.append(f"{where}: {error}")
    if faults:
        raise SecretUnavailable("\n".join(faults))


def references(settings: Settings, catalog: Catalog | None) -> Iterator[tuple[str, SecretRef]]:
    """Every reference with the place that names it."""
    if settings.kafka.sasl_password is not None:
        yield "kafka.sasl_password", settings.kafka.sasl_password
    if settings.registry is not None and settings.registry.auth is not None:
        yield "registry.auth", settings.registry.auth
    deciders = [(f"deciders.{name}", one) for name, one in settings.deciders.items()]
    classifiers = [(f"classifiers.{name}", one) for name, one in settings.classifiers.items()]
    for where, options in (*deciders, *classifiers):
        if isinstance(options, PythonSettings):
            for path, text in _texts(options.options, f"{where}.options"):
                if is_reference(text):
                    yield path, SecretRef(text)
        for key, secret in options:
            if isinstance(secret, SecretRef):
                yield f"{where}.{key}", secret
    for where, values in _values(catalog) if catalog is not None else ():
        for key, value in values.items():
            if is_reference(value):
                yield f"{where}.{key}", SecretRef(value)


def deciders_of(role: RoleName, *, settings: Settings, catalog: Catalog) -> frozenset[str]:
    """Names of the deciders that a role asks, and of those that write arguments for them."""
    match role:
        case "decide":
            names = {agent.decider for agent in catalog.agents.values()}
        case "shadow":
            names = {settings.shadow.decider}
        case _:
            names = set()
    found: set[str] = set()
    while names:
        name = names.pop()
        found.add(name)
        options = settings.deciders.get(name)
        writer = options.arguments_by if isinstance(options, DecisionsSettings) else None
        if writer is not None and writer not in found:
            names.add(writer)
    return frozenset(found)


def _needed(role: RoleName, settings: Settings, catalog: Catalog) -> tuple[str, ...]:
    """What the places begin with whose references a role reads."""
    own: tuple[str, ...] = ()
    match role:
        case "decide" | "shadow":
            names = deciders_of(role, settings=settings, catalog=catalog)
            own = tuple(f"deciders.{name}." for name in names)
        case "classify":
            own = (f"classifiers.{settings.classify.classifier}.",)
        case "execute":
            own = OF_EXECUTE
        case "answer":
            pass
    return (*_OF_ALL, *own)


def _values(catalog: Catalog) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Every mapping of a catalog whose values may be references, with its place."""
    for name, tool in catalog.tools.items():
        if tool.binding.kind == "http":
            yield f"tools.{name}.binding.headers", tool.binding.headers
    for name, server in catalog.servers.items():
        if server.transport == "stdio":
            yield f"servers.{name}.env", server.env
        else:
            yield f"servers.{name}.headers", server.headers
    for name, queue in catalog.queues.items():
        if queue.agent is not None:
            yield f"queues.{name}.agent.headers", queue.agent.headers


def _texts(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """Every text inside a JSON value, with its path."""
    match value:
        case str():
            yield path, value
        case dict():
            for name, inner in value.items():
                yield from _texts(inner, f"{path}.{name}")
        case list():
            for index, inner in enumerate(value):
                yield from _texts(inner, f"{path}.{index}")
