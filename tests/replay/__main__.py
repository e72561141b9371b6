"""Shows what has changed in the recorded conversations: ``python -m tests.replay [--write]``."""

import sys

from tests.replay.recordings import NAMES, difference, read, replayed, write


def main(arguments: list[str]) -> int:
    """Print the differences; with `--write`, keep the recordings as they come out now."""
    changed = False
    for name in NAMES:
        recorded = read(name)
        now = replayed(recorded)
        text = difference(name, recorded, now)
        changed = changed or bool(text)
        print(text, end="")
        if "--write" in arguments:
            write(name, now)
    return int(changed and "--write" not in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
