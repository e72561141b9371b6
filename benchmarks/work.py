"""The work of one turn, the same functions for every way of delivery that is measured.

It is the decide role's own handler: decode and check the record, step, decide, step again, encode
what is published; and the role's own state format.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from turnstream import demo
from turnstream.config import Settings
from turnstream.core.conversation import Conversation
from turnstream.roles.conversation_format import ConversationFormat
from turnstream.roles.decide import DecideHandler, build
from turnstream.roles.deployment import Deployment
from turnstream.stream import Handled, concluded

CATALOG = Path(demo.__file__).with_name("catalog.yaml")
PARTITIONS = 4


class Received(NamedTuple):
    """A record as any client delivers it; the handler needs no more of it."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


def settings(
    bootstrap: str, prefix: str, *, delay_seconds: float = 0.0, turns: int = 0, **more: Any
) -> Settings:
    """Return the configuration of one run on the demo's catalog.

    Args:
        bootstrap: The broker's address.
        prefix: Of every topic and group, so that runs do not share anything.
        delay_seconds: Makes the decider take that long.
        turns: How many there will be, for such a decider.
        more: Further settings.
    """
    given: dict[str, Any] = {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": PARTITIONS,
        "start_from": "earliest",
        "catalog": CATALOG,
        **more,
    }
    if delay_seconds:
        given["deciders"] = {
            "catalog_rules": {
                "kind": "python",
                "target": "benchmarks.slow_model:delayed",
                "options": {"seconds": delay_seconds, "turns": turns},
            }
        }
    return Settings.model_validate(given)


class Work:
    """Decides turns; knows nothing of how they come and go."""

    def __init__(self, settings: Settings) -> None:
        """Load the catalog and build the role's handler."""
        self.deployment = Deployment(settings, settings.catalog)
        role = build(self.deployment)
        assert isinstance(role.handler, DecideHandler)
        self.handler = role.handler
        self.format = ConversationFormat()
        self.turns = self.deployment.topic("conversation.turns")

    def decide(self, record: Received, state: Conversation | None) -> Any:
        """Return what a record leads to, or an awaitable of it where the decider is slow."""
        _, event = self.handler.admit(record)
        return concluded(self.handler.handle(record, event, state, None))  # type: ignore[arg-type]

    @staticmethod
    def state(handled: Handled[Conversation]) -> Conversation:
        """Return the new state, which a decided turn always has."""
        assert handled.state is not None
        return handled.state


def outputs(settings: Settings) -> Mapping[str, str]:
    """Return logical to physical names of what is published about turns."""
    names = ("conversation.actions", "conversation.outcomes", "conversation.outbound")
    return {name: settings.topics.name(name) for name in names}
