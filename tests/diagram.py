"""Writes the state diagram into processors/ARCHITECTURE.md: ``python -m tests.diagram``."""

import re
from pathlib import Path
from typing import Final

from turnstream.core.conversation import diagram

PAGE: Final = Path(__file__).parents[1] / "processors" / "ARCHITECTURE.md"
_DRAWN: Final = re.compile(
    r"(<!-- state diagram: generated -->\n```mermaid\n)(.*?)(\n```\n<!-- end of state diagram -->)",
    re.DOTALL,
)


def shown() -> str:
    """The diagram as the page has it."""
    found = _DRAWN.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"{PAGE.name} has lost the markers around its state diagram"
    return found.group(2)


def main() -> None:
    """Replace the page's diagram by the one that the transition table gives."""
    page = PAGE.read_text(encoding="utf-8")
    page = _DRAWN.sub(lambda found: found.group(1) + diagram() + found.group(3), page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
