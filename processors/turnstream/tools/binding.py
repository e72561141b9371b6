"""From the catalog's tools to bindings that can be called."""

from collections.abc import Collection, Mapping

from turnstream.core.definitions import Catalog, FunctionBinding, HttpBinding
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import ToolBinding
from turnstream.tools.egress import Egress
from turnstream.tools.errors import BindingError
from turnstream.tools.function import FunctionTool
from turnstream.tools.http import HttpTool, http_client


def bind_tools(
    catalog: Catalog,
    *,
    environment: Mapping[str, str],
    egress_allow: Collection[str] | None = None,
) -> Mapping[str, ToolBinding]:
    """Bind every tool of a catalog.

    Args:
        catalog: the catalog.
        environment: the variables that base URLs may refer to.
        egress_allow: hosts that tools may reach (see :class:`Egress`); exactly the hosts of the
            catalog's bindings when None.

    Raises:
        BindingError: a base URL is not set, a host is not allowed, a function cannot be imported.
    """
    web: dict[str, HttpBinding] = {}
    for name, tool in catalog.tools.items():
        if isinstance(tool.binding, HttpBinding):
            try:
                web[name] = tool.binding.with_variables(environment)
            except DefinitionError as error:
                raise BindingError(f"tools.{name}.binding: {error}") from error
    egress = (
        Egress.of_urls(url for binding in web.values() for url in _urls(binding))
        if egress_allow is None
        else Egress(egress_allow)
    )
    client = http_client()
    bindings: dict[str, ToolBinding] = {}
    for name, tool in catalog.tools.items():
        if isinstance(tool.binding, FunctionBinding):
            bindings[name] = FunctionTool(name, tool=tool, binding=tool.binding)
            continue
        try:
            bindings[name] = HttpTool(
                name, tool=tool, binding=web[name], client=client, egress=egress
            )
        except BindingError as error:
            raise BindingError(f"tools.{name}.binding.url: {error}") from error
    return bindings


def _urls(binding: HttpBinding) -> list[str]:
    return [binding.url] + ([binding.reconcile.url] if binding.reconcile is not None else [])
