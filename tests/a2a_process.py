"""An A2A agent of the official SDK: ``python -m tests.a2a_process FOLDER PORT``.

It writes the handoffs that it is told into ``FOLDER/told``, message id and conversation. A file
``FOLDER/hang`` makes it hang after that. ``FOLDER/task`` holds the state of a task that it answers
with, ``FOLDER/skill`` and ``FOLDER/modes`` what its card says instead, ``FOLDER/moved`` where it
sends whoever tells it something.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

SKILL = "take_over"


class Listener(AgentExecutor):
    """Writes down what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Take a message."""
        message = context.message
        assert message is not None
        parts: list[dict[str, Any]] = [MessageToDict(part) for part in message.parts]
        data = parts[0]["data"]
        meta = MessageToDict(message.metadata)
        with (self.folder / "told").open("a") as lines:
            said = {"id": message.message_id, "meta": meta, "text": parts[1]["text"], **data}
            lines.write(json.dumps(said) + "\n")
        while (self.folder / "hang").exists():  # noqa: ASYNC110 - a file has no event
            await anyio.sleep(0.02)
        if (self.folder / "task").exists():
            task = new_task_from_user_message(message)
            state = f"TASK_STATE_{(self.folder / 'task').read_text()}"
            task.status.state = TaskState.Value(state)
            await event_queue.enqueue_event(task)
            return
        await event_queue.enqueue_event(new_text_message("taken", context_id=context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: there is nothing to cancel."""


def card(
    url: str,
    *,
    skill: str = SKILL,
    modes: tuple[str, ...] = ("application/json",),
    binding: str = "JSONRPC",
) -> AgentCard:
    """Its card."""
    return AgentCard(
        name="complaints",
        description="Takes complaints over.",
        version="1",
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        ],
        skills=[
            AgentSkill(
                id=skill,
                name="Take over",
                description="Takes a conversation over.",
                tags=["handoff"],
                input_modes=list(modes),
            )
        ],
    )


def agent_app(folder: Path, described: AgentCard) -> Starlette:
    """The agent as an application."""
    handler = DefaultRequestHandler(
        agent_executor=Listener(folder), task_store=InMemoryTaskStore(), agent_card=described
    )

    async def as_it_is(shown: AgentCard) -> AgentCard:
        changed = AgentCard()
        changed.CopyFrom(shown)
        for name, field in (("skill", "id"), ("modes", "input_modes")):
            if (folder / name).exists():
                said = (folder / name).read_text()
                ParseDict({field: said if name == "skill" else [said]}, changed.skills[0])
        return changed

    async def moved(request: Request, reply: RequestResponseEndpoint) -> Response:
        if request.method == "POST" and (folder / "moved").exists():
            return RedirectResponse((folder / "moved").read_text(), status_code=307)
        return await reply(request)

    routes = [
        *create_agent_card_routes(described, card_modifier=as_it_is),
        *create_jsonrpc_routes(handler, "/"),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=moved)])


def main() -> None:
    """Serve until told to stop."""
    folder, port = sys.argv[1:]
    app = agent_app(Path(folder), card(f"http://127.0.0.1:{port}/"))
    uvicorn.run(app, port=int(port), log_level="critical", timeout_graceful_shutdown=0)


if __name__ == "__main__":
    main()
