"""What it costs to do one thing where another was right."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from turnstream.calibration.samples import Sample
from turnstream.core.contract import Action

Cost = Annotated[float, Field(ge=0)]


class Costs(BaseModel):
    """A cost matrix. Units are the writer's own; only their proportions matter."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    matrix: dict[Action, dict[Action, Cost]] = {}
    """What was right to what is done to the cost of that. Where nothing is given, what is right
    costs nothing, a handoff `handoff`, and anything else 1."""
    handoff: Cost = 0.25
    """Bringing a person in where that was not needed."""
    wrong_target: Cost = 1.0
    """The right action with another tool, or a question about another field."""
    tools: dict[str, Cost] = {}
    """Tool to a factor on the cost of calling it wrongly; 1 where none is given."""

    def of_doing(self, sample: Sample) -> float:
        """The cost of doing what was proposed."""
        if sample.agrees:
            return 0.0
        if sample.action == sample.right:
            cost = self.wrong_target
        else:
            cost = self._of(sample.right, sample.action, otherwise=1.0)
        return cost * self.tools.get(sample.tool or "", 1.0)

    def of_holding_back(self, sample: Sample) -> float:
        """The cost of handing it off instead."""
        if sample.right == "handoff":
            return 0.0
        return self._of(sample.right, "handoff", otherwise=self.handoff)

    def _of(self, right: Action, done: Action, *, otherwise: float) -> float:
        return self.matrix.get(right, {}).get(done, otherwise)
