"""From two sets of samples to a calibration: fitted on the one, measured on the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstream.calibration.findings import Report, report
from turnstream.calibration.result import (
    Calibration,
    Counted,
    Figures,
    MadeFor,
    MadeFrom,
)
from turnstream.calibration.samples import Sample, conversations
from turnstream.calibration.sets import check_disjoint
from turnstream.calibration.temperature import fit_temperature
from turnstream.calibration.thresholds import Aim, by_action, by_tool, fit_threshold
from turnstream.core.definitions import Catalog

_NOTHING = Figures(
    confidence_error_before=None,
    confidence_error_after=None,
    actions_error_before=None,
    actions_error_after=None,
    log_loss_before=None,
    log_loss_after=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the two sets came about."""

    control_share: float | None = None
    """None where two files were given, as is `seed`."""
    seed: int | None = None


def calibrate(
    tuning: Sequence[Sample],
    control: Sequence[Sample],
    *,
    made_for: MadeFor,
    division: Division,
    catalog: Catalog,
    aim: Aim,
    bins: int = 10,
) -> tuple[Calibration, Report]:
    """Fit on the tuning set, report on the control set.

    Args:
        tuning: what is fitted on, and nothing else is.
        control: what the report is about; no conversation of it may be in `tuning`.
        made_for: the decider and the catalog.
        division: how the sets came about.
        catalog: the decider's.
        aim: what the thresholds are for.
        bins: of the reliability tables.

    Raises:
        SetsOverlap: a conversation is in both sets.
    """
    check_disjoint(
        {one.conversation_id for one in tuning}, {one.conversation_id for one in control}
    )
    temperature = fit_temperature(tuning)
    fitted = Calibration(
        made_for=made_for,
        made_from=MadeFrom(
            tuning=_counted(tuning),
            control=_counted(control),
            control_share=division.control_share,
            seed=division.seed,
        ),
        aim=aim,
        temperature=temperature,
        actions={
            action: fit_threshold(found, temperature=temperature.value, aim=aim)
            for action, found in by_action(tuning).items()
        },
        tools={
            tool: fit_threshold(found, temperature=temperature.value, aim=aim)
            for tool, found in by_tool(tuning).items()
        },
        control=_NOTHING,
    )
    found = report(control, fitted, catalog, bins=bins)
    figures = Figures(
        confidence_error_before=found.confidence[0].error,
        confidence_error_after=found.confidence[1].error,
        actions_error_before=found.actions[0].error,
        actions_error_after=found.actions[1].error,
        log_loss_before=found.log_loss[0],
        log_loss_after=found.log_loss[1],
    )
    return fitted.model_copy(update={"control": figures}), found


def _counted(samples: Sequence[Sample]) -> Counted:
    return Counted(conversations=conversations(samples), labelled_turns=len(samples))
