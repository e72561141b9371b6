"""An agent model that says anything, but always the same to the same prompt."""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from pydantic_core import to_json

from turnstream.core.definitions import Catalog
from turnstream.core.ports import DeciderUnavailable
from turnstream.models.agent_model import AgentModel
from turnstream.models.transport import (
    ModelCall,
    ModelReply,
    Prompt,
    Said,
    ToolForm,
    Usage,
    Wire,
    unavailable,
)

_STEPS: Final = (
    ("We open at nine.", ()),
    ("", (ModelCall("c1", "ask_customer", '{"field": "order_id"}'),)),
    ("One moment.", (ModelCall("c1", "refuse", {"rule": "fraud"}),)),
    ("", (ModelCall("", "hand_off", '{"cause": "user_request"}'),)),
    ("", (ModelCall(None, "give_approved_answer", '{"answer_id": "hours"}'),)),
)


class Fickle:
    """Chooses its reply by the prompt; fails where it is told to."""

    form = "fickle/wire"
    place = "here"
    model = "m"

    def __init__(self, failure: DeciderUnavailable | None = None) -> None:
        self._failure = failure

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once."""
        if self._failure is not None:
            raise self._failure
        said = [one.text for one in prompt.turns if isinstance(one, Said)]
        text, calls = _STEPS[crc32(to_json(said)) % len(_STEPS)]
        offered = {one.name for one in tools}
        return ModelReply(
            text,
            tuple(one for one in calls if one.tool in offered),
            "stop" if text or calls else "unknown",
            lambda kept, _: [one.call_id for one in kept],
            usage=Usage(10, 5),
        )

    async def close(self) -> None:
        """Nothing is held."""


def fickle_model(catalog: Catalog, failure: DeciderUnavailable | None = None) -> AgentModel:
    """A decider with such a model."""
    return AgentModel(
        Fickle(failure),
        catalog=catalog,
        decision_version="0123456789abcdef",
        wire=Wire("openai"),
        native_tools=True,
        clock=lambda: 0.0,
    )


def overloaded(catalog: Catalog) -> AgentModel:
    """One that wants to be left alone."""
    return fickle_model(catalog, unavailable("429", retry_after_seconds=3.0))
