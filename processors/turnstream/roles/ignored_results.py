"""Results that change nothing: what kind each is, by what its conversation remembers of its call.

They are rightly ignored, by the id of the action. But many of them say that something is wrong: an
executor that is far behind, a topic that is read twice, results of another deployment.
"""

from turnstream.core.conversation import Conversation
from turnstream.core.events import ToolResult
from turnstream.metrics.catalogue import IgnoredAs


def ignored(result: ToolResult, conversation: Conversation | None) -> IgnoredAs | None:
    """Why a result is ignored; None when it is waited for.

    Args:
        result: the result.
        conversation: its conversation before the result.

    Returns:
        ``late`` for what became of a write that was given up as unknown, ``duplicate`` for another
        result of a call that had one, ``unknown`` where nothing is remembered of the call.
    """
    state = conversation or Conversation()
    name = result.action_id
    if any(one.action_id == name and one.kind == "call" for one in state.outstanding):
        return None
    for fact in state.facts:
        if fact.action_id == name:
            given_up = fact.outcome == "outcome_unknown"
            return "late" if given_up and result.outcome != fact.outcome else "duplicate"
    return "unknown"
