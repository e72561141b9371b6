"""The decide role, as `turnstream run decide` starts it."""

from typing import Any

from benchmarks.peers.options import read
from turnstream.roles.decide import DecideHandler
from turnstream.roles.run import run


def main() -> None:
    options = read()
    original = DecideHandler.admit

    def first(self: DecideHandler, record: Any) -> Any:
        options.meter.first_record()
        DecideHandler.admit = original  # type: ignore[method-assign]
        return original(self, record)

    DecideHandler.admit = first  # type: ignore[method-assign]
    run("decide", options.settings)


if __name__ == "__main__":
    main()
