"""The doctor's look at tools and secrets: can they be bound, reached, read? Nothing is called."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from turnstream.cli.connections import unreachable
from turnstream.cli.findings import Finding, fail, ok

if TYPE_CHECKING:
    from turnstream.config import Settings
    from turnstream.core.bindings import HttpBinding
    from turnstream.core.definitions import Catalog, Tool
    from turnstream.core.ruleset import Ruleset

_BINDING_REMEDY: Final = "mend the binding, the environment or execute.egress_allow"

_AWAY_REMEDY: Final = (
    "see that the service runs and lets this host in; until then their calls are handed off as "
    "tool_unavailable"
)


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
    away = unreachable("tools", {name: one.url for name, one in sound.items()}, remedy=_AWAY_REMEDY)
    yield from away
    if not faults and not away:
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
    from turnstream.roles.secret_references import references

    count = 0
    faults: list[Finding] = []
    for one in references(settings, catalog):
        count += 1
        try:
            one.secret.resolve()
        except SecretUnavailable as error:
            remedy = "set it where the roles run that need it"
            if one.of_execute_alone:
                remedy = "set it where `turnstream run execute` runs; no other role needs it"
            faults.append(fail("secrets", f"{one.where}: {error}", remedy))
    yield from faults
    if not faults:
        yield ok("secrets", f"{count} references, all lead to a value" if count else "none named")
