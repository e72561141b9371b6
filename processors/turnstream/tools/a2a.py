"""Agents that are told of handoffs by A2A's `message/send`, as the installed SDK speaks it.

The card says where the agent is, whether it has the skill that the catalog names and whether that
skill takes JSON. It is read before each handoff: these are few, and nobody is told of a changed
card. The message's id is the action's: who is told twice knows it by that.

The agent's reply is not waited for beyond its having taken the message: what it does for the
conversation it says as people do, by control events and live actions. So an agent that asks for
more before it begins has not taken it, since nobody replies to it here.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Final

import httpx
import jsonschema_rs
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
from a2a.types.a2a_pb2 import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError, InternalError
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import JsonValue

from turnstream.config.secrets import SecretRef, SecretUnavailable, is_reference
from turnstream.core.definitions import Catalog
from turnstream.core.ports import HandoffAgent, HandoffNotice, HandoffReceipt
from turnstream.core.servers import RemoteAgent
from turnstream.tools.binding import located
from turnstream.tools.egress import Egress
from turnstream.tools.errors import BindingError
from turnstream.tools.results import RESULT_BYTES

_JSON: Final = "application/json"
_NOT_TAKEN: Final = frozenset(
    {
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_AUTH_REQUIRED,
        TaskState.TASK_STATE_INPUT_REQUIRED,
    }
)

_PASSING: Final = (A2AClientError, InternalError)
"""What may be otherwise at the next attempt: of these the first is the network's as well."""

# The SDK logs cards and errors with what the other side wrote.
logging.getLogger("a2a").setLevel(logging.CRITICAL)


class _Unfit(Exception):
    """The agent is not where the catalog says, or not what it says."""


def bind_agents(
    catalog: Catalog,
    *,
    environment: Mapping[str, str],
    egress_allow: Collection[str] | None = None,
) -> Mapping[str, HandoffAgent]:
    """The agents of a catalog's queues, by queue.

    Args:
        catalog: the catalog.
        environment: the variables that base URLs may refer to.
        egress_allow: hosts that they may be at; exactly the hosts of the catalog's agents when
            None.

    Raises:
        BindingError: a base URL is not set, or a host is not allowed.
    """
    agents = {
        name: located(f"queues.{name}.agent", queue.agent, environment)
        for name, queue in catalog.queues.items()
        if queue.agent is not None
    }
    egress = (
        Egress.of_urls(agent.url for agent in agents.values())
        if egress_allow is None
        else Egress(egress_allow)
    )
    bound: dict[str, HandoffAgent] = {}
    for name, agent in agents.items():
        try:
            bound[name] = A2AAgent(agent, egress=egress)
        except BindingError as error:
            raise BindingError(f"queues.{name}.agent.url: {error}") from error
    return bound


class A2AAgent:
    """Tells one agent of handoffs."""

    def __init__(self, agent: RemoteAgent, *, egress: Egress) -> None:
        """Prepare; nothing is sent.

        Args:
            agent: where it is, the base URL filled in.
            egress: the allowed hosts.

        Raises:
            BindingError: the agent's host is not allowed.
        """
        egress.check(agent.url)
        self._agent = agent
        self._web = httpx.AsyncClient(
            transport=_Guarded(egress, agent.headers),
            follow_redirects=False,
            trust_env=False,
            timeout=agent.timeout_seconds,
        )
        self._takes = (
            jsonschema_rs.Draft202012Validator(
                agent.input_schema, validate_formats=True, offline=True
            )
            if agent.input_schema is not None
            else None
        )

    async def tell(self, notice: HandoffNotice) -> HandoffReceipt:
        """Tell it of one handoff, within its time-out."""
        data = dict(notice.data)
        if self._takes is not None:
            fault = next(self._takes.iter_errors(data), None)
            if fault is not None:
                place = "/".join(str(part) for part in fault.schema_path)
                return _not_taken(f"the handoff breaks the skill's input_schema at {place}")
        seconds = self._agent.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._told(notice, data)
        except TimeoutError:
            return _not_taken(f"no reply within {seconds:g} s", retryable=True)
        except Exception as error:  # noqa: BLE001 - nor is it known what the SDK raises for what
            return _receipt_of(error)

    async def unfit(self) -> str | None:
        """Why the agent cannot take handoffs by its card; None where it can.

        Raises:
            Exception: whatever keeps the card from being read.
        """
        try:
            async with asyncio.timeout(self._agent.timeout_seconds):
                await self._fitting()
        except _Unfit as error:
            return str(error)
        return None

    async def close(self) -> None:
        """Release connections."""
        await self._web.aclose()

    async def _told(self, notice: HandoffNotice, data: Mapping[str, JsonValue]) -> HandoffReceipt:
        client = await self._fitting()
        metadata = Struct()
        metadata.update({"skill": self._agent.skill})
        if notice.traceparent is not None:
            metadata.update({"traceparent": notice.traceparent})
        parts = [
            Part(data=ParseDict(dict(data), Value()), media_type=_JSON),
            Part(text=notice.text, media_type="text/plain"),
        ]
        request = SendMessageRequest(
            message=Message(
                message_id=notice.message_id,
                role=Role.ROLE_USER,
                parts=parts,
                metadata=metadata,
            ),
            configuration=SendMessageConfiguration(
                accepted_output_modes=[_JSON, "text/plain"], return_immediately=True
            ),
        )
        said = await anext(client.send_message(request))
        if said.HasField("task") and said.task.status.state in _NOT_TAKEN:
            state = TaskState.Name(said.task.status.state).removeprefix("TASK_STATE_").lower()
            return _not_taken(f"the agent answered that the task is {state}")
        return HandoffReceipt(taken=True)

    async def _fitting(self) -> Client:
        """A client of the agent as its card describes it now.

        Raises:
            _Unfit: it has no such skill, the skill takes no JSON, or it speaks what we do not.
            AgentCardResolutionError: the card cannot be read.
        """
        card = await A2ACardResolver(self._web, self._agent.url).get_agent_card()
        skill = next((one for one in card.skills if one.id == self._agent.skill), None)
        if skill is None:
            raise _Unfit(f"the agent's card lists no skill {self._agent.skill!r}")
        modes = list(skill.input_modes) or list(card.default_input_modes)
        if _JSON not in modes:
            raise _Unfit(f"skill {self._agent.skill!r} does not take {_JSON}")
        config = ClientConfig(streaming=False, polling=True, httpx_client=self._web)
        try:
            return ClientFactory(config).create(card)
        except ValueError:
            raise _Unfit("the agent's card offers no JSON-RPC, which is what is spoken") from None


class _Guarded(httpx.AsyncBaseTransport):
    """Sends to allowed hosts only, with secrets as they are now, and bounds the replies."""

    def __init__(self, egress: Egress, headers: Mapping[str, str]) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._egress = egress
        self._headers = headers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._egress.check(str(request.url))
        # A compressed reply could be small on the wire and large in memory.
        request.headers["Accept-Encoding"] = "identity"
        for name, value in self._headers.items():
            text = SecretRef(value).resolve() if is_reference(value) else value
            if not text.isascii() or not text.isprintable():
                # The client's own error would repeat the value, which may be a secret.
                raise SecretUnavailable(f"header {name} must be printable ASCII")
            request.headers[name] = text
        response = await self._inner.handle_async_request(request)
        if response.is_redirect:
            await response.aclose()
            raise _Unfit("the agent redirects to another address; give the URL where it is")
        body = bytearray()
        try:
            async for chunk in _bytes(response):
                body += chunk
                if len(body) > RESULT_BYTES:
                    raise httpx.ReadError(f"the reply is longer than {RESULT_BYTES} bytes")
        finally:
            await response.aclose()
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise httpx.ReadError("the reply is compressed")
        kept = {
            name: value
            for name, value in response.headers.items()
            if name.lower() == "content-type"
        }
        return httpx.Response(
            response.status_code, headers=kept, content=bytes(body), request=request
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bytes(response: httpx.Response) -> AsyncIterator[bytes]:
    stream = response.stream
    if isinstance(stream, httpx.AsyncByteStream):
        async for chunk in stream:
            yield chunk


def _receipt_of(error: Exception) -> HandoffReceipt:
    """What an error says of a message, in our words."""
    kind = type(error).__name__
    match error:
        case SecretUnavailable() | _Unfit():
            return _not_taken(str(error))
        case BindingError():
            return _not_taken("the card leads to a host that is not allowed")
        case A2AClientTimeoutError():
            return _not_taken("the agent was silent for too long", retryable=True)
        case AgentCardResolutionError():
            return _not_taken("the agent's card cannot be read", retryable=True)
        case A2AError() if not isinstance(error, _PASSING):
            return _not_taken(f"the agent refused the message ({kind})")
    return _not_taken(f"the agent could not be told ({kind})", retryable=True)


def _not_taken(fault: str, *, retryable: bool = False) -> HandoffReceipt:
    return HandoffReceipt(taken=False, fault=fault, retryable=retryable)
