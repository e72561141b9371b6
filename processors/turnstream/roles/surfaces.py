"""Tools as the model of a decider will be told of them, looked at when a role starts.

What a surface cannot say without loss would be told wrongly at every turn, or not at all. So it
stops the start, with file, line and path of the keyword, and with the decider that needs it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from turnstream.catalog import CatalogError, LoadedCatalog
from turnstream.catalog.surfaces import tools_on_surface
from turnstream.config import ConnectorSettings
from turnstream.core.agents import Agent
from turnstream.models.connectors import FALLING_BACK, wire_of
from turnstream.models.transport import Wire


def wires_of(agents: Iterable[Agent], options: ConnectorSettings) -> Iterator[Wire]:
    """Every way in which a decider may be told of the catalog's tools.

    Args:
        agents: that it decides for; they may say for themselves whether tools are given as such.
        options: the decider's section.
    """
    said = [agent.extra.native_tools for agent in agents]
    native = {options.native_tools if one is None else one for one in said}
    if True in native:
        yield wire_of(options)
    if False in native or options.kind in FALLING_BACK:
        yield Wire("prompt")


def check_surfaces(
    loaded: LoadedCatalog, options: ConnectorSettings, *, decider: str, agents: Iterable[Agent]
) -> None:
    """Check that a decider can be told of every tool.

    Args:
        loaded: the catalog.
        options: the decider's section.
        decider: its name.
        agents: that it decides for. How those of other deciders are told is no business of it.

    Raises:
        CatalogError: a tool cannot be shown without loss, one fault for each.
    """
    for wire in wires_of(agents, options):
        try:
            tools_on_surface(loaded, surface=wire.surface, strict=wire.strict)
        except CatalogError as error:
            hint = "; strict_tools: false asks for less" if wire.strict else ""
            raise CatalogError(
                [
                    replace(fault, message=f"{fault.message} (deciders.{decider}{hint})")
                    for fault in error.faults
                ]
            ) from error
