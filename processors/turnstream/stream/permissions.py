"""What a broker does not allow, in words that say which right is missing and where."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from turnstream.stream.outage import is_outage
from turnstream.stream.role import StartRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnstream.stream.settings import StreamSettings


@contextmanager
def refusing(settings: StreamSettings) -> Iterator[None]:
    """Refuse the start where a broker says what another try would not change.

    Raises:
        StartRefused: With what is missing, and where.
    """
    try:
        yield
    except KafkaError as error:
        if is_outage(error):
            raise
        remedy = missing_right(error, settings=settings)
        why = "does not answer what a start asks" if remedy is None else "does not allow this user"
        where = f"the broker of {settings.bootstrap_servers} (kafka.bootstrap_servers)"
        raise StartRefused(
            f"{where} {why} ({error!r}){'' if remedy is None else f': {remedy}'}"
        ) from error


def missing_right(error: KafkaError, *, settings: StreamSettings) -> str | None:
    """Name the right that an error says is missing; `None` where it says no such thing."""
    match error:
        case GroupAuthorizationFailedError():
            return f"grant READ on group {settings.group!r}"
        case TopicAuthorizationFailedError():
            given = error.args[0] if error.args else None
            named = [given] if isinstance(given, str) else given or _topics(settings)
            listed = ", ".join(map(repr, sorted(named)))
            return f"grant DESCRIBE and READ on {listed}, and WRITE where this role writes"
        case TransactionalIdAuthorizationFailed():
            return f"grant WRITE on the transactional ids that begin with {settings.group + '-'!r}"
        case ClusterAuthorizationFailedError():
            return "grant DESCRIBE and IDEMPOTENT_WRITE on the cluster"
    return None


def _topics(settings: StreamSettings) -> tuple[str, ...]:
    return (*settings.sources, settings.changelog)
