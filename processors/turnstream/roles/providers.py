"""The deciders of a process, each with what is known of its health."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

from turnstream.catalog.unscored import unscored_advice
from turnstream.config import AskingSettings
from turnstream.config.connectors import unscored_in
from turnstream.core.ports import Decider
from turnstream.roles.asking import Effort, Provider
from turnstream.roles.breaker import CircuitBreaker
from turnstream.roles.deployment import Candidate, Deployment
from turnstream.roles.raw_sink import RawSink

log = structlog.get_logger(__name__)


def effort_of(settings: AskingSettings) -> Effort:
    """How hard a role tries for a proposal."""
    return Effort(
        attempts=settings.decider_attempts,
        timeout=settings.decider_timeout_seconds,
        backoff=settings.decider_backoff_seconds,
        backoff_max=settings.decider_backoff_max_seconds,
        patience=settings.decider_patience_seconds,
    )


def providers_of(deployment: Deployment) -> Mapping[str, Provider]:
    """Agent name to its decider; agents with the same one share what is known of its health."""
    named: dict[str, Provider] = {}
    found: dict[str, Provider] = {}
    for agent, decider in deployment.deciders().items():
        name = deployment.catalog.agents[agent].decider
        if name not in named:
            named[name] = _provider(name, decider, deployment.settings.decide)
        found[agent] = named[name]
    _watch(deployment, named)
    for place, advice in unscored_advice(
        deployment.catalog, unscored_in(deployment.settings.deciders)
    ):
        log.warning("decider without confidence", agent=place[1], advice=advice)
    return found


def candidate_of(deployment: Deployment, candidate: Candidate) -> Provider:
    """The one decider of a shadow, whose name is in the configuration's section `shadow`."""
    settings = deployment.settings.shadow
    decider = candidate.calibrated(settings.decider, settings.calibration)
    made = _provider(settings.decider, decider, settings)
    _watch(deployment, {made.name: made})
    return made


def closing(
    providers: Iterable[Provider], *, raw: RawSink | None = None
) -> Callable[[], Awaitable[None]]:
    """What releases the connections that deciders hold, each once, and ends the raw sink."""
    deciders = {id(one.decider): one.decider for one in providers}

    async def close() -> None:
        for decider in deciders.values():
            release = getattr(decider, "close", None)
            if release is not None:
                await release()
        if raw is not None:
            await asyncio.to_thread(raw.close)

    return close


def _provider(name: str, decider: Decider, settings: AskingSettings) -> Provider:
    breaker = CircuitBreaker(
        failures=settings.decider_breaker_failures,
        cool_down_seconds=settings.decider_breaker_cool_down_seconds,
        now=time.monotonic,
    )
    return Provider(name, decider, breaker)


def _watch(deployment: Deployment, named: Mapping[str, Provider]) -> None:
    deployment.metrics.watch_deciders(
        lambda: {name: provider.breaker.state for name, provider in named.items()}
    )
