"""A loaded catalog's tools on one surface, or every reason why not, each with its line."""

from collections.abc import Collection

from pydantic import JsonValue

from turnstream.catalog.load import CatalogError, LoadedCatalog, read_catalog
from turnstream.core.dialects import SurfaceError
from turnstream.core.surfaces import SurfaceName, on_surface


def tools_on_surface(
    loaded: LoadedCatalog,
    *,
    surface: SurfaceName,
    strict: bool = True,
    names: Collection[str] | None = None,
) -> dict[str, dict[str, JsonValue] | str]:
    """Show tools as a surface wants them; to be called when a role starts, not per turn.

    Args:
        loaded: the catalog.
        surface: where its tools are shown.
        strict: OpenAI's strict mode.
        names: the tools that are meant; all when None.

    Returns:
        Name to tool, in the order of the catalog.

    Raises:
        CatalogError: tools that cannot be shown there without loss, one fault each.
    """
    shown: dict[str, dict[str, JsonValue] | str] = {}
    errors: list[SurfaceError] = []
    for name, tool in loaded.catalog.tools.items():
        if names is None or name in names:
            try:
                shown[name] = on_surface(name, tool, surface=surface, strict=strict)
            except SurfaceError as error:
                errors.append(error)
    if errors:
        document, _ = read_catalog(loaded.path)  # again, for the lines
        raise CatalogError([document.fault(_place(error), _message(error)) for error in errors])
    return shown


def _place(error: SurfaceError) -> tuple[str | int, ...]:
    tool = ("tools", error.tool)
    if error.keyword == "name":
        return (*tool, "input_schema", *error.place) if error.place else tool
    return (*tool, "input_schema", *error.place, error.keyword)


def _message(error: SurfaceError) -> str:
    at = f" at {error.pointer}" if error.place else ""
    return f"{error.surface} cannot be told {error.keyword!r}{at}: {error.reason}"
