"""Time-outs of writes beside the time that a stop waits for them."""

from collections.abc import Iterator

from turnstream.core.definitions import Catalog
from turnstream.core.schema_tree import Place


def writes_beyond(catalog: Catalog, *, grace_seconds: float) -> Iterator[tuple[Place, str]]:
    """Writes that a stop could not wait for: their outcome would often be unknown.

    `execute` does not start with one.

    Args:
        catalog: the tools.
        grace_seconds: how long a stop waits.

    Returns:
        The place of each time-out, and what is wrong with it.
    """
    for name, tool in catalog.tools.items():
        if tool.effect == "write" and tool.timeout_seconds >= grace_seconds:
            message = (
                f"is {tool.timeout_seconds:g}, but a write must end within stream.grace_seconds "
                f"({grace_seconds:g}): lower it, or raise the grace"
            )
            yield ("tools", name, "timeout_seconds"), message
