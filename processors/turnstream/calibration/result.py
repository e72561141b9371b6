"""What a calibration leaves behind: one file, and the versions that it is good for."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnstream.calibration.temperature import Temperature
from turnstream.calibration.thresholds import Aim, Threshold
from turnstream.core.contract import Action
from turnstream.core.errors import TurnstreamError

FORMAT: Final = 1

_FAULTS: Final = 3
"""Faults named: a file of another kind breaks every key at once."""


class CalibrationRefused(TurnstreamError):
    """A calibration cannot be used; whoever deploys it must make a new one."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MadeFor(_Part):
    """What was calibrated."""

    decider: str
    """Name and version, as the decider reports them."""
    decision_version: str
    """Of the catalog."""


class Counted(_Part):
    """The size of a set."""

    conversations: int
    labelled_turns: int


class MadeFrom(_Part):
    """The sets, and how they were divided."""

    tuning: Counted
    control: Counted
    control_share: float | None
    """None where two files were given, as is `seed`."""
    seed: int | None


class Figures(_Part):
    """On the control set, before and after the temperature; None where there was nothing to tell.

    Errors are expected calibration errors, 0 to 1.
    """

    confidence_error_before: float | None
    confidence_error_after: float | None
    actions_error_before: float | None
    actions_error_after: float | None
    log_loss_before: float | None
    log_loss_after: float | None


class Calibration(_Part):
    """A temperature and thresholds for one decider with one catalog."""

    format: Literal[1] = FORMAT
    made_for: MadeFor
    made_from: MadeFrom
    aim: Aim = Field(discriminator="kind")
    temperature: Temperature
    actions: dict[Action, Threshold]
    tools: dict[str, Threshold]
    control: Figures

    @property
    def version(self) -> str:
        """Eight hex digits that change with all that can change a decision."""
        deciding = self.model_dump_json(include={"temperature", "actions", "tools", "made_for"})
        return blake2b(deciding.encode(), digest_size=4).hexdigest()

    @property
    def not_fitted(self) -> list[str]:
        """What could not be fitted as it was wanted, and why.

        A tool that is proposed too seldom for a threshold of its own has its action's.
        """
        named: list[tuple[str, Threshold]] = [*self.actions.items()]
        named += [(tool, one) for tool, one in self.tools.items() if one.value is not None]
        notes = [f"{name}: {one.note}" for name, one in named if one.note is not None]
        why_not = self.temperature.why_not
        return notes if why_not is None else [f"temperature: {why_not}", *notes]

    def least_confidence(self, action: str, tool: str | None) -> float:
        """What a proposal must reach at the temperature; 0 where nothing was fitted."""
        named: Mapping[str, Threshold] = {str(name): one for name, one in self.actions.items()}
        least = named[action].value if action in named else None
        of_tool = self.tools[tool].value if action == "call_tool" and tool in self.tools else None
        return max(least or 0.0, of_tool or 0.0)

    def check(self, *, decider: str, decision_version: str, where: str) -> None:
        """Refuse to be used for anything else than it was made for.

        Args:
            decider: name and version of the decider at hand.
            decision_version: of the catalog at hand.
            where: the file, for the message.

        Raises:
            CalibrationRefused: naming both versions.
        """
        given = {"decision version": decision_version, "decider": decider}
        made = {
            "decision version": self.made_for.decision_version,
            "decider": self.made_for.decider,
        }
        differing = [
            f"{what} {made[what]!r}, and here it is {given[what]!r}"
            for what in given
            if made[what] != given[what]
        ]
        if differing:
            raise CalibrationRefused(
                f"{where}: made for {'; for '.join(differing)}: run `turnstream calibrate` again, "
                "with `--role decide` for decide.calibrations and `--role shadow` for "
                "shadow.calibration, or take the file out of the configuration"
            )


def read_calibration(content: bytes, *, where: str) -> Calibration:
    """Read a calibration file.

    Args:
        content: JSON.
        where: the file, for the message.

    Raises:
        CalibrationRefused: it is none, or of another format.
    """
    try:
        return Calibration.model_validate_json(content)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}"
            for one in error.errors(include_url=False, include_input=False)[:_FAULTS]
        ]
        raise CalibrationRefused(
            f"{where}: no calibration of format {FORMAT}: {'; '.join(faults)}"
        ) from None
