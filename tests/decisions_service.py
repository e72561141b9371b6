"""A decisions API in memory: it replies as it is told, and remembers what it was asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import orjson

from turnstream.config import DecisionsSettings
from turnstream.core.definitions import Catalog
from turnstream.core.ports import Decider
from turnstream.models.decision_wire import DecisionsClient
from turnstream.models.decisions_api import DecisionModel
from turnstream.models.intent import Intents

URL: Final = "http://decisions.test"

Reply = str | Mapping[str, Any] | httpx.Response | Exception
"""The option to choose, the whole JSON reply, the whole HTTP reply, or what breaks."""


def settings(**changes: Any) -> DecisionsSettings:
    """The section of a decider."""
    given = {"kind": "decisions", "base_url": URL, "model": "acme/decider-1", **changes}
    return DecisionsSettings.model_validate(given)


def chosen(question: str, option: str, options: list[str], share: float = 0.91) -> dict[str, Any]:
    """A reply in the documented form: an option, and what is left spread over the others."""
    rest = (1 - share) / (len(options) - 1)
    return {
        "id": "dec-1",
        "model": "acme/decider-1-0923",
        "provider": "acme",
        "answers": {
            question: {
                "type": "choice",
                "choice": option,
                "probabilities": {one: share if one == option else rest for one in options},
                "confidence": 0.8,
            }
        },
        "usage": {"input_tokens": 120, "output_tokens": 1, "cost": 0.0005},
    }


_LEARNT: Final[list[tuple[Catalog, Intents]]] = []
"""Learnt once for each catalog: it takes a moment."""


def _intents(catalog: Catalog) -> Intents:
    for known, intents in _LEARNT:
        if known is catalog:
            return intents
    _LEARNT.append((catalog, Intents(catalog)))
    return _LEARNT[-1][1]


@dataclass
class Service:
    """Replies in order; asked once more than expected, or once less, the test fails."""

    replies: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests so far."""
    headers: list[httpx.Headers] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    decide: Callable[[dict[str, Any]], Reply] | None = None
    """Replies where nothing is scripted."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Handle a request."""
        body = orjson.loads(request.content)
        self.requests.append(body)
        self.headers.append(request.headers)
        self.urls.append(str(request.url))
        assert self.replies or self.decide, f"unexpected question: {body['questions']}"
        reply = self.replies.pop(0) if self.decide is None else self.decide(body)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx.Response):
            return reply
        if isinstance(reply, str):
            (name,) = body["questions"]
            reply = chosen(name, reply, list(body["questions"][name]["criteria"]))
        return httpx.Response(200, content=orjson.dumps(reply))

    def finish(self) -> None:
        """Check that everything scripted was asked for."""
        assert self.replies == []

    def client(self, **changes: Any) -> DecisionsClient:
        """A client of this service. No time passes."""
        transport = httpx.MockTransport(self)
        client = httpx.AsyncClient(transport=transport)
        return DecisionsClient(settings(**changes), client=client, clock=lambda: 0.0)

    def model(
        self, catalog: Catalog, *, arguments: Decider | None = None, **changes: Any
    ) -> DecisionModel:
        """A decider that asks this service."""
        return DecisionModel(
            settings(**changes),
            catalog=catalog,
            decision_version="d1",
            client=self.client(**changes),
            arguments=arguments,
            intents=_intents(catalog),
        )

    @property
    def questions(self) -> list[tuple[str, list[str]]]:
        """The names of the questions so far, each with its options."""
        return [
            (name, list(one["criteria"]))
            for body in self.requests
            for name, one in body["questions"].items()
        ]
