"""A whole deployment on this machine: broker, topics, the shop, every role as a process of its own.

Everything that is started here is stopped here, in the reverse order, whatever happens in between.
Its files - configuration, catalogs, one log per process - are in one folder, which is kept when
something went wrong.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from pydantic import JsonValue

from turnstream.config import Settings, load_settings
from turnstream.demo.children import Child, start, stop
from turnstream.demo.embedded import EmbeddedBroker
from turnstream.demo.kafka import KafkaBroker
from turnstream.demo.overlay import write_deployment
from turnstream.demo.role_process import NotReady, RoleProcess
from turnstream.roles.run import ROLES, RoleName
from turnstream.stream.topics import apply, wanted_topics

T = TypeVar("T")

KAFKA_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
"""Names a running cluster for `--kafka`; without it one is started."""

SHOP_SECONDS: Final = 30.0
"""The shop is up in a second; on a busy machine ten times that, never for ever."""

_POLL_SECONDS: Final = 0.05
_OVERRIDES: Final = "TURNSTREAM_"


@dataclass
class Stack:
    """What runs."""

    folder: Path
    configuration: Path
    settings: Settings
    shop_url: str = ""
    children: list[Child] = field(default_factory=list)
    roles: dict[RoleName, RoleProcess] = field(default_factory=dict)
    keep_files: bool = False
    """Set when something went wrong that the logs may explain."""

    async def watch(self) -> None:
        """Return when all processes have been stopped; raise when one ends by itself.

        Raises:
            ChildDied: One ended and nobody had told it to.
        """
        await asyncio.gather(*(child.watch() for child in self.children))

    async def while_running(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something, unless a process ends by itself first.

        Raises:
            ChildDied: One ended and nobody had told it to.
        """
        working, watching = asyncio.create_task(work), asyncio.create_task(self.watch())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await watching
            return await working
        finally:
            watching.cancel()
            working.cancel()
            await asyncio.wait({working, watching})


@asynccontextmanager
async def running_stack(*, real_kafka: bool, report: Callable[[str], None]) -> AsyncIterator[Stack]:
    """Start everything, and stop it in the end.

    Args:
        real_kafka: On a real Kafka, else on the embedded broker.
        report: Told what is done now, one line at a time.

    Raises:
        BrokerError: The broker cannot be started.
        TopicsRefused: The topics cannot be created.
        ChildDied: A process did not come up.
        NotReady: A process did not come up in time.
    """
    _forget_overrides()
    folder = Path(tempfile.mkdtemp(prefix="turnstream-demo-"))
    stack: Stack | None = None
    failed = False
    try:
        async with AsyncExitStack() as cleanup:
            bootstrap, lasting = await _broker(cleanup, real_kafka=real_kafka, report=report)
            # A cluster that others use too gets topics of this run's own, removed in the end.
            prefix = f"demo-{uuid.uuid4().hex[:8]}." if lasting else ""
            patch: dict[str, JsonValue] = {
                "kafka": {"bootstrap_servers": bootstrap, "check_crcs": real_kafka},
                "topics": {"prefix": prefix},
            }
            configuration = write_deployment(folder, patch)
            stack = Stack(folder, configuration, load_settings(configuration))
            report(f"creating the topics {prefix}*" if prefix else "creating the topics")
            if real_kafka:
                if lasting:
                    cleanup.push_async_callback(_delete_topics, stack.settings)
                await apply(stack.settings)
            else:
                await _touch_topics(stack.settings)
            cleanup.push_async_callback(stop, stack.children)
            http = await cleanup.enter_async_context(httpx.AsyncClient(trust_env=False))
            await _start_shop(stack)
            report(f"starting {', '.join(ROLES)}")
            await _start_roles(stack, http, report=report)
            report(f"ready; logs and configuration in {folder} (deleted at the end if all is well)")
            yield stack
            report("stopping")
    except Exception:
        failed = True
        raise
    finally:
        explains = stack is not None and stack.children and (failed or stack.keep_files)
        if not explains:
            shutil.rmtree(folder, ignore_errors=True)


async def _broker(
    cleanup: AsyncExitStack, *, real_kafka: bool, report: Callable[[str], None]
) -> tuple[str, bool]:
    """The broker's address, and whether it was there before and stays."""
    if not real_kafka:
        report("opening the embedded broker")
        embedded = EmbeddedBroker()
        cleanup.callback(embedded.close)
        embedded.start()
        return embedded.bootstrap, False
    named = os.environ.get(KAFKA_VARIABLE)
    if named:
        report(f"using the Kafka at {named}")
        return named, True
    report("starting a real Kafka (the first time it is downloaded)")
    broker = KafkaBroker()
    cleanup.callback(broker.close)
    await asyncio.to_thread(broker.start)
    return broker.bootstrap, False


async def _touch_topics(settings: Settings) -> None:
    """Make the embedded broker's topics: it has no request for it, naming one is enough."""
    admin = _admin(settings)
    await admin.start()
    try:
        await admin.describe_topics([topic.name for topic in wanted_topics(settings)])
    finally:
        await admin.close()


async def _delete_topics(settings: Settings) -> None:
    admin = _admin(settings)
    # The run is over; what cannot be removed is the cluster's to expire.
    with contextlib.suppress(KafkaError, OSError):
        await admin.start()
        try:
            await admin.delete_topics([topic.name for topic in wanted_topics(settings)])
        finally:
            await admin.close()


def _admin(settings: Settings) -> AIOKafkaAdminClient:
    options: dict[str, Any] = settings.kafka.client_options()
    return AIOKafkaAdminClient(**options)


async def _start_shop(stack: Stack) -> None:
    shop = await start(
        "shop",
        [sys.executable, "-m", "turnstream.demo.shop"],
        log=stack.folder / "shop.log",
        environment=_environment(),
    )
    stack.children.append(shop)
    try:
        async with asyncio.timeout(SHOP_SECONDS):
            while not (address := _address(shop)):
                if shop.process.returncode is not None:
                    await shop.watch()
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise NotReady(f"the shop did not come up; its log is {shop.log}") from None
    stack.shop_url = address


def _address(shop: Child) -> str:
    for line in shop.log.read_text(errors="replace").splitlines():
        if line.startswith("shop: "):
            return line.removeprefix("shop: ").strip()
    return ""


async def _start_roles(
    stack: Stack, http: httpx.AsyncClient, *, report: Callable[[str], None]
) -> None:
    environment = _environment() | {"SHOP_URL": stack.shop_url}
    for name in ROLES:
        command = ["-m", "turnstream.cli", "run", name, "--config", str(stack.configuration)]
        child = await start(
            name,
            [sys.executable, *command],
            log=stack.folder / f"{name}.log",
            environment=environment,
        )
        stack.children.append(child)
        stack.roles[name] = RoleProcess(name, child, http)
    ready = (_ready(role, stack, report=report) for role in stack.roles.values())
    await stack.while_running(_all(ready))


async def _ready(role: RoleProcess, stack: Stack, *, report: Callable[[str], None]) -> None:
    await role.ready(stack.settings.partitions)
    report(f"{role.name} is ready")


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*work)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONUNBUFFERED": "1"}


def _forget_overrides() -> None:
    """Drop settings that the environment holds for another deployment: they would win over ours."""
    for name in list(os.environ):
        if name.upper().startswith(_OVERRIDES):
            del os.environ[name]
