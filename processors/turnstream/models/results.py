"""What the catalog says about results: which tool provides what, and which answer presents it."""

from turnstream.core.definitions import Catalog


def providers(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Tool to the tools whose results can provide one of its arguments."""
    found: dict[str, tuple[str, ...]] = {}
    for name, tool in catalog.tools.items():
        found_by = [
            source.from_result.split(".", 1)[0]
            for source in tool.arguments.values()
            if source.from_result is not None and "tool_result" in source.provenance
        ]
        if found_by:
            found[name] = tuple(dict.fromkeys(found_by))
    return found


def answers_of_results(catalog: Catalog) -> dict[str, str]:
    """Tool to the approved answer that presents its result."""
    found = {name: tool.answer for name, tool in catalog.tools.items() if tool.answer is not None}
    for name, answer in catalog.answers.items():
        if answer.of_tool is not None:
            found.setdefault(answer.of_tool, name)
    return found
