"""The decisions API: one question about a state, one choice of a closed list."""

from typing import Any

from tests.providers.schemas import SCHEMA_RULE, keys_within
from tests.providers.script import Heard, Reply, Said
from tests.providers.server import ProviderServer, as_json, require


class DecisionsServer(ProviderServer):
    """`/api/alpha/decisions`. What its model says is the name of an option."""

    model = "acme/decider-1-0923"

    def __init__(self, *steps: Any, share: float = 0.91, **how: Any) -> None:
        super().__init__(*steps, **how)
        self.share = share
        """Probability of the option chosen; the rest is spread over the others."""

    def check(self, heard: Heard) -> None:
        """Judge a request."""
        expected = ("POST", "/api/alpha/decisions")
        require((heard.method, heard.path) == expected, "the path", heard.path)
        said = heard.headers.get("authorization")
        require(said == f"Bearer {self.key}", "the key", f"authorization: {said}")
        body = heard.json
        require(isinstance(body, dict), "the body is a JSON object", heard.body[:200])
        keys_within(body, ("model", "state", "questions"), "the body")
        require(isinstance(body.get("model"), str), SCHEMA_RULE, "model")
        keys_within(body.get("state"), ("tools", "conversation"), "state")
        for part in ("tools", "conversation"):
            require(isinstance(body["state"].get(part), str | list), SCHEMA_RULE, f"state.{part}")
        questions = body.get("questions")
        require(isinstance(questions, dict) and len(questions) == 1, "one question", questions)
        for name, one in questions.items():
            keys_within(one, ("type", "instructions", "criteria"), f"question {name}")
            require(one.get("type") == "choice", SCHEMA_RULE, one.get("type"))
            require(isinstance(one.get("instructions"), str), SCHEMA_RULE, "instructions")
            criteria = one.get("criteria")
            require(isinstance(criteria, dict), SCHEMA_RULE, "criteria")
            require(2 <= len(criteria) <= 255, "2 to 255 options", len(criteria))
            for option, text in criteria.items():
                require(isinstance(text, str) and text, SCHEMA_RULE, f"criteria.{option}")

    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error."""
        return as_json({"error": {"code": kind or status, "message": message}}, status)

    def saying(self, said: Said, heard: Heard) -> Reply:
        """The choice, and how probable each option is."""
        ((name, question),) = heard.json["questions"].items()
        rest = (1 - self.share) / max(len(question["criteria"]) - 1, 1)
        read, written = said.tokens
        return as_json(
            {
                "id": f"dec-{len(self.heard)}",
                "model": self.model,
                "provider": "acme",
                "answers": {
                    name: {
                        "type": "choice",
                        "choice": said.text,
                        "probabilities": {
                            one: self.share if one == said.text else rest
                            for one in question["criteria"]
                        },
                        "confidence": 0.8,
                    }
                },
                "usage": {"input_tokens": read, "output_tokens": written, "cost": 0.0005},
            }
        )
