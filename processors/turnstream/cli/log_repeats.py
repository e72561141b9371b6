"""One log line instead of a flood: libraries repeat a notice at every retry, ten times a second."""

import logging
import time
from collections.abc import Callable
from typing import Final

from turnstream.roles.log_suppression import LogSuppression

_WINDOW_SECONDS: Final = 30.0
"""Long enough for an outage to be a few lines, short enough to show that it goes on."""

_LIBRARIES: Final = ("aiokafka", "faust", "mode", "kafka")


class Repeats(logging.Filter):
    """Lets a library's warning pass once per window; the next one says how many were left out.

    Warnings are told apart by logger, level, text before its values are put in, and kind of error:
    another partition or offset makes no other warning. What comes with a traceback, what is no
    warning, and all lines of our own always pass.
    """

    def __init__(
        self,
        *,
        window_seconds: float = _WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember nothing yet.

        Args:
            window_seconds: How long a notice is left out after it has been let through.
            clock: Seconds that never go back.
        """
        super().__init__()
        self._lines: LogSuppression[tuple[str, int, str]] = LogSuppression(
            window_seconds=window_seconds, clock=clock
        )

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        library = record.name.partition(".")[0] in _LIBRARIES
        if not library or record.exc_info or record.levelno not in (logging.WARNING, logging.ERROR):
            return True
        try:
            return self._is_due(record)
        except Exception:  # noqa: BLE001 - values that do not fit the text are the library's fault
            return True  # the handler says so, and the library goes on

    def _is_due(self, record: logging.LogRecord) -> bool:
        left_out = self._lines.due((record.name, record.levelno, _text(record)))
        if left_out is None:
            return False
        if left_out:
            record.msg = f"{record.getMessage()} [and {left_out} more like it before]"
            record.args = ()
        return True


def _text(record: logging.LogRecord) -> str:
    """What makes a line the same as another."""
    template = str(record.msg)
    if not template.strip("%rs "):  # nothing but a value: the value is the text
        return record.getMessage()
    values = record.args if isinstance(record.args, tuple) else ()
    errors = [
        (value if isinstance(value, type) else type(value)).__name__
        for value in values
        if isinstance(value, BaseException | type)
    ]
    return " ".join((template, *errors))
