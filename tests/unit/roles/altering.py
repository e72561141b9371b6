"""An executor with one tool, for calls that something on the way changes."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from tests.unit.roles.bench import (
    NOW,
    Clock,
    Counted,
    FakeLane,
    action,
    events,
    intake,
    publisher,
    record,
)
from tests.unit.roles.bench import catalog as shop
from tests.unit.tools.shop import tool
from turnstream.catalog import argument_checks
from turnstream.core.definitions import Catalog, Tool
from turnstream.core.events import ToolResult
from turnstream.core.ports import ToolBinding
from turnstream.core.publications import ActionEvent
from turnstream.core.ruleset import Ruleset
from turnstream.roles.execute import ExecuteHandler
from turnstream.roles.journal import Execution
from turnstream.roles.raw_sink import RawSink

NAME = "get_order"
ARGUMENTS: Mapping[str, JsonValue] = {"order_id": "A-1001"}


def order_tool(effect: str = "read", **changes: Any) -> Tool:
    """The tool, one that anybody may call."""
    more = {"threshold": 0.5} if effect == "write" else {}
    return tool(effect=effect, data_scope="public", **more, **changes)


class Desk:
    """An executor with one tool."""

    def __init__(
        self, binding: ToolBinding, definition: Tool, *, raw: RawSink | None = None
    ) -> None:
        catalog: Catalog = shop().model_copy(update={"tools": {NAME: definition}})
        self.counted = Counted(catalog)
        self.lane: FakeLane[Execution] = FakeLane(Clock(0.0))
        self.publisher = publisher("execute")
        self.handler = ExecuteHandler(
            intake=intake(),
            publisher=self.publisher,
            ruleset=Ruleset(
                catalog=catalog,
                decision_version="d",
                presentation_version="p",
                checks=argument_checks(catalog),
            ),
            tools={NAME: binding},
            metrics=self.counted.metrics,
            max_record_bytes=262_144,
            retention_ms=900_000,
            session_seconds=30.0,
            now_ms=lambda: NOW,
            raw=raw,
        )

    async def run(self, event: ActionEvent) -> ToolResult:
        """The final result of an action, the only one there is."""
        result = await self.reconciled(event)
        assert [] == [one for _, _, published in self.lane.committed for one in published]
        return result

    async def reconciled(self, event: ActionEvent) -> ToolResult:
        """The final result of an action, whatever was said of attempts before it."""
        source = record(event, 7, topic="conversation.actions")
        _, admitted = self.handler.admit(source)
        outcome: Any = self.handler.handle(source, admitted, None, self.lane)
        handled = outcome if not hasattr(outcome, "__await__") else await outcome
        (publication,) = handled.publications
        (result,) = events((publication,))
        assert isinstance(result, ToolResult)
        return result

    def altered(self, stage: str) -> float:
        """How many calls were found at a stage."""
        return self.counted.value("tool_arguments_altered_total", tool=NAME, stage=stage)


def asked(arguments: Mapping[str, JsonValue] = ARGUMENTS, **changes: Any) -> ActionEvent:
    """The decision to call."""
    payload: dict[str, Any] = {
        "tool_call_id": "call-1",
        "tool": NAME,
        "arguments_json": json.dumps(arguments),
        "provenance": dict.fromkeys(arguments, "model"),
        "effect": "read",
        "deadline_at": NOW + 60_000,
        **changes,
    }
    return action("call_tool", payload)


def told(result: ToolResult) -> tuple[str, str | None, bool]:
    """Outcome, error code, whether it may be tried again."""
    error = result.error
    return result.outcome, error.code if error else None, error.retryable if error else False
