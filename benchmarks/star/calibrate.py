"""How far the embedded decider's confidence can be believed on STAR: `turnstream calibrate`.

Usage: python -m benchmarks.star.calibrate [--star DIR] [--labelled N] [--work DIR] [--keep DIR]
           [-- OPTIONS]

Takes whole dialogues in the order of the file until N turns are labelled, writes them as the JSON
lines that `turnstream calibrate` reads, with a configuration for the catalog beside this file, and
runs it. Needs no Kafka. What comes after `--` is passed on to the command.

`--keep benchmarks/star` renews the report and the plot that are kept beside this file. They hold
numbers and what our own catalog says; the work folder holds the data set's texts.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import yaml

from benchmarks.star.convert import CHANNEL, moments
from benchmarks.star.dataset import DataMissing, star_folder
from benchmarks.star.settings import CATALOG, ROOT
from turnstream.core.contract import ACTIONS


def lines(folder: Path, *, labelled: int) -> Iterator[str]:
    """Write turns and what the human agent did next, dialogue by dialogue."""
    count = 0
    dialogues = groupby(moments(folder, epoch_ms=0), key=lambda one: one.turn.conversation_id)
    for _, dialogue in dialogues:
        if count >= labelled:
            return
        for moment in dialogue:
            yield moment.turn.model_dump_json()
            yield moment.live.model_dump_json()
            count += moment.live.action in ACTIONS


def run(
    folder: Path, work: Path, *, labelled: int, options: list[str], keep: Path | None = None
) -> int:
    """Run the command as users do; returns its exit status.

    Args:
        folder: of the data set.
        work: for everything that the command reads and writes.
        labelled: labelled turns, about.
        options: the command's, besides.
        keep: for its report and its plot; they are only shown and left in `work` when not given.
    """
    turns, config = work / "star.jsonl", work / "turnstream.yaml"
    turns.write_text("\n".join(lines(folder, labelled=labelled)) + "\n", encoding="utf-8")
    config.write_text(yaml.safe_dump({"catalog": str(CATALOG)}), encoding="utf-8")
    command = [
        *(sys.executable, "-m", "turnstream.cli", "calibrate", str(turns)),
        *("--config", str(config), "--channel", CHANNEL),
        *("--write", str(work / "calibration.json"), "--plot", str(work / "calibration.png")),
        *options,
    ]
    if keep is None:
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    ran = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    print(ran.stdout, end="")
    (keep / "calibration.txt").write_text(ran.stdout, encoding="utf-8")
    shutil.copyfile(work / "calibration.png", keep / "calibration.png")
    return ran.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--star", type=Path, help="folder of the data set")
    parser.add_argument("--labelled", type=int, default=2000, help="labelled turns, about")
    parser.add_argument("--work", type=Path, help="folder for the results; else they are removed")
    parser.add_argument("--keep", type=Path, help="folder for the report and the plot alone")
    parser.add_argument("options", nargs="*", help="options of `turnstream calibrate`, after --")
    given = parser.parse_args()
    try:
        folder = star_folder(given.star)
    except DataMissing as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        status = run(folder, work, labelled=given.labelled, options=given.options, keep=given.keep)
        sys.exit(status)


if __name__ == "__main__":
    main()
