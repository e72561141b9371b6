"""A decider as bad as they come, for deployments of tests."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.small_shop import ByWord
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DeciderUnavailable, DecisionRequest, Proposal

DOWN: Final = "unreachable"
"""A turn with this word finds the decider unavailable until it is back."""
ENDLESS: Final = "endless"
"""A turn with this word gets an answer longer than any record."""
NAMELESS: Final = "nameless"
"""A turn with this word gets a decision that is too large in a part that nothing bounds."""


class Unreliable:
    """Decides like the shop's, but for the words above."""

    name = "unreliable-1"

    def __init__(self, back: Path) -> None:
        self._back = back

    async def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step.

        Raises:
            DeciderUnavailable: it is asked for what it cannot do yet.
        """
        if DOWN in request.latest and not self._back.exists():
            message = "no connection"
            raise DeciderUnavailable(message)
        reply = ByWord().propose(request)
        if ENDLESS in request.latest:
            return replace(reply, answer_id=None, text="x" * 1_100_000)
        if NAMELESS in request.latest:
            return replace(reply, model="x" * 300_000)
        return reply


def unreliable(_catalog: Catalog, *, back: str) -> Unreliable:
    """The decider; it is back when the file `back` exists."""
    return Unreliable(Path(back))
