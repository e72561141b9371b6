"""Bedrock's Converse, and ConverseStream with its binary events.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

import base64
import json
import re
import struct
import zlib
from typing import Any, Final

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator

from tests.providers.schemas import SCHEMA_RULE, answered, tool_names
from tests.providers.script import ABSENT, AUTO, Failure, Heard, Reply, Said, with_raw
from tests.providers.server import ProviderServer, as_json, require, wrong

_SERVICE: Final = botocore.session.get_session().get_service_model("bedrock-runtime")

_PATH: Final = re.compile(r"/model/(?P<model>[^/]+)/(?P<how>converse|converse-stream)")

_SIGNED: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/[a-z0-9-]+/bedrock/.*")

_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")

_EXCEPTIONS: Final = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
}


class BedrockServer(ProviderServer):
    """bedrock-runtime in one region."""

    no_tools = "This model doesn't support tool use."

    def __init__(self, *steps: Any, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.given: dict[str, list[dict[str, Any]]] = {}
        """Id of a call to the reasoning of its reply."""

    def streams(self, heard: Heard) -> bool:
        """Whether a request asks for a stream: the path says so."""
        return heard.path.endswith("/converse-stream")

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        path = _PATH.fullmatch(heard.path)
        require(heard.method == "POST" and path is not None, "the path", heard.path)
        assert path is not None
        said = heard.headers.get("authorization", "")
        require(_SIGNED.match(said) or said == f"Bearer {self.key}", "the key", said[:60])
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        operation = "ConverseStream" if self.streams(heard) else "Converse"
        shape = _SERVICE.operation_model(operation).input_shape
        assert shape is not None
        read = {"modelId": path["model"], **_read(body, shape)}
        report = ParamValidator().validate(read, shape).generate_report()
        if report:
            wrong(SCHEMA_RULE, report)
        _check_words(read, shape, "")
        tools = (body.get("toolConfig") or {}).get("tools") or []
        tool_names([one["toolSpec"]["name"] for one in tools if "toolSpec" in one])
        for one in tools:
            top = one.get("toolSpec", {}).get("inputSchema", {}).get("json", {"type": "object"})
            require(top.get("type") == "object", "schemas are objects at the top", top)
        self._check_messages(body["messages"], has_tools=bool(tools))

    def _check_messages(self, messages: list[dict[str, Any]], *, has_tools: bool) -> None:
        require(messages, "a conversation has messages", messages)
        require(messages[0]["role"] == "user", "the first word is the user's", messages[0])
        ids: list[str] = []
        asked: list[str] = []
        for at, message in enumerate(messages):
            role = "assistant" if at % 2 else "user"
            require(message["role"] == role, "roles alternate", f"message {at}")
            blocks = message["content"]
            require(blocks, "content is not empty", message)
            for block in blocks:
                require(block.get("text", "x").strip(), "content is not empty", message)
                calls = "toolUse" in block or "toolResult" in block
                require(has_tools or not calls, "calls only where there are tools", block)
            results = [one["toolResult"] for one in blocks if "toolResult" in one]
            answered(asked, [one["toolUseId"] for one in results], f"message {at}")
            require(not results or role == "user", "results come from the user", message)
            uses = [one["toolUse"] for one in blocks if "toolUse" in one]
            require(not uses or role == "assistant", "calls come from the model", message)
            for one in uses:
                require(isinstance(one["input"], dict), "arguments are objects", one)
                require(_ID.fullmatch(one["toolUseId"]), "characters of ids", one["toolUseId"])
                given = self.given.get(one["toolUseId"], [])
                start = blocks[: len(given)]
                require(start == given, "reasoning comes back unchanged", f"{given}, not {start}")
            asked = [one["toolUseId"] for one in uses]
            ids += asked
        require(len(set(ids)) == len(ids), "ids of calls are unique", ids)
        answered(asked, [], "at the end")
        require(messages[-1]["role"] == "user", "the last word is not the model's", messages[-1])

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An exception of Bedrock's; its name is in a header."""
        name = _EXCEPTIONS.get(status, "InternalServerException")
        kind_header = {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/"}
        reply = as_json({"message": message}, status)
        reply.headers.update(kind_header)
        return reply

    def blocks(self, said: Said) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The content of a reply, and the inputs of its calls."""
        blocks: list[dict[str, Any]] = []
        raw: dict[str, str] = {}
        if said.reasoning is not None:
            blocks += reasoning_blocks(said.reasoning)
        if said.text is not None:
            blocks.append({"text": said.text})
        for at, one in enumerate(said.calls):
            call_id = f"tooluse_{next(self.ids):022d}" if one.call_id is AUTO else one.call_id
            use: dict[str, Any] = {"name": one.name}
            if call_id is not ABSENT:
                use["toolUseId"] = call_id
            if one.arguments is not ABSENT:
                use["input"] = f"@input {at}@"
                raw[use["input"]] = one.embedded()
            blocks.append({"toolUse": use})
            if said.reasoning is not None and isinstance(call_id, str):
                self.given[call_id] = reasoning_blocks(said.reasoning)
        return blocks, raw

    def saying(self, said: Said, heard: Heard) -> Reply:
        """A message, or its frames."""
        blocks, raw = self.blocks(said)
        read, written = said.tokens
        usage = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
        body = {
            "output": {"message": {"role": "assistant", "content": blocks}},
            "stopReason": finish(said),
            "usage": usage,
            "metrics": {"latencyMs": 5},
        }
        if not self.streams(heard):
            return as_json(with_raw(body, raw), x_amzn_requestid=f"req-{len(self.heard)}")
        frames = [*self._frames(said, blocks)]
        frames.append(frame("messageStop", {"stopReason": finish(said)}))
        frames.append(frame("metadata", {"usage": usage, "metrics": {"latencyMs": 5}}))
        return _stream(frames)

    def _frames(self, said: Said, blocks: list[dict[str, Any]]) -> list[bytes]:
        frames = [frame("messageStart", {"role": "assistant"})]
        calls = iter(said.calls)
        for at, block in enumerate(blocks):
            deltas: list[dict[str, Any]] = []
            if "toolUse" in block:
                start = {"toolUse": {k: v for k, v in block["toolUse"].items() if k != "input"}}
                begun = {"start": start, "contentBlockIndex": at}
                frames.append(frame("contentBlockStart", begun))
                deltas = [{"toolUse": {"input": part}} for part in next(calls).parts()]
            elif "text" in block:
                half = len(block["text"]) // 2
                deltas = [{"text": block["text"][:half]}, {"text": block["text"][half:]}]
            elif "reasoningText" in block["reasoningContent"]:
                inner = block["reasoningContent"]["reasoningText"]
                deltas = [{"reasoningContent": {key: text}} for key, text in inner.items()]
            else:
                deltas = [{"reasoningContent": block["reasoningContent"]}]
            frames += [
                frame("contentBlockDelta", {"delta": one, "contentBlockIndex": at})
                for one in deltas
            ]
            frames.append(frame("contentBlockStop", {"contentBlockIndex": at}))
        return frames

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """No stop, or an exception among the events."""
        frames = self._frames(failure.said, self.blocks(failure.said)[0])[:-1]
        if failure.kind == "stream_error":
            slow = {"message": "Too many requests"}
            frames = [*frames[:2], frame("throttlingException", slow, kind="exception")]
        return _stream(frames)


def reasoning_blocks(text: str) -> list[dict[str, Any]]:
    """Signed reasoning, and some that only the provider can read."""
    sealed = base64.b64encode(text.encode()).decode()
    shown = {"text": text, "signature": f"{sealed}.signed"}
    return [
        {"reasoningContent": {"reasoningText": shown}},
        {"reasoningContent": {"redactedContent": sealed}},
    ]


def finish(said: Said) -> str:
    """Bedrock's word for how a reply ended."""
    match said.finish:
        case "length":
            return "max_tokens"
        case "filter":
            return "content_filtered"
        case "refusal":
            return "guardrail_intervened"
        case "stop":
            return "tool_use" if said.calls else "end_turn"
        case "calls":
            return "tool_use"


def frame(name: str, payload: dict[str, Any], *, kind: str = "event") -> bytes:
    """An event of AWS's binary streams: lengths, headers, payload, and a checksum of each half."""
    headers = b""
    for key, value in (
        (":event-type" if kind == "event" else ":exception-type", name),
        (":content-type", "application/json"),
        (":message-type", kind),
    ):
        headers += bytes([len(key)]) + key.encode() + b"\x07"
        headers += struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    start = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    start += struct.pack(">I", zlib.crc32(start))
    whole = start + headers + body
    return whole + struct.pack(">I", zlib.crc32(whole))


def _stream(frames: list[bytes]) -> Reply:
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    return Reply(b"".join(frames), headers=headers, streamed=True)


def _read(value: Any, shape: Shape) -> Any:
    """A body as the client's parameters: bytes have come as base64."""
    match shape:
        case StructureShape() if isinstance(value, dict) and not shape.is_document_type:
            return {
                key: _read(inner, shape.members[key]) if key in shape.members else inner
                for key, inner in value.items()
            }
        case ListShape() if isinstance(value, list):
            return [_read(inner, shape.member) for inner in value]
        case _ if shape.type_name == "blob" and isinstance(value, str):
            return base64.b64decode(value)
        case _:
            return value


def _check_words(value: Any, shape: Shape, where: str) -> None:
    """Words of enumerations, which the client's own validator does not look at."""
    match shape:
        case StructureShape() if not shape.is_document_type:
            for key, inner in value.items():
                _check_words(inner, shape.members[key], f"{where}/{key}")
        case ListShape():
            for at, inner in enumerate(value):
                _check_words(inner, shape.member, f"{where}/{at}")
        case MapShape():
            for key, inner in value.items():
                _check_words(inner, shape.value, f"{where}/{key}")
        case _ if isinstance(value, str):
            words = getattr(shape, "enum", None)
            require(not words or value in words, SCHEMA_RULE, f"{where}: {value}")
