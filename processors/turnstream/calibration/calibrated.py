"""A decider whose probabilities and confidence mean what a calibration found them to mean."""

from collections.abc import Awaitable
from dataclasses import replace

from turnstream.calibration.result import Calibration
from turnstream.calibration.temperature import cooled, cooled_confidence
from turnstream.core.ports import Decider, DecisionRequest, Proposal


class Calibrated:
    """Passes everything on, and rescales what comes back.

    The margin stays as it is: the catalog's `near_tie_margin` is a distance on the decider's own
    scale. What a proposal may name at all stays the policy's business, and so does a confidence
    that is none.
    """

    def __init__(self, decider: Decider, calibration: Calibration) -> None:
        """Prepare.

        Args:
            decider: the one that the calibration was made for.
            calibration: checked already.
        """
        self._decider = decider
        self._calibration = calibration
        self._suffix = f"+{calibration.version}"

    @property
    def name(self) -> str:
        """Name and version of the decider, and of the calibration."""
        return self._decider.name + self._suffix

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:
        """Propose one step, at once where the decider does."""
        reply = self._decider.propose(request)
        return self._rescaled(reply) if isinstance(reply, Proposal) else self._later(reply)

    async def close(self) -> None:
        """Release what the decider holds."""
        close = getattr(self._decider, "close", None)
        if close is not None:
            await close()

    async def _later(self, reply: Awaitable[Proposal]) -> Proposal:
        return self._rescaled(await reply)

    def _rescaled(self, proposal: Proposal) -> Proposal:
        temperature = self._calibration.temperature.value
        return replace(
            proposal,
            model=proposal.model + self._suffix,
            confidence=cooled_confidence(
                proposal.confidence, proposal.action, proposal.probabilities, temperature
            ),
            probabilities=cooled(proposal.probabilities, temperature),
            least_confidence=max(
                proposal.least_confidence,
                self._calibration.least_confidence(proposal.action, proposal.tool),
            ),
            diagnostics={
                **proposal.diagnostics,
                "uncalibrated_confidence": proposal.confidence,
            },
        )
