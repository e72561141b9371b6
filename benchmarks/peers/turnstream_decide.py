"""The decide role, as `turnstream run decide` starts it."""

from typing import Any

from benchmarks.meter import Meter
from benchmarks.peers.options import read
from turnstream.roles.decide import DecideHandler
from turnstream.roles.run import run


def watch(meter: Meter) -> None:
    """Let the meter start at the first record that the role handles."""
    original = DecideHandler.admit

    def first(self: DecideHandler, record: Any) -> Any:
        meter.first_record()
        DecideHandler.admit = original  # type: ignore[method-assign]
        return original(self, record)

    DecideHandler.admit = first  # type: ignore[method-assign]


def main() -> None:
    options = read()
    watch(options.meter)
    run("decide", options.settings)


if __name__ == "__main__":
    main()
