"""Who else takes part: MCP servers that hold tools, and agents that conversations are handed to."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue

from turnstream.core.base_urls import leading_variable, with_variable
from turnstream.core.definition import Definition


class _Located(Definition):
    """Something with a URL whose base may be a variable of the environment."""

    url: str

    @property
    def variable(self) -> str | None:
        """The environment variable that holds the base URL, if there is one."""
        return leading_variable(self.url)

    def with_variables(self, environment: Mapping[str, str]) -> Self:
        """The same with its base URL filled in.

        Raises:
            DefinitionError: the variable is not set, or does not hold an http(s) URL.
        """
        return self.model_copy(update={"url": with_variable(self.url, environment)})


class McpHttpServer(_Located):
    """An MCP server over streamable HTTP, with sessions or without."""

    transport: Literal["streamable_http"]
    url: str
    """Its endpoint: an absolute URL, or ``{VARIABLE}`` and a path, as a binding's without
    arguments."""
    headers: dict[str, str] = {}
    """Header name to value or secret reference (``env:NAME``, ``file:PATH``), read at each
    request."""
    list_seconds: float = Field(default=60.0, gt=0, le=3600)
    """How long its list of tools is believed, for reads. It is read again sooner when the server
    says that it has changed, or that it knows no such tool; and before each write, unless the
    server is one that says when it changes."""


class McpStdioServer(Definition):
    """An MCP server that `execute` starts as a process of its own and speaks to over its pipes."""

    transport: Literal["stdio"]
    command: str = Field(min_length=1)
    """The program, by path or as found on the ``PATH``."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variable to value or secret reference, read at each start. Of our own environment it gets
    ``HOME LOGNAME PATH SHELL TERM USER`` and nothing else."""
    list_seconds: float = Field(default=60.0, gt=0, le=3600)
    """As for a server over HTTP."""


McpServer = Annotated[McpHttpServer | McpStdioServer, Field(discriminator="transport")]


class RemoteAgent(_Located):
    """An agent that is told of handoffs by A2A's ``message/send``; it is never called as a tool.

    The action's id is the message's.
    """

    url: str
    """Where it is; its card is at ``/.well-known/agent-card.json`` below. As a server's."""
    skill: str = Field(min_length=1, max_length=200)
    """Id of the skill that takes handoffs. The card must list it, and it must take JSON
    (``application/json``)."""
    input_schema: dict[str, JsonValue] | None = None
    """JSON Schema 2020-12 of the data that the skill takes: the handoff of
    ``conversation.actions`` with `action_id`, `conversation_id`, `channel_id`, `tenant_id`. A
    handoff that breaks it is not sent."""
    headers: dict[str, str] = {}
    """As a server's."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=300)
    attempts: int = Field(default=3, ge=1, le=10)
    """Times that it is tried; the message's id tells the agent that it is the same handoff."""
