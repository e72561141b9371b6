"""The texts of approved answers: ``{name}`` stands for a value, and nothing else does."""

import re
import string
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def placeholders(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Read a template.

    Returns:
        The names of its placeholders, and what is wrong with it in words.
    """
    names: set[str] = set()
    faults: list[str] = []
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        return frozenset(), (f"{error}; write {{{{ and }}}} for braces",)
    for _, name, layout, conversion in parts:
        if name is None:
            continue
        if not _NAME.fullmatch(name) or layout or conversion:
            written = (
                name + (f"!{conversion}" if conversion else "") + (f":{layout}" if layout else "")
            )
            faults.append(f"expected a bare name as placeholder, got {{{written}}}")
        else:
            names.add(name)
    return frozenset(names), tuple(faults)
