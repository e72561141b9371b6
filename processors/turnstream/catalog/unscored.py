"""What thresholds do to deciders that give no confidence, as agent models do.

Such a proposal is below every threshold. Where the catalog says nothing else (`unscored`), each
step that one applies to goes to a person: safe, and hardly what whoever wrote both meant.
"""

from collections.abc import Collection, Iterator
from typing import Final

from turnstream.core.contract import Action
from turnstream.core.definitions import Catalog
from turnstream.core.schema_tree import Place

_ACTIONS: Final[tuple[Action, ...]] = ("answer", "call_tool", "ask", "refuse")


def unscored_advice(catalog: Catalog, unscored: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Agents whose decider is held back by every threshold: the place to look at, and why.

    Args:
        catalog: the catalog.
        unscored: names of the configured deciders that give no confidence.
    """
    thresholds = catalog.thresholds
    if thresholds.unscored == "accept":
        return
    demanded = [
        f"thresholds.{action} is {thresholds.of(action):g}"
        for action in _ACTIONS
        if thresholds.of(action) > 0
    ]
    demanded += [
        f"tools.{name}.threshold is {tool.threshold:g}"
        for name, tool in catalog.tools.items()
        if tool.threshold
    ]
    if not demanded:
        return
    for name, agent in catalog.agents.items():
        if agent.decider in unscored:
            message = (
                f"{agent.decider!r} gives no confidence, and {', '.join(demanded)}: every such "
                "step goes to a person. Say thresholds.unscored: accept, where the checks of code "
                "are enough, or lower them to 0"
            )
            yield ("agents", name, "decider"), message
