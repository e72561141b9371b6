"""The wire of a decisions API: one question about a state, one choice from a closed list.

::

    POST {base_url}/api/alpha/decisions
    {"model": ..., "state": {"tools": ..., "conversation": ...},
     "questions": {"step": {"type": "choice", "instructions": ..., "criteria": {OPTION: TEXT}}}}

    {"model": ..., "answers": {"step": {"type": "choice", "choice": OPTION,
     "probabilities": {OPTION: NUMBER}, "confidence": NUMBER}}, "usage": {...}}

Probabilities, confidence and usage may be absent. What is there is checked before it is believed. A
reply that is no such reply - another form, numbers that are no distribution, a choice that is not
the most probable option - is a failure of the service, as is a broken connection: nothing was
chosen, and the question may be put again. An option that was never offered is something else: it
was chosen. It is handed on as it came, for the gates of the core to block.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Final, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from turnstream.config.decisions import DecisionsSettings
from turnstream.core.json_texts import written
from turnstream.core.ports import DeciderRefused, ReplyUnusable
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import unavailable
from turnstream.plain_http import plain_client, read_up_to, retry_after, why_broken

PATH: Final = "/api/alpha/decisions"

OPTIONS: Final = 255
"""Most options of one question; services refuse more."""

_REPLY_BYTES: Final = 262_144
"""Longest reply that is read: 255 options with their numbers take a twentieth of it."""

_SUM: Final = 0.02
"""How far probabilities may be from adding up to 1."""

_ROUNDING: Final = 0.005
"""What one probability is off by where a service rounds to two decimals."""

_MOST_ROUNDING: Final = 0.2
"""Never believed to be rounding, however many options there are."""

_MODEL_CHARACTERS: Final = 100
"""Longest name of a model that is kept of a reply."""

_PASSING: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""4xx that say *not now*. Every other one says *not so*: who configured the service must act."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and what may be chosen."""

    name: str
    instructions: str
    criteria: Mapping[str, str]
    """Option to what it means; at least two."""

    def as_json(self) -> dict[str, JsonValue]:
        """The form in a request."""
        return {
            "type": "choice",
            "instructions": self.instructions,
            "criteria": dict(self.criteria),
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and how surely."""

    option: str
    """May be one that was not offered."""
    listed: bool
    """Whether it was offered."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Option to probability, adding up to 1; empty where the service gave none."""
    confidence: float | None = None
    """The service's own number."""

    @property
    def probability(self) -> float | None:
        """Of what was chosen."""
        return self.probabilities.get(self.option)

    @property
    def margin(self) -> float | None:
        """Distance between the two most probable options."""
        if not self.probabilities:
            return None
        first, second, *_ = sorted(self.probabilities.values(), reverse=True)
        return first - second


@dataclass(frozen=True, slots=True)
class Answered:
    """A choice, and what it took to get it."""

    choice: Choice
    model: str | None
    """What the service says that it asked."""
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """In the service's currency."""
    seconds: float


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)

    type: Literal["choice"] = "choice"
    choice: str = Field(min_length=1, max_length=200)
    probabilities: dict[str, Share] | None = None
    confidence: Share | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(strict=True)

    answers: dict[str, JsonValue]
    model: JsonValue = None
    usage: JsonValue = None


class _Usage(BaseModel):
    model_config = ConfigDict(strict=True)

    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class DecisionsClient:
    """Puts questions to one model of a decisions API."""

    def __init__(
        self,
        settings: DecisionsSettings,
        *,
        client: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare; nothing is connected to.

        Args:
            settings: the decider's section.
            client: made here when not given.
            clock: a clock that never goes back, in seconds.
        """
        self._settings = settings
        self._url = settings.base_url.rstrip("/") + PATH
        self._client = client or plain_client()
        self._clock = clock

    async def choose(self, question: Question, state: Mapping[str, JsonValue]) -> Answered:
        """Put one question.

        Raises:
            DeciderRefused: the request cannot be made so, now or later.
            DeciderUnavailable: there is no reply, or none that can be believed.
        """
        body = to_json(
            {
                "model": self._settings.model,
                "state": state,
                "questions": {question.name: question.as_json()},
            }
        )
        begun = self._clock()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                response, content = await self._exchange(body)
        except (TimeoutError, httpx.TimeoutException):
            raise unavailable(f"no reply within {self._settings.timeout_seconds:g} s") from None
        except httpx.HTTPError as error:
            raise unavailable(f"the connection broke ({why_broken(error)})") from None
        seconds = self._clock() - begun
        self._check_status(response)
        if content is None:
            raise ReplyUnusable(f"a reply of more than {_REPLY_BYTES} bytes, or compressed")
        return _read(content, question, seconds)

    async def close(self) -> None:
        """Release connections."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> tuple[httpx.Response, bytes | None]:
        async with self._client.stream(
            "POST",
            self._url,
            headers=self._headers(),
            content=body,
            timeout=self._settings.timeout_seconds,
        ) as response:
            # The body of a refusal is not read: it may repeat the request.
            return response, await read_up_to(
                response, _REPLY_BYTES
            ) if response.is_success else b""

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            # A compressed reply could be small on the wire and large in memory.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        try:
            key = key_of(self._settings.api_key)
        except DeciderRefused as error:
            raise self._refused(str(error)) from None
        return headers if key is None else {**headers, "Authorization": f"Bearer {key}"}

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        if status in _PASSING or response.is_server_error:
            raise unavailable(f"status {status}", retry_after_seconds=retry_after(response.headers))
        raise self._refused(f"status {status}")

    def _refused(self, problem: str) -> DeciderRefused:
        return DeciderRefused(f"{self._url}, model {self._settings.model}: {problem}")


def _read(content: bytes, question: Question, seconds: float) -> Answered:
    try:
        reply = _Reply.model_validate_json(content)
        # Of two values of a name it has taken one; which of two choices was meant nobody knows.
        written(content)
        answer = _Answer.model_validate(reply.answers.get(question.name))
    except ValueError:
        raise ReplyUnusable("a reply that is not in the form of a decision") from None
    usage = _usage(reply.usage)
    return Answered(
        choice=_checked(answer, question),
        model=_model(reply.model),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
        seconds=seconds,
    )


def _checked(answer: _Answer, question: Question) -> Choice:
    if answer.choice not in question.criteria:
        # Its numbers speak of other options than ours.
        return Choice(answer.choice, listed=False)
    given = answer.probabilities
    if given is None:
        return Choice(answer.choice, listed=True, confidence=answer.confidence)
    if given.keys() != question.criteria.keys():
        raise ReplyUnusable("probabilities of other options than those in question")
    total = sum(given.values())
    if abs(total - 1) > max(_SUM, min(_MOST_ROUNDING, _ROUNDING * len(given))):
        raise ReplyUnusable(f"probabilities that add up to {total:g}")
    if given[answer.choice] + 2 * _ROUNDING < max(given.values()):
        raise ReplyUnusable("a choice that is not the most probable option")
    shares = {option: share / total for option, share in given.items()}
    return Choice(answer.choice, listed=True, probabilities=shares, confidence=answer.confidence)


def _usage(given: JsonValue) -> _Usage:
    """What a reply says of its cost; nothing where that makes no sense, which costs no decision."""
    try:
        return _Usage.model_validate(given or {})
    except ValidationError:
        return _Usage()


def _model(given: JsonValue) -> str | None:
    if not isinstance(given, str) or not given.isprintable():
        return None
    return given[:_MODEL_CHARACTERS]
