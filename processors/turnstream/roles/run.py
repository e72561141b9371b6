"""Running one role as a process: checks, metrics, the stream, a clean end."""

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from turnstream.config import Settings
from turnstream.metrics import Heartbeat, MetricsServer
from turnstream.roles.deployment import PRIORITY, Deployment, DeploymentError, StreamRole
from turnstream.roles.health import Health, stall_limit
from turnstream.roles.secret_references import check_secrets
from turnstream.stream import Security, StreamSettings, topic_definitions
from turnstream.stream.app import build_app, run_worker
from turnstream.stream.observer import Observer
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.registry import SchemasAway, SchemasUnavailable
from turnstream.stream.role import LaneFailed, StartRefused, end_process

log = structlog.get_logger(__name__)

RoleName: TypeAlias = topic_definitions.RoleName
ROLES: Final = topic_definitions.ROLES

_SCHEMAS: Final = "turnstream.schemas"

_KEY_BYTES: Final = 512
"""Longest key of ours: without room for it a value as long as readers accept would not pass."""

_REQUEST_MS: Final = 20_000
"""A broker that accepts and does not answer must not hang the start without a word."""


def build_role(name: RoleName, deployment: Deployment) -> StreamRole[Any, Any]:
    """Build a role, importing its module and no other role's."""
    module = importlib.import_module(f"turnstream.roles.{name}")
    build = cast("Callable[[Deployment], StreamRole[Any, Any]]", module.build)
    return build(deployment)


def stream_settings(role: StreamRole[Any, Any], settings: Settings) -> StreamSettings:
    """The stream's settings for a role of a deployment.

    Raises:
        SecretUnavailable: a secret's reference leads nowhere, or a certificate cannot be used.
    """
    names, kafka, options = settings.topics, settings.kafka, settings.stream
    clients = kafka.client_options()
    return StreamSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        group=settings.group(role.name),
        role=role.name,
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
        max_ahead_per_partition=options.max_ahead_per_partition,
        max_publication_bytes=options.max_record_bytes + _KEY_BYTES,
        attempts=options.attempts,
        retry_patience_ms=int(options.retry_patience_seconds * 1000),
        grace_seconds=options.grace_seconds,
        session_timeout_ms=int(options.session_timeout_seconds * 1000),
        heartbeat_interval_ms=int(options.session_timeout_seconds * 100),
        rebalance_timeout_ms=int(options.rebalance_timeout_seconds * 1000),
        request_timeout_ms=int(max(40.0, options.session_timeout_seconds + 10) * 1000),
        commit_gap_ms=options.commit_gap_ms,
        max_keys_per_partition=role.max_keys_per_partition,
        store=options.store,
        data_dir=None if options.data_dir is None else str(options.data_dir),
    )


def topics_of(role: StreamRole[Any, Any], settings: Settings) -> tuple[str, ...]:
    """The physical topics of a role that must have the deployment's partition count."""
    names = [settings.topics.name(topic) for topic in (*role.sources, *role.writes)]
    return (*dict.fromkeys(names), settings.changelog(role.name))


async def check_topics(topics: Sequence[str], settings: Settings) -> None:
    """Check what a role reads and writes before anything is read or written.

    The stream checks its sources again. Only here is it known that the written topics must fit
    too, and that records are checked against the configured partition count.

    Args:
        topics: physical names; see :func:`topics_of`.
        settings: the deployment's.

    Raises:
        LaneFailed: the brokers are away.
        StartRefused: the broker refuses this client, a topic is missing, or a partition count is
            not the configured one.
    """
    kafka = settings.kafka
    options: dict[str, Any] = {**kafka.client_options(), "request_timeout_ms": _REQUEST_MS}
    schemas = [] if settings.registry is not None else [settings.topics.name(_SCHEMAS)]
    admin = AIOKafkaAdminClient(**options)
    try:
        await admin.start()
        described = await admin.describe_topics([*topics, *schemas])
    except (KafkaError, OSError) as error:
        why = await why_unreachable(options, error)
        raise (StartRefused if why.lasting else LaneFailed)(str(why)) from error
    finally:
        await admin.close()
    counts = {topic["topic"]: len(topic["partitions"]) for topic in described}
    missing = [topic for topic in (*topics, *schemas) if not counts.get(topic)]
    if missing:
        raise StartRefused(
            f"topics do not exist: {', '.join(missing)}; create them with `turnstream topics apply`"
        )
    wanted = settings.partitions
    others = [f"{topic} has {counts[topic]}" for topic in topics if counts[topic] != wanted]
    if others:
        raise StartRefused(
            f"`partitions` is {wanted} in the configuration, but {', '.join(others)}: all topics "
            "of a conversation need the same count. A partition count is never changed, since keys "
            "would move: set `partitions` to what the topics have, or start anew under another "
            "`topics.prefix`"
        )


def tune_collector() -> None:
    """Let the garbage collector look less often.

    A role keeps thousands of conversations and makes dozens of values per turn, hardly ever in
    cycles; by default a fifth of its time would go into looking for them.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def run(name: RoleName, settings: Settings) -> NoReturn:
    """Run a role until it is told to stop.

    Exits `EXIT_REFUSED` when topics or schemas are not as they must be, `EXIT_FAILED` when brokers
    or the registry are away.

    Raises:
        CatalogError: the catalog cannot be used.
        DeploymentError: a decider or classifier cannot be made, or the environment asks for metrics
            of many processes in one place.
        MetricsAddressUnusable: the address for metrics cannot be listened on.
        SecretUnavailable: a reference to a secret that the role needs leads nowhere, or a
            certificate cannot be used.
    """
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # Read when prometheus_client was imported: every series of the process would go to files.
        raise DeploymentError(
            "metrics: multiprocess mode is not supported; unset PROMETHEUS_MULTIPROC_DIR, each "
            "process serves its own port"
        )
    deployment = Deployment(settings, settings.catalog)
    role = build_role(name, deployment)
    check_secrets(name, settings=settings, catalog=deployment.catalog)
    stream = stream_settings(role, settings)
    app = build_app(
        stream,
        handler=role.handler,
        state_format=role.state_format,
        observer=cast("Observer", deployment.metrics),
        owned=role.owned,
    )
    try:
        asyncio.run(_prepared(deployment, role))
    except (LaneFailed, StartRefused) as error:
        end_process(error)
    except SchemasAway as error:
        end_process(LaneFailed(str(error)))
    except SchemasUnavailable as error:
        end_process(StartRefused(str(error)))
    heartbeat = Heartbeat()

    @app.task  # type: ignore[untyped-decorator]
    async def beat() -> None:
        await heartbeat.run()

    if role.close is not None:
        # Sent when the lanes are closed: no handler uses any more what the role holds.
        app.on_before_shutdown.connect(_closing(role.close))

    asking = settings.shadow if name == "shadow" else settings.decide
    health = Health(
        heartbeat,
        app.ownership,
        stall_limit(
            stream,
            catalog=deployment.catalog,
            decider_patience_seconds=asking.decider_patience_seconds,
            decider_timeout_seconds=asking.decider_timeout_seconds,
        ),
    )
    deployment.metrics.watch_brokers(app.role.heartbeats.silence)
    if settings.metrics.port is not None:
        server = MetricsServer(
            deployment.registry,
            host=settings.metrics.host,
            port=settings.metrics.port,
            problems=health.problems,
            facts=health.facts,
        )
        log.info("metrics", url=f"http://{settings.metrics.host}:{server.port}/metrics")
    log.info(
        "starting",
        role=name,
        group=settings.group(name),
        catalog=deployment.loaded.decision_version,
    )
    tune_collector()
    run_worker(app)


async def _prepared(deployment: Deployment, role: StreamRole[Any, Any]) -> None:
    await check_topics(topics_of(role, deployment.settings), deployment.settings)
    await deployment.publish_schemas(role.writes)


def _closing(close: Callable[[], Any]) -> Callable[..., Any]:
    async def closed(_app: object, **_: object) -> None:
        await close()

    return closed
