"""Where secrets are referred to, and whether those that a role needs lead to a value.

They are read at each use, so a start with one that leads nowhere would look healthy, and hand off
every conversation. A secret that ends later is another matter: its use says so, and the process
goes on.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from turnstream.config import (
    DecisionsSettings,
    PythonSettings,
    SecretRef,
    SecretUnavailable,
    Settings,
)
from turnstream.config.secrets import references_in
from turnstream.core.definitions import Catalog
from turnstream.stream.topic_definitions import RoleName

_OF_ALL: Final = frozenset({"kafka", "registry"})

_OF_EXECUTE: Final = frozenset({"tools", "servers", "queues"})


class Reference(NamedTuple):
    """A secret that is referred to."""

    part: str
    """Of the deployment, which one role reads and another does not: `kafka`, `tools`, a decider."""
    where: str
    """Path of the reference, for messages."""
    secret: SecretRef

    @property
    def of_execute_alone(self) -> bool:
        """Whether no other role reads it."""
        return self.part in _OF_EXECUTE


def check_secrets(role: RoleName, *, settings: Settings, catalog: Catalog) -> None:
    """Resolve the references that a role will use.

    Raises:
        SecretUnavailable: some lead nowhere; the text names them all, and nothing they lead to.
    """
    needed = _needed(role, settings, catalog)
    faults = []
    for one in references(settings, catalog):
        if one.part not in needed:
            continue
        try:
            one.secret.resolve()
        except SecretUnavailable as error:
            faults.append(f"{one.where}: {error}")
    if faults:
        raise SecretUnavailable("\n".join(faults))


def references(settings: Settings, catalog: Catalog | None) -> Iterator[Reference]:
    """Every reference there is; of a catalog that cannot be read, none."""
    if settings.kafka.sasl_password is not None:
        yield Reference("kafka", "kafka.sasl_password", settings.kafka.sasl_password)
    if settings.registry is not None and settings.registry.auth is not None:
        yield Reference("registry", "registry.auth", settings.registry.auth)
    deciders = [(f"deciders.{name}", one) for name, one in settings.deciders.items()]
    classifiers = [(f"classifiers.{name}", one) for name, one in settings.classifiers.items()]
    for part, options in (*deciders, *classifiers):
        if isinstance(options, PythonSettings):
            for path, secret in references_in(options.options, f"{part}.options"):
                yield Reference(part, path, secret)
        for key, secret in options:
            if isinstance(secret, SecretRef):
                yield Reference(part, f"{part}.{key}", secret)
    for where, values in _values(catalog) if catalog is not None else ():
        for path, secret in references_in({**values}, where):
            yield Reference(where.partition(".")[0], path, secret)


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


def _needed(role: RoleName, settings: Settings, catalog: Catalog) -> frozenset[str]:
    """The parts whose references a role reads."""
    match role:
        case "decide" | "shadow":
            asked = deciders_of(role, settings=settings, catalog=catalog)
            return _OF_ALL | {f"deciders.{name}" for name in asked}
        case "classify":
            return _OF_ALL | {f"classifiers.{settings.classify.classifier}"}
        case "execute":
            return _OF_ALL | _OF_EXECUTE
        case "answer":
            return _OF_ALL


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
