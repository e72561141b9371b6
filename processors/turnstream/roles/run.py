"""Running one role as a process: checks, metrics, the stream, a clean end."""

import asyncio
import importlib
from collections.abc import Callable
from typing import Any, Final, Literal, NoReturn, cast, get_args

import structlog

from turnstream.config import Settings
from turnstream.metrics import Heartbeat, MetricsServer
from turnstream.roles.deployment import PRIORITY, Deployment, StreamRole
from turnstream.stream import Security, StreamSettings
from turnstream.stream.app import build_app, run_worker
from turnstream.stream.observer import Observer

log = structlog.get_logger(__name__)

RoleName = Literal["decide", "execute", "answer", "classify", "shadow"]
ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)


def build_role(name: RoleName, deployment: Deployment) -> StreamRole[Any, Any]:
    """Build a role, importing its module and no other role's."""
    module = importlib.import_module(f"turnstream.roles.{name}")
    build = cast("Callable[[Deployment], StreamRole[Any, Any]]", module.build)
    return build(deployment)


def stream_settings(role: StreamRole[Any, Any], settings: Settings) -> StreamSettings:
    """The stream's settings for a role of a deployment."""
    names, kafka, options = settings.topics, settings.kafka, settings.stream
    clients = kafka.client_options()
    return StreamSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        group=settings.group(role.name),
        sources=tuple(names.name(topic) for topic in role.sources),
        writes=frozenset(names.name(topic) for topic in role.writes),
        rejected_elsewhere=frozenset(
            names.name(topic) for topic in role.sources if topic not in role.rejects
        ),
        dead_letter_topic=None
        if role.dead_letter_topic is None
        else names.name(role.dead_letter_topic),
        changelog=settings.changelog(role.name),
        priority=frozenset(names.name(topic) for topic in role.sources if topic in PRIORITY),
        security=Security(
            security_protocol=kafka.security_protocol,
            ssl_context=clients.get("ssl_context"),  # type: ignore[arg-type]
            sasl_mechanism=kafka.sasl_mechanism if "sasl_mechanism" in clients else None,
            sasl_username=kafka.sasl_username,
            sasl_password=cast("str | None", clients.get("sasl_plain_password")),
        ),
        start_from=settings.start_from,
        instance_id=options.group_instance_id,
        check_crcs=kafka.check_crcs,
        slots=options.slots,
        max_queued_per_partition=options.max_queued_per_partition,
        max_queued_per_key=options.max_queued_per_conversation,
        attempts=options.attempts,
        grace_seconds=options.grace_seconds,
        session_timeout_ms=int(options.session_timeout_seconds * 1000),
        heartbeat_interval_ms=int(options.session_timeout_seconds * 100),
        rebalance_timeout_ms=int(options.rebalance_timeout_seconds * 1000),
        request_timeout_ms=int(max(40.0, options.session_timeout_seconds + 10) * 1000),
        commit_gap_ms=options.commit_gap_ms,
    )


def run(name: RoleName, settings: Settings) -> NoReturn:
    """Run a role until it is told to stop.

    Raises:
        CatalogError: the catalog cannot be used.
        DeploymentError: a decider or classifier cannot be made.
        MetricsPortTaken: something else listens on the metrics port.
    """
    deployment = Deployment(settings, settings.catalog)
    role = build_role(name, deployment)
    app = build_app(
        stream_settings(role, settings),
        handler=role.handler,
        state_format=role.state_format,
        observer=cast("Observer", deployment.metrics),
        owned=role.owned,
    )
    asyncio.run(deployment.publish_schemas(role.writes))
    heartbeat = Heartbeat()

    @app.task  # type: ignore[untyped-decorator]
    async def beat() -> None:
        await heartbeat.run()

    if settings.metrics.port is not None:
        server = MetricsServer(
            deployment.registry,
            host=settings.metrics.host,
            port=settings.metrics.port,
            problems=heartbeat.problems,
        )
        log.info("metrics", url=f"http://{settings.metrics.host}:{server.port}/metrics")
    log.info(
        "starting",
        role=name,
        group=settings.group(name),
        catalog=deployment.loaded.decision_version,
    )
    run_worker(app)
