"""How far a decider's probabilities can be believed, and what follows for its thresholds.

Labelled conversations are divided into a tuning set and a control set (`sets`). What the decider
proposes at each labelled turn is a sample (`samples`). On the tuning set a temperature
(`temperature`) and thresholds (`thresholds`) are fitted; the control set alone is reported on
(`findings`). The result (`result`) is a file that names the versions it was made for, and a decider
that follows it (`calibrated`). Everything here is mathematics: no file, no clock, no network.
"""

from turnstream.calibration.calibrated import Calibrated
from turnstream.calibration.costs import Costs
from turnstream.calibration.findings import NearTie, Report, Stage
from turnstream.calibration.fitting import Division, calibrate
from turnstream.calibration.result import (
    Calibration,
    CalibrationRefused,
    MadeFor,
    read_calibration,
)
from turnstream.calibration.samples import Sample
from turnstream.calibration.sets import (
    Labelled,
    LabelledConversation,
    SetsOverlap,
    check_disjoint,
    labelled,
    repeated_texts,
    split,
)
from turnstream.calibration.thresholds import Aim, LeastCost, Price, TargetPrecision

__all__ = [
    "Aim",
    "Calibrated",
    "Calibration",
    "CalibrationRefused",
    "Costs",
    "Division",
    "Labelled",
    "LabelledConversation",
    "LeastCost",
    "MadeFor",
    "NearTie",
    "Price",
    "Report",
    "Sample",
    "SetsOverlap",
    "Stage",
    "TargetPrecision",
    "calibrate",
    "check_disjoint",
    "labelled",
    "read_calibration",
    "repeated_texts",
    "split",
]
