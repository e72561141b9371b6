"""The doctor's look at MCP servers and agents: what they list against what the catalog says.

Lists and cards are read as `execute` reads them, which starts the servers that are processes of
ours; no tool is called and nobody is told anything.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from turnstream.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from turnstream.config import Settings
    from turnstream.core.definitions import Catalog

_SCHEMA_REMEDY = (
    "make input_schema and the server agree; until then the tool's conversations are handed off"
)
_AGENT_REMEDY = "mend the queue's agent; until then people have its handoffs alone"


def examine_servers(catalog: "Catalog", settings: "Settings") -> Iterator[Finding]:
    """Compare every tool on an MCP server with the server's list, and every agent with its card."""
    on_servers = any(tool.binding.kind == "mcp" for tool in catalog.tools.values())
    agents = any(queue.agent is not None for queue in catalog.queues.values())
    if on_servers:
        yield from asyncio.run(_all(_tools(catalog, settings), "tools on MCP servers", "servers"))
    if agents:
        yield from asyncio.run(_all(_agents(catalog, settings), "agents of queues", "agents"))


async def _all(found: AsyncIterator[Finding | None], what: str, check: str) -> list[Finding]:
    """What was found; one line in place of all that is sound."""
    findings = [one async for one in found]
    faults = [one for one in findings if one is not None]
    return faults or [ok(check, f"{len(findings)} {what} are as the catalog says")]


async def _tools(catalog: "Catalog", settings: "Settings") -> AsyncIterator[Finding | None]:
    from turnstream.tools import BindingError, bind_tools

    tools = {name: one for name, one in catalog.tools.items() if one.binding.kind == "mcp"}
    alone = catalog.model_copy(update={"tools": tools})
    try:
        bound = bind_tools(
            alone, environment=os.environ, egress_allow=settings.execute.egress_allow
        )
    except BindingError:
        return  # said with the other bindings
    from turnstream.tools.mcp import McpTool
    from turnstream.tools.mcp_connection import Unreachable

    for name, binding in bound.items():
        if not isinstance(binding, McpTool):
            continue
        try:
            apart = await binding.changed()
        except Unreachable as error:
            remedy = "see that the server runs and lets this host in"
            yield warn("servers", f"tools.{name}: {error}", remedy)
            continue
        yield None if apart is None else fail("servers", f"tools.{name}: {apart}", _SCHEMA_REMEDY)
    for binding in bound.values():
        await binding.close()


async def _agents(catalog: "Catalog", settings: "Settings") -> AsyncIterator[Finding | None]:
    from turnstream.tools import BindingError
    from turnstream.tools.binding import optional

    for name, queue in catalog.queues.items():
        if queue.agent is None:
            continue
        where = f"queues.{name}.agent"
        # One by one, so that every fault is found; each is the only one of its own catalog.
        alone = catalog.model_copy(update={"queues": {name: queue}})
        try:
            module = optional("turnstream.tools.a2a", extra="a2a", place=where)
            bound = module.bind_agents(
                alone, environment=os.environ, egress_allow=settings.execute.egress_allow
            )
        except BindingError as error:
            yield fail("agents", str(error), "mend the URL, the environment or the installation")
            continue
        agent = bound[name]
        try:
            unfit = await agent.unfit()
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of a card
            kind = type(error).__name__
            yield warn("agents", f"{where}: its card cannot be read ({kind})", _AGENT_REMEDY)
        else:
            yield None if unfit is None else fail("agents", f"{where}: {unfit}", _AGENT_REMEDY)
        finally:
            await agent.close()
