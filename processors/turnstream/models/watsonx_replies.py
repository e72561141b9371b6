"""What watsonx replies, read as its documentation has it.

Its library hands on any JSON at all, so the form is looked at here. What IBM leaves out it may also
send as null. Keys that are not named here are passed over: they differ between models.
https://cloud.ibm.com/apidocs/watsonx-ai#text-chat
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from turnstream.core.json_arguments import unwritable
from turnstream.models.refusals import words_of
from turnstream.models.transport import (
    Finish,
    KeptCall,
    ModelCall,
    ModelReply,
    Unreadable,
    Usage,
    out_of_form,
)

_FINISHES: Final[dict[str | None, Finish]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "refused",
}


def _whole(text: str) -> str:
    """Python reads half a character from JSON, and nothing writes it."""
    if (fault := unwritable(text)) is not None:
        raise ValueError(fault)
    return text


_Text = Annotated[str, AfterValidator(_whole)]

_Count = Annotated[int, Field(ge=0, le=2**53)]
"""Tokens; more are no number that can be multiplied by a price."""


class _Read(BaseModel):
    model_config = ConfigDict(strict=True)


class _Function(_Read):
    name: _Text
    arguments: Any = None
    """For the gates to judge, whatever it is."""


class _Call(_Read):
    id: _Text | None = None
    type: Literal["function", ""] | None = None
    function: _Function


class _Message(_Read):
    content: _Text | None = None
    refusal: _Text | None = None
    reasoning_content: _Text | None = None
    tool_calls: list[_Call] | None = None
    function_call: None = None
    """A call in OpenAI's older form, which no tool of ours is offered in."""


class _Choice(_Read):
    message: _Message
    finish_reason: _Text | None = None


class _Usage(_Read):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Reply(_Read):
    model_id: _Text | None = None
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]
    usage: _Usage | None = None


def read_reply(reply: object, *, stream: bool) -> ModelReply:
    """Read a reply as the library hands it on.

    Args:
        reply: the parsed body, or what :mod:`turnstream.models.watsonx_stream` put together.
        stream: whether it was streamed; without a finish it then broke off.

    Raises:
        DeciderUnavailable: it is not in the documented form.
    """
    try:
        read = _Reply.model_validate(reply)
    except ValidationError as error:
        raise out_of_form(error) from None
    (choice,) = read.choices
    message = choice.message
    usage = read.usage or _Usage()
    counted = Usage(usage.prompt_tokens, usage.completion_tokens)
    finish = "content_filter" if message.refusal else choice.finish_reason
    if stream and finish is None:
        raise Unreadable("a stream that broke off", counted)
    text = message.content or ""

    def keep(kept: Sequence[KeptCall], given: str | None) -> JsonValue:
        said: dict[str, JsonValue] = {
            "role": "assistant",
            "content": text if given is None else given,
        }
        if message.reasoning_content is not None:
            said["reasoning_content"] = message.reasoning_content
        if kept:
            said["tool_calls"] = [_sent(one) for one in kept]
        return said

    return ModelReply(
        text=text,
        calls=tuple(
            ModelCall(one.id, one.function.name, one.function.arguments)
            for one in message.tool_calls or ()
        ),
        finish=_FINISHES.get(finish, "unknown"),
        keep=keep,
        model=read.model_id or "",
        usage=counted,
        notes={"finish": "".join(words_of(finish))},
    )


def _sent(call: KeptCall) -> JsonValue:
    given = call.arguments
    arguments = given if isinstance(given, str) else to_json(given).decode()
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.tool, "arguments": arguments},
    }
