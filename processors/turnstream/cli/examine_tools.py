"""The doctor's look at tools and secrets: can they be bound, reached, read? Nothing is called."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from turnstream.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from pydantic import JsonValue

    from turnstream.config import SecretRef, Settings
    from turnstream.core.bindings import HttpBinding
    from turnstream.core.definitions import Catalog, Tool
    from turnstream.core.ruleset import Ruleset

_CONNECT_SECONDS: Final = 2.0
"""A service that does not answer must not hang the examination of all others."""

_PORTS: Final = {"http": 80, "https": 443}

_BINDING_REMEDY: Final = "mend the binding, the environment or execute.egress_allow"


def examine_tools(ruleset: "Ruleset", settings: "Settings") -> Iterator[Finding]:
    """Bind every tool, as `execute` would, and see whether its service can be connected to."""
    from turnstream.roles.deployment import DeploymentError
    from turnstream.roles.execute import check_write_timeouts
    from turnstream.tools import BindingError, bind_tools

    catalog = ruleset.catalog
    sound: dict[str, HttpBinding] = {}
    functions: list[str] = []
    faults: list[Finding] = []
    unset: dict[str, list[str]] = {}
    try:
        check_write_timeouts(ruleset, grace_seconds=settings.stream.grace_seconds)
    except DeploymentError as error:
        faults.append(fail("tools", str(error), "mend the key named"))
    for name, tool in catalog.tools.items():
        variable = _variable(catalog, tool)
        if variable is not None and not os.environ.get(variable):
            unset.setdefault(variable, []).append(name)
            continue
        # One by one, so that every fault is found; each is the only one of its own catalog.
        alone = catalog.model_copy(update={"tools": {name: tool}})
        try:
            bind_tools(alone, environment=os.environ, egress_allow=settings.execute.egress_allow)
        except BindingError as error:
            faults.append(fail("tools", str(error), _BINDING_REMEDY))
            continue
        if tool.binding.kind == "http":
            sound[name] = tool.binding.with_variables(os.environ)
        elif tool.binding.kind == "function":
            functions.append(name)
    for variable, names in unset.items():
        detail = f"{variable} is not set, the base URL of {', '.join(names)}"
        faults.append(fail("tools", detail, f"set {variable} here as where `execute` runs"))
    yield from faults
    unreachable = list(asyncio.run(_unreachable(sound)))
    yield from unreachable
    if not faults and not unreachable:
        detail = f"{len(functions)} functions imported, {len(sound)} HTTP services reachable"
        yield ok("tools", detail)


def _variable(catalog: "Catalog", tool: "Tool") -> str | None:
    """The environment variable that holds a tool's base URL, if there is one."""
    match tool.binding.kind:
        case "http":
            return tool.binding.variable
        case "mcp":
            server = catalog.servers[tool.binding.server]
            return server.variable if server.transport == "streamable_http" else None
        case "function":
            return None


def examine_secrets(settings: "Settings", catalog: "Catalog | None") -> Iterator[Finding]:
    """Resolve every reference; of what it leads to, nothing is shown."""
    from turnstream.config import SecretUnavailable

    count = 0
    faults: list[Finding] = []
    for where, secret in _secrets(settings, catalog):
        count += 1
        try:
            secret.resolve()
        except SecretUnavailable as error:
            remedy = "set it where the roles run that need it"
            if where.startswith(("tools.", "servers.", "queues.")):
                remedy = "set it where `turnstream run execute` runs; no other role needs it"
            faults.append(fail("secrets", f"{where}: {error}", remedy))
    yield from faults
    if not faults:
        yield ok("secrets", f"{count} references, all lead to a value" if count else "none named")


def _secrets(settings: "Settings", catalog: "Catalog | None") -> Iterator[tuple[str, "SecretRef"]]:
    """Every reference with the place that names it."""
    from turnstream.config import PythonSettings, SecretRef, is_reference

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


def _values(catalog: "Catalog") -> "Iterator[tuple[str, Mapping[str, str]]]":
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


def _texts(value: "JsonValue", path: str) -> Iterator[tuple[str, str]]:
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


async def _unreachable(bindings: "Mapping[str, HttpBinding]") -> list[Finding]:
    """The services that take no connection, each with the tools behind it."""
    tools: dict[tuple[str, int], list[str]] = {}
    for name, binding in bindings.items():
        parts = urlsplit(binding.url)
        place = (parts.hostname or "", parts.port or _PORTS[parts.scheme.lower()])
        tools.setdefault(place, []).append(name)
    problems = await asyncio.gather(*(_problem(host, port) for host, port in tools))
    return [
        warn(
            "tools",
            f"{host}:{port} cannot be connected to from here ({problem}): {', '.join(names)}",
            "see that the service runs and lets this host in; until then their calls are handed "
            "off as tool_unavailable",
        )
        for ((host, port), names), problem in zip(tools.items(), problems, strict=True)
        if problem is not None
    ]


async def _problem(host: str, port: int) -> str | None:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        return error.strerror or type(error).__name__
    writer.close()
    return None
