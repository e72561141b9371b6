"""A role as a Faust app: group membership and life cycle by Faust, delivery by the lanes."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, TypeVar, cast

import faust
import mode.loop
from faust.app.base import BootStrategy

from turnstream.stream import failpoints
from turnstream.stream.consumer import LaneConsumer, LaneTables, LaneTransport
from turnstream.stream.observer import NullObserver
from turnstream.stream.ownership import Ownership
from turnstream.stream.role import Role
from turnstream.stream.start import check_start

if TYPE_CHECKING:
    from typing import NoReturn

    from faust.types import StreamT

    from turnstream.stream.handler import Handler, StateFormat
    from turnstream.stream.observer import Observer
    from turnstream.stream.role import Owned
    from turnstream.stream.settings import StreamSettings

S = TypeVar("S")
E = TypeVar("E")

logger = logging.getLogger(__name__)


class _Boot(BootStrategy):
    """Starts no producer of Faust's: everything is sent by the lanes."""

    enable_kafka_producer = False
    enable_web = False


class StreamApp(faust.App):
    """The app of one role."""

    BootStrategy = _Boot

    def __init__(self, role: Role[Any], **options: Any) -> None:
        self.role = role
        self.stream_settings = role.settings
        self.ownership: Ownership[Any] = Ownership(role)
        super().__init__(role.settings.group, **options)

    def _new_transport(self) -> LaneTransport:
        return LaneTransport(self.conf.broker_consumer, self)

    async def on_start(self) -> None:
        """Check topics and offsets before anything joins the group."""
        try:
            failpoints.arm(os.environ)
            found = await check_start(self.stream_settings)
            self.ownership.dead_letter_topics = found.dead_letters
            self.ownership.partitions = found.partitions
        except Exception as error:  # noqa: BLE001 - whatever it is, the start is refused
            self.role.fail(error)
        await super().on_start()

    async def take_over(self, generation: int) -> bool:
        """Take over the lanes of the assignment of that generation, then let records flow.

        Returns:
            False if the group rebalances again; the next assignment follows.
        """
        consumer = self.consumer
        if not isinstance(consumer, LaneConsumer):
            message = f"expected the lanes' consumer, got {consumer!r}"
            raise TypeError(message)
        await self.on_rebalance_complete.send()
        if self.should_stop:
            # The lanes have been given up for good, and nobody would close these.
            return False
        sources = set(self.stream_settings.sources)
        partitions = {tp.partition for tp in consumer.assignment() if tp.topic in sources}
        try:
            acquired = await self.ownership.acquire(partitions, positions=consumer.positions)
        except Exception as error:  # noqa: BLE001 - a lane that cannot open ends the process
            self.role.fail(error)
            return False
        if not acquired or generation != self.consumer_generation_id:
            return False
        self.flow_control.resume()
        consumer.resume_flow()
        await self._fetcher.maybe_start()
        tables = cast("LaneTables", self.tables)
        tables.on_actives_ready()
        tables.on_standbys_ready()
        self.on_rebalance_end()
        return True

    async def _stop_consumer(self) -> None:
        """Give the lanes up while the consumer still heartbeats, then stop it."""
        if self._consumer is not None:
            self._consumer.stop_flow()
            await self.ownership.release()
        await super()._stop_consumer()

    def _on_rebalance_when_stopped(self) -> None:
        """Do nothing: the consumer's thread leaves the group when it stops.

        Faust would close the client here, on this thread's loop, though all of it belongs to the
        other one. What waits there is then not woken, and the group is never left.
        """

    def _crash(self, reason: BaseException) -> None:
        """End the process when any service of Faust's crashes, unless it is stopping anyway."""
        if not self.should_stop:
            self.role.fail(reason)
        super()._crash(reason)


def build_app(
    settings: StreamSettings,
    *,
    handler: Handler[S, E],
    state_format: StateFormat[S],
    observer: Observer | None = None,
    owned: Owned[S] | None = None,
    role: Role[S] | None = None,
) -> StreamApp:
    """Return the app of a role, not started.

    Args:
        settings: The role's stream.
        handler: Its work.
        state_format: How its state is stored.
        observer: Where it reports to.
        owned: What it keeps per owned partition.
        role: Everything at once, with another clock or end of the process.
    """
    if role is None:
        role = Role(settings, handler, state_format, observer or NullObserver(), owned=owned)
    app = StreamApp(
        role,
        broker=[f"kafka://{server}" for server in settings.bootstrap_servers.split(",")],
        store="memory://",
        # Nothing is ever written there: tables hold no data of ours.
        datadir=tempfile.gettempdir(),
        TableManager=LaneTables,
        agent_supervisor="mode.CrashingSupervisor",
        autodiscover=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        web_enabled=False,
        broker_request_timeout=settings.request_timeout_ms / 1000,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.heartbeat_interval_ms / 1000,
        broker_rebalance_timeout=settings.rebalance_timeout_ms / 1000,
    )
    sources = app.topic(*settings.sources, key_type=bytes, value_type=bytes)
    # Without a table Faust chooses an assignor that does not keep partition numbers together.
    app.Table(
        "state",
        changelog_topic=app.topic(settings.changelog, key_type=bytes, value_type=bytes),
    )

    # The agent is what subscribes the app to its sources.
    @app.agent(sources)
    async def sources_agent(stream: StreamT[bytes]) -> None:
        async for _ in stream:
            message = "a source record reached a Faust stream: the consumer override is not used"
            raise RuntimeError(message)

    return app


def run_worker(app: StreamApp) -> NoReturn:
    """Run an app until SIGTERM or SIGINT, then drain within the grace and exit 0.

    Logging is left as the program has set it up. Exits `EXIT_REFUSED` when the start is refused
    and `EXIT_FAILED` when delivery failed.
    """
    mode.loop.use("uvloop")
    worker = faust.Worker(
        app,
        loglevel="info",
        override_logging=False,
        redirect_stdouts=False,
        quiet=True,
        stdout=sys.stderr,
    )
    # It writes control sequences to the terminal although nobody sees it.
    worker.spinner = None
    worker.execute_from_commandline()
