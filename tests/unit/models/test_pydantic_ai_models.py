"""The layer over Pydantic AI, with a model of our own behind it."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage
from structlog.testing import capture_logs

from turnstream.core.envelope import CallFault, Envelope
from turnstream.core.ports import DeciderRefused, DeciderUnavailable
from turnstream.models.pydantic_ai_models import PydanticAITransport, Way
from turnstream.models.transport import KeptCall, Prompt, Replied, Said, Usage

PROMPT = Prompt("You help.", (Said("user", "Hello."),))


class Own(Model[Any]):
    """Replies by a function of the messages and the settings."""

    def __init__(
        self, reply: Callable[[list[ModelMessage], dict[str, Any]], ModelResponse]
    ) -> None:
        super().__init__()
        self._reply = reply
        self.waiting = 0
        self.together = asyncio.Event()
        self.wanted = 1

    @property
    def model_name(self) -> str:
        """Its name."""
        return "own"

    @property
    def system(self) -> str:
        """Its provider."""
        return "tests"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Wait until as many as wanted have come, then reply."""
        self.waiting += 1
        if self.waiting >= self.wanted:
            self.together.set()
        await self.together.wait()
        return self._reply(messages, dict(model_settings or {}))


def transport(model: Own, **changes: Any) -> PydanticAITransport:
    """A transport to it."""
    given: dict[str, Any] = {
        "form": "tests/own",
        "place": "here",
        "model": model,
        "name": "own",
        "settings": {},
        "timeout_seconds": 5,
        **changes,
    }
    return PydanticAITransport(Way(**given))


async def test_requests_at_once_all_learn_that_top_p_is_unknown() -> None:
    """Whoever is told second asks again too; each request that is made again is logged."""

    def reply(_: list[ModelMessage], settings: dict[str, Any]) -> ModelResponse:
        if "top_p" in settings:
            body = {"code": "unsupported_parameter", "param": "top_p", "message": "x"}
            raise ModelHTTPError(400, "own", body)
        return ModelResponse([TextPart(f"{sorted(settings)}")], finish_reason="stop")

    model = Own(reply)
    model.wanted = 2
    way = transport(model, settings={"top_p": 0.5, "temperature": 0.2}, retries_top_p=True)
    with capture_logs() as logs:
        found = await asyncio.gather(way.reply(PROMPT, ()), way.reply(PROMPT, ()))
        later = await way.reply(PROMPT, ())

    assert ["['temperature']"] * 3 == [one.text for one in (*found, later)]
    assert ["model does not know top_p: asked without it"] * 2 == [one["event"] for one in logs]
    assert (2, 2, 1) == (found[0].requests, found[1].requests, later.requests)
    assert 5 == model.waiting


async def test_kept_reply_goes_back_as_it_was() -> None:
    """Reasoning, texts and calls in their order; only what was put in order differs."""
    seen: list[list[ModelMessage]] = []
    parts: list[ModelResponsePart] = [
        ThinkingPart("hm", signature="SIG", provider_name="tests"),
        TextPart("One moment."),
        ToolCallPart("look", '{"a', tool_call_id="same"),
        ToolCallPart("list", "{}", tool_call_id="same"),
    ]

    def reply(messages: list[ModelMessage], _: dict[str, Any]) -> ModelResponse:
        seen.append(messages)
        return ModelResponse(list(parts), finish_reason="tool_call", provider_name="tests")

    way = transport(Own(reply), marks_failures=True)
    first = await way.reply(PROMPT, ())
    kept = first.keep([KeptCall("c1", "look", {"x": 1}), KeptCall("c2", "list", "{}")], None)
    results = (
        Envelope("c1", "look", error=CallFault("invalid_arguments", "no")),
        Envelope("c2", "list", {"n": 1}),
    )
    await way.reply(Prompt("S.", (Said("user", "Hi."), Replied(kept, results))), ())

    assert "SIG" in str(kept)
    request, response, told = seen[1]
    assert isinstance(request, ModelRequest)
    assert [SystemPromptPart, UserPromptPart] == [type(one) for one in request.parts]
    assert isinstance(response, ModelResponse)
    assert [
        parts[0],
        parts[1],
        ToolCallPart("look", {"x": 1}, tool_call_id="c1"),
        ToolCallPart("list", "{}", tool_call_id="c2"),
    ] == list(response.parts)
    assert isinstance(told, ModelRequest)
    assert [("c1", "failed"), ("c2", "success")] == [
        (one.tool_call_id, one.outcome) for one in told.parts if isinstance(one, ToolReturnPart)
    ]


async def test_text_may_be_cut_in_what_is_kept() -> None:
    """All texts of a reply become the one that is given, or none."""

    def reply(_: list[ModelMessage], __: dict[str, Any]) -> ModelResponse:
        return ModelResponse([TextPart("a" * 999), TextPart("b")], finish_reason="stop")

    first = await transport(Own(reply)).reply(PROMPT, ())

    assert "a" * 999 + "b" == first.text
    for text, count in (("short", 1), ("", 0)):
        kept = first.keep((), text)
        assert isinstance(kept, dict)
        assert isinstance(kept["parts"], list)
        assert count == len(kept["parts"])


async def test_reply_that_cannot_be_read_any_more_is_told_by_its_results() -> None:
    """One of another version of the library, say."""
    seen: list[list[ModelMessage]] = []

    def reply(messages: list[ModelMessage], _: dict[str, Any]) -> ModelResponse:
        seen.append(messages)
        return ModelResponse([TextPart("Hi.")], finish_reason="stop")

    replied = Replied({"kind": "of old"}, (Envelope("c1", "list", {"n": 1}),))
    await transport(Own(reply)).reply(Prompt("S.", (Said("user", "Hi."), replied)), ())

    (request,) = seen[0]
    assert '"result":{"n":1}' in str(request)


async def test_end_that_is_no_word_is_not_noted() -> None:
    """A provider may put anything there."""

    def reply(_: list[ModelMessage], __: dict[str, Any]) -> ModelResponse:
        return ModelResponse(
            [TextPart("Hi.")], provider_details={"finish_reason": "my secret word"}
        )

    found = await transport(Own(reply)).reply(PROMPT, ())

    assert ("unknown", {"finish": "unknown"}) == (found.finish, found.notes)


BROKEN: list[tuple[str, ModelResponse]] = [
    ("parts.1.content", ModelResponse([TextPart("Hi."), TextPart(cast("str", ["hi"]))])),
    ("parts.0.content", ModelResponse([ThinkingPart(cast("str", 5))])),
    ("parts.0.tool_name", ModelResponse([ToolCallPart(cast("str", 7), "{}")])),
    ("model_name", ModelResponse([TextPart("Hi.")], model_name=cast("str", ["m"]))),
]


@pytest.mark.parametrize(("path", "response"), BROKEN)
async def test_reply_of_other_types_is_a_reply_that_fails(
    path: str, response: ModelResponse
) -> None:
    """A library hands on what a provider wrote; none of it ends in a defect of ours."""
    response.finish_reason = "stop"
    with pytest.raises(DeciderUnavailable) as raised:
        await transport(Own(lambda *_: response)).reply(PROMPT, ())

    assert not isinstance(raised.value, DeciderRefused)
    assert f"a reply that is not in the documented form ({path})" == str(raised.value)


async def test_counts_that_are_no_numbers_are_not_known() -> None:
    """Nothing multiplies a text by a price."""
    usage = RequestUsage(input_tokens=cast("int", "12"), output_tokens=5)
    response = ModelResponse([TextPart("Hi.")], finish_reason="stop", usage=usage)
    found = await transport(Own(lambda *_: response)).reply(PROMPT, ())

    assert Usage() == found.usage
