"""The warehouse behind an MCP server."""

import json
from typing import Any

import anyio.to_thread
from mcp.server import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from tests.contract.warehouse import HOUSE, SECRET, Asked

SUBJECT = "turnstream/subject"
INPUT: dict[str, Any] = {
    "type": "object",
    "title": "get_orderArguments",
    "required": ["order_id"],
    "properties": {"order_id": {"type": "string", "title": "Order Id"}},
}
BECAME_OF: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "idempotency_key": {"type": "string"}},
}


def warehouse_server() -> Server[Any]:
    """The server."""

    async def listed(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(name="get_order", input_schema=INPUT),
                Tool(name="became_of", input_schema=BECAME_OF),
            ]
        )

    async def called(_: Any, asked: CallToolRequestParams) -> CallToolResult:
        arguments = asked.arguments or {}
        order_id = str(arguments["order_id"])
        meta: dict[str, Any] = dict(asked.meta or {})
        if asked.name == "became_of":
            HOUSE.questions.append(str(arguments["idempotency_key"]))
        else:
            key = meta["turnstream/idempotency_key"]
            HOUSE.calls.append(Asked(order_id, key, meta.get(SUBJECT)))
        match order_id:
            case "silent":
                await anyio.to_thread.run_sync(HOUSE.open.wait, 30, abandon_on_cancel=True)
            case "bug":
                return _failed(SECRET)
            case "never":
                return _refusal("not_found")
            case "missing":
                return _refusal("order_not_found")
            case "odd":
                return _refusal(SECRET)
        result = HOUSE.result(order_id)
        return CallToolResult(
            content=[TextContent(text=json.dumps(result))], structured_content=result
        )

    return Server("warehouse", on_list_tools=listed, on_call_tool=called)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _refusal(code: str) -> CallToolResult:
    return _failed(json.dumps({"error": {"code": code, "message": SECRET}}))
