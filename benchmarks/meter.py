"""What a measured process tells about itself: when it met its first record, and its CPU time since.

A thread writes one line a moment; the CPU time at any later instant is read from between two lines.
"""

import threading
import time
from pathlib import Path
from typing import NamedTuple

_EVERY_SECONDS = 0.05


class Meter:
    """Runs inside the measured process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._met = False

    def first_record(self) -> None:
        """Tell that the first record is being handled; later calls do nothing."""
        if not self._met:
            self._met = True
            self._file.write(f"first {time.time():.6f} {time.process_time():.6f}\n")
            threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            time.sleep(_EVERY_SECONDS)
            self._file.write(f"cpu {time.time():.6f} {time.process_time():.6f}\n")


class Reading(NamedTuple):
    """What the parent reads."""

    began: float
    """Wall clock at the first record, seconds since 1970."""
    samples: list[tuple[float, float]]
    """(wall clock, CPU seconds of the process since its first record)"""

    def cpu_at(self, when: float) -> float:
        """Return the CPU seconds used from the first record until an instant."""
        before = (self.began, 0.0)
        for sample in self.samples:
            if sample[0] >= when:
                share = (when - before[0]) / max(sample[0] - before[0], 1e-9)
                return before[1] + share * (sample[1] - before[1])
            before = sample
        return before[1]


def read(path: Path) -> Reading | None:
    """Read a meter's file; None before the first record."""
    lines = [line.split() for line in path.read_text().splitlines()]
    if not lines or lines[0][0] != "first" or len(lines[0]) < 3:
        return None
    zero = float(lines[0][2])
    samples = [(float(line[1]), float(line[2]) - zero) for line in lines[1:] if len(line) == 3]
    return Reading(float(lines[0][1]), samples)
