"""What the catalog says about results: which tool provides what, and which answer presents it."""

from turnstream.core.definitions import Catalog


def providers(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Tool to the look-ups whose results can provide one of its arguments.

    A write is not among them: who asks to see something has not asked for anything to be done.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, tool in catalog.tools.items():
        sources = [
            source.from_result.split(".", 1)[0]
            for source in tool.arguments.values()
            if source.from_result is not None and "tool_result" in source.provenance
        ]
        found_by = [one for one in sources if _is_read(one, catalog)]
        if found_by:
            found[name] = tuple(dict.fromkeys(found_by))
    return found


def _is_read(tool: str, catalog: Catalog) -> bool:
    return tool in catalog.tools and catalog.tools[tool].effect == "read"


def answers_of_results(catalog: Catalog) -> dict[str, str]:
    """Tool to the approved answer that presents its result."""
    found = {name: tool.answer for name, tool in catalog.tools.items() if tool.answer is not None}
    for name, answer in catalog.answers.items():
        if answer.of_tool is not None:
            found.setdefault(answer.of_tool, name)
    return found
