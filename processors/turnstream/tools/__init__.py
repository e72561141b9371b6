"""Tool bindings, one file per protocol."""

from turnstream.tools.binding import bind_tools
from turnstream.tools.egress import Egress
from turnstream.tools.errors import BindingError, NotExecuted, ToolFailure
from turnstream.tools.function import FunctionTool
from turnstream.tools.http import HttpTool

__all__ = [
    "BindingError",
    "Egress",
    "FunctionTool",
    "HttpTool",
    "NotExecuted",
    "ToolFailure",
    "bind_tools",
]
