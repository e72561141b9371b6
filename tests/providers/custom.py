"""An HTTP API of one's own, in the form that `turnstream.models.custom_http` documents."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from tests.providers.schemas import SCHEMA_RULE, answered, object_text, tool_names
from tests.providers.script import ABSENT, AUTO, Failure, Heard, Reply, Said
from tests.providers.server import ProviderServer, as_events, as_json, require, wrong

PATH: Final = "/reply"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _User(_Part):
    role: Literal["user"]
    content: str


class _Call(_Part):
    id: str = Field(min_length=1)
    name: str
    arguments: dict[str, JsonValue] | str


class _Assistant(_Part):
    role: Literal["assistant"]
    content: str
    state: JsonValue = None
    tool_calls: list[_Call] = []


class _Result(_Part):
    role: Literal["tool"]
    tool_call_id: str
    name: str
    content: dict[str, JsonValue]


class _Tool(_Part):
    name: str
    description: str
    input_schema: dict[str, JsonValue]


_Message = Annotated[_User | _Assistant | _Result, Field(discriminator="role")]


class _Request(_Part):
    model: str
    system: str
    max_tokens: int
    settings: dict[str, JsonValue]
    messages: list[_Message] = Field(min_length=1)
    stream: Literal[True] | None = None
    tools: list[_Tool] | None = Field(default=None, min_length=1)


class CustomServer(ProviderServer):
    """It keeps what its model thought in `state`, and wants it back."""

    def __init__(self, *steps: Any, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.given: dict[str, JsonValue] = {}
        """Id of a call to the state of its reply."""

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        require((heard.method, heard.path) == ("POST", PATH), "the path", heard.path)
        said = heard.headers.get("authorization")
        require(said == f"Bearer {self.key}", "the key", f"authorization: {said}")
        require(isinstance(heard.json, dict), "the body is a JSON object", heard.body[:200])
        try:
            request = _Request.model_validate_json(heard.body)
        except ValidationError as error:
            wrong(SCHEMA_RULE, error)
        tool_names([one.name for one in request.tools or ()])
        seen: list[str] = []
        asked: list[str] = []
        given: list[str] = []
        for at, message in enumerate(request.messages):
            if isinstance(message, _Result):
                given.append(message.tool_call_id)
                require("ok" in message.content, "results are envelopes", message.content)
                continue
            answered(asked, given, f"before message {at}")
            asked, given = [], []
            if not isinstance(message, _Assistant):
                continue
            for one in message.tool_calls:
                if isinstance(one.arguments, str):
                    object_text(one.arguments, one.id)
                state = self.given.get(one.id, message.state)
                require(state == message.state, "reasoning comes back unchanged", message.state)
                asked.append(one.id)
            seen += asked
        answered(asked, given, "at the end")
        require(len(set(seen)) == len(seen), "ids of calls are unique", seen)
        last = request.messages[-1].role
        require(last != "assistant", "the last word is not the model's", last)

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error: a code, and words for people."""
        code = "tools_not_supported" if param == "tools" and message == self.no_tools else kind
        return as_json({"error": {"code": code, "message": message}}, status)

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A reply."""
        calls: list[dict[str, Any]] = []
        state = None if said.reasoning is None else {"sealed": said.reasoning.encode().hex()}
        for one in said.calls:
            call: dict[str, Any] = {"name": one.name}
            call_id = f"c{next(self.ids)}" if one.call_id is AUTO else one.call_id
            if call_id is not ABSENT:
                call["id"] = call_id
            if one.arguments is not ABSENT:
                call["arguments"] = one.arguments
            if state is not None and isinstance(call_id, str):
                self.given[call_id] = dict(state)
            calls.append(call)
        words = {"filter": "refused", "refusal": "refused", "length": "length"}
        words["calls"] = "tool_calls"
        read, written = said.tokens
        body = {
            "text": said.text,
            "tool_calls": calls,
            "finish": words.get(said.finish, "tool_calls" if calls else "stop"),
            "model": "mine-2",
            "usage": {"input_tokens": read, "output_tokens": written},
            "state": state,
        }
        return as_events(*_events(body, said)) if self.streams(heard) else as_json(body)

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No end, or an error in its place."""
        whole = self.saying(failure.said, heard).body
        pieces = b"".join(one + b"\n\n" for one in whole.split(b"\n\n")[:-2])
        ending = as_events({"error": {"code": "overloaded"}}).body
        body = pieces if failure.kind == "stream_ends" else pieces + ending
        return Reply(body, headers={"content-type": "text/event-stream"}, streamed=True)


def _events(body: dict[str, Any], said: Said) -> list[dict[str, Any]]:
    """The same in pieces: text, calls, end."""
    events: list[dict[str, Any]] = []
    if body["text"] is not None:
        half = len(body["text"]) // 2
        events += [{"text": body["text"][:half]}, {"text": body["text"][half:]}]
    for at, (call, one) in enumerate(zip(body["tool_calls"], said.calls, strict=True)):
        head = {"index": at, **{key: call[key] for key in ("id", "name") if key in call}}
        events.append({"tool_call": head})
        events += [{"tool_call": {"index": at, "arguments": part}} for part in one.parts()]
    end = {key: body[key] for key in ("finish", "model", "usage", "state")}
    return [*events, end]
