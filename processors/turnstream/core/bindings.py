"""How a tool is reached: over HTTP, as a function of the deployment, or on an MCP server.

The binding is data; :mod:`turnstream.tools` makes the calls.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Discriminator, Field, Tag

from turnstream.core.base_urls import leading_variable, with_variable
from turnstream.core.definition import Definition


class HttpReconcile(Definition):
    """How a service is asked whether a call with a key has had its effect.

    It must tell the two apart by itself: a 2xx reply that holds the result means that the call was
    carried out; a 404 reply ``{"error": {"code": ...}}`` with the code below, that it was not and
    will not be. Anything else, a bare 404 included, leaves it unknown.
    """

    method: Literal["GET", "POST"] = "GET"
    """A POST sends ``{"idempotency_key": ...}``."""
    url: str
    """As a binding's; ``{idempotency_key}`` may stand where an argument may, for a GET it must."""
    result_path: str | None = None
    """Dotted path of the result object inside the reply; the whole reply by default."""
    not_found_code: str = Field(default="not_found", min_length=1)
    """The code of the 404 reply that means: not carried out."""


class HttpBinding(Definition):
    """A tool that is called over HTTP."""

    kind: Literal["http"] = "http"
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    """GET and DELETE send the arguments as the query, the others as a JSON body."""
    url: str
    """Absolute URL, or ``{VARIABLE}`` and a path.

    A leading name in capitals (``{SHOP_URL}/orders/{order_id}``) is a variable of the process's
    environment that holds the base URL; see :meth:`with_variables`. Every other name is an argument
    and is replaced by its percent-quoted value at each call. Neither a variable nor an argument may
    stand anywhere else in the host.
    """
    headers: dict[str, str] = {}
    """Header name to value or secret reference (``env:NAME``, ``file:PATH``)."""
    subject_header: str | None = None
    """Header that carries the authenticated customer's id."""
    result_path: str | None = None
    """Dotted path of the result object inside the reply; the whole reply by default."""
    used_path: str | None = Field(default=None, min_length=1)
    """Dotted path of an object inside a 2xx reply: the arguments as the service used them.

    They must be those of the call, all of them. Its `idempotency_key` may be added and, at any
    depth, null or the input schema's default for what was not sent. Where they are others, the call
    ends as `arguments_altered`."""
    reconcile: HttpReconcile | None = None
    """Asked, with the same headers, when nobody knows whether a write was carried out."""

    @property
    def variable(self) -> str | None:
        """The environment variable that holds the base URL, if there is one."""
        return leading_variable(self.url)

    def with_variables(self, environment: Mapping[str, str]) -> Self:
        """The same binding with its base URLs filled in.

        Raises:
            DefinitionError: a variable is not set, or does not hold an http(s) URL.
        """
        update: dict[str, object] = {"url": with_variable(self.url, environment)}
        if self.reconcile is not None:
            url = with_variable(self.reconcile.url, environment)
            update["reconcile"] = self.reconcile.model_copy(update={"url": url})
        return self.model_copy(update=update)


_FUNCTION: Final = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"

_META_KEY: Final = r"^(?:[A-Za-z0-9.-]{1,100}/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$"
"""What MCP allows as a key of ``_meta``: a prefix of labels, and a name."""


class FunctionBinding(Definition):
    """A tool that is a Python function of the deployment."""

    kind: Literal["function"] = "function"
    target: str = Field(pattern=_FUNCTION)
    """``package.module:callable``; called with arguments, `idempotency_key` and `subject_id`."""
    reconcile: str | None = Field(default=None, pattern=_FUNCTION)
    """Another one, called with `idempotency_key` and what else it takes of these, when nobody knows
    whether a write was carried out. It returns the result of the call with that key, raises
    ``turnstream.tools.NotExecuted`` when there was none and will be none, anything else when it
    does not know."""


class McpReconcile(Definition):
    """How an MCP server is asked whether a call with a key has had its effect.

    Another tool of the same server is called with `idempotency_key` and those of the call's
    arguments that it takes. A result means that the call was carried out; an error
    ``{"error": {"code": ...}}`` with the code below, that it was not and will not be. Anything else
    leaves it unknown.
    """

    tool: str = Field(min_length=1, max_length=128)
    """The server's name of that tool."""
    not_found_code: str = Field(default="not_found", min_length=1)
    """The code that means: not carried out."""


class McpBinding(Definition):
    """A tool of an MCP server, called with ``tools/call``.

    The idempotency key and the ``traceparent`` of the turn travel in the request's ``_meta``. The
    structured content of the reply is the result; without any, a text that is a JSON object. An
    error of the tool itself says its code as ``{"error": {"code": ...}}``, in either. No call is
    made while the server lists another input schema than the catalog's.
    """

    kind: Literal["mcp"] = "mcp"
    server: str
    """One of `servers`."""
    tool: str | None = Field(default=None, min_length=1, max_length=128)
    """The server's name of the tool; the tool's own name by default."""
    subject_meta: str | None = Field(default=None, pattern=_META_KEY)
    """Key of ``_meta`` that carries the authenticated customer's id."""
    reconcile: McpReconcile | None = None
    """Asked when nobody knows whether a write was carried out."""


def _binding_kind(value: object) -> object:
    """A binding is one to HTTP unless it says otherwise."""
    if isinstance(value, Mapping):
        return value.get("kind", "http")
    return getattr(value, "kind", None)


Binding = Annotated[
    Annotated[HttpBinding, Tag("http")]
    | Annotated[FunctionBinding, Tag("function")]
    | Annotated[McpBinding, Tag("mcp")],
    Discriminator(
        _binding_kind,
        custom_error_type="binding_kind",
        custom_error_message=(
            "`kind` of a binding is http, function or mcp; an agent is never called as a tool, it "
            "is told of handoffs (`agent` of a queue)"
        ),
    ),
]
