"""A calibration as a picture: how reliable the confidence is, and what thresholds cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnstream.core.errors import TurnstreamError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from turnstream.calibration import Report

_INCHES: Final = (13.0, 5.0)


class PlotImpossible(TurnstreamError):
    """There is nothing to draw with; the message says what to install."""


def check_plotting() -> None:
    """Find out before the work whether a plot can be drawn.

    Raises:
        PlotImpossible: the library is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise PlotImpossible(
            "--plot draws with matplotlib, which is not installed: "
            "pip install 'turnstream[calibrate]', or leave --plot out"
        ) from error


def plot(report: "Report", path: Path) -> None:
    """Draw the control set into a PNG file.

    Raises:
        OSError: the file cannot be written.
    """
    # Not pyplot: it keeps figures, and looks for a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_reliability(left, report)
    _draw_prices(right, report)
    figure.savefig(path, format="png", dpi=120)


def _draw_reliability(axes: "Axes", report: "Report") -> None:
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="reliable")
    for label, marker, one in (
        ("as given", "o", report.confidence[0]),
        ("at the temperature", "s", report.confidence[1]),
    ):
        filled = [part for part in one.bins if part.count]
        error = "-" if one.error is None else f"{one.error:.3f}"
        axes.plot(
            [part.mean_confidence or 0.0 for part in filled],
            [part.accuracy or 0.0 for part in filled],
            marker=marker,
            label=f"{label}, error {error}",
        )
        for part in filled:
            place = (part.mean_confidence or 0.0, part.accuracy or 0.0)
            axes.annotate(
                f"{part.count:,}", place, textcoords="offset points", xytext=(4, 4), fontsize=7
            )
    axes.set(
        xlim=(0, 1.02),
        ylim=(0, 1.02),
        xlabel="mean confidence of the bin",
        ylabel="share of right proposals",
        title="Reliability on the control set (numbers: proposals)",
    )
    axes.legend(loc="upper left", fontsize=8)


def _draw_prices(axes: "Axes", report: "Report") -> None:
    for one in report.prices:
        if one.of != "action":
            continue
        kept = [price for price in one.grid if price.kept]
        (line,) = axes.plot(
            [price.coverage or 0.0 for price in kept],
            [price.precision or 0.0 for price in kept],
            marker=".",
            label=f"{one.name} ({one.after.proposals:,})",
        )
        after = one.after
        if after.kept:
            axes.plot(
                [after.coverage or 0.0],
                [after.precision or 0.0],
                marker="*",
                markersize=13,
                color=line.get_color(),
            )
    axes.set(
        xlim=(0, 1.02),
        ylim=(0, 1.02),
        xlabel="share that goes on without a person",
        ylabel="share of right ones among it",
        title="Thresholds 0.0 to 0.9 per action (star: with the calibration)",
    )
    if report.prices:
        axes.legend(loc="lower left", fontsize=8)
