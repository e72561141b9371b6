"""A process that must end does, whatever else fails."""

import asyncio
import sys
from pathlib import Path

from turnstream.stream.role import EXIT_FAILED

_SCRIPT = """
import io, resource, sys
from turnstream.stream.role import LaneFailed, end_process
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.stdout = io.TextIOWrapper(open(1, "wb", buffering=65_536))
print("what the log cannot take any more")
end_process(LaneFailed("no lane"))
"""


async def test_a_full_disk_does_not_keep_a_process_alive(tmp_path: Path) -> None:
    """The log on the same disk can be written no more than the state."""
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SCRIPT, stdout=log, stderr=log
        )

    assert EXIT_FAILED == await process.wait()
