"""Calibration files, as the roles use them."""

from pathlib import Path

from turnstream.calibration import Calibrated, CalibrationRefused, read_calibration
from turnstream.core.ports import Decider


def with_calibration(decider: Decider, path: Path, *, decision_version: str) -> Decider:
    """A decider that follows a calibration.

    Args:
        decider: the one at hand.
        path: the file.
        decision_version: of the catalog at hand.

    Raises:
        CalibrationRefused: the file cannot be read, or was made for another decider or catalog.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CalibrationRefused(f"{path}: {error.strerror or error}") from error
    calibration = read_calibration(content, where=str(path))
    calibration.check(decider=decider.name, decision_version=decision_version, where=str(path))
    return Calibrated(decider, calibration)
