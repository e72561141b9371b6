"""Where schemas are published and looked up: a compacted topic of ours, or a schema registry.

With a registry, values carry its ids (Confluent framing). Without one, they carry fingerprints, and
the schemas behind them travel on the topic `turnstream.schemas` (key: fingerprint in hex, value:
the schema's JSON). Either way writers publish before their first record, so that a reader which
meets a newer writer finds its schema.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import httpx
import orjson
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from turnstream.config import Settings
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import Event
from turnstream.stream.clients import started
from turnstream.stream.codec import Codec, NotAvro
from turnstream.stream.contracts import (
    EVENTS,
    UnusableSchema,
    newest,
    packaged,
    read_schema,
    subject_of,
)
from turnstream.stream.outage import is_outage

_log = structlog.get_logger(__name__)

# A partition waits for a lookup; a broker or registry that hangs must not hold it for ever.
_LOOKUP_SECONDS: Final = 15.0
_NOT_FOUND: Final = 404
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class SchemasUnavailable(TurnstreamError):
    """The schemas topic or the registry fails; the message says what to do."""


class SchemasAway(SchemasUnavailable):
    """They do not answer now; another try may find them."""


class SchemasTopic:
    """The compacted topic of schemas; a `SchemaSource` by fingerprint."""

    def __init__(
        self,
        topic: str,
        *,
        client_options: Callable[[], Mapping[str, object]],
        check_crcs: bool = True,
    ) -> None:
        """Use a topic.

        Args:
            topic: Physical name.
            client_options: Gives what aiokafka's clients take, `bootstrap_servers` included;
                called for each connection, so that a changed secret is used.
            check_crcs: False only for the embedded broker.
        """
        self._topic = topic
        self._options = client_options
        self._check_crcs = check_crcs

    async def fetch(self, reference: str) -> str | None:
        """Return the schema with this fingerprint; None when the topic has none.

        Raises:
            SchemasUnavailable: The topic cannot be read.
        """
        if reference.startswith("id:"):
            return None
        return (await self.read()).get(reference)

    async def read(self) -> dict[str, str]:
        """Read the whole topic: fingerprint to schema. What is not its own fingerprint is left out.

        Raises:
            SchemasUnavailable: The topic cannot be read.
        """
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                records = await self._read_to_end()
        except (KafkaError, TimeoutError) as error:
            raise _kind(error)(
                f"cannot read topic {self._topic!r} ({error!r}): is the broker up, and has "
                "`turnstream topics apply` been run?"
            ) from error
        return {key: text for key, text in records.items() if self._is_its_own(key, text)}

    async def publish(self, schemas: Mapping[str, str]) -> None:
        """Publish schemas, fingerprint to JSON; returns when the broker has them.

        Raises:
            SchemasUnavailable: The topic cannot be written.
        """
        producer = AIOKafkaProducer(**self._options(), acks="all")
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS), started(producer):
                for key, text in sorted(schemas.items()):
                    await producer.send(self._topic, value=text.encode(), key=key.encode())
                await producer.flush()
        except (KafkaError, TimeoutError) as error:
            raise _kind(error)(
                f"cannot write to topic {self._topic!r} ({error!r}): is the broker up, and has "
                "`turnstream topics apply` been run?"
            ) from error

    async def _read_to_end(self) -> dict[str, str]:
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._options(),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=self._check_crcs,
        )
        found: dict[str, str] = {}
        async with started(consumer):
            ends = await consumer.end_offsets(consumer.assignment())
            waiting = {partition for partition, end in ends.items() if end > 0}
            while waiting:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    for record in batch:
                        if record.key and record.value:
                            key = record.key.decode(errors="replace")
                            found[key] = record.value.decode(errors="replace")
                for partition in list(waiting):
                    if await consumer.position(partition) >= ends[partition]:
                        waiting.discard(partition)
        return found

    def _is_its_own(self, key: str, text: str) -> bool:
        try:
            actual = read_schema(text).fingerprint
        except UnusableSchema as error:
            _log.warning("schema_record_unusable", topic=self._topic, key=key, error=str(error))
            return False
        if actual != key:
            _log.warning("schema_record_misfiled", topic=self._topic, key=key, fingerprint=actual)
        return actual == key


def _kind(error: KafkaError | TimeoutError) -> type[SchemasUnavailable]:
    passes = isinstance(error, TimeoutError) or is_outage(error)
    return SchemasAway if passes else SchemasUnavailable


class RegistryClient:
    """A Confluent-compatible schema registry; a `SchemaSource` by id."""

    def __init__(
        self,
        url: str,
        *,
        auth: Callable[[], str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Use a registry.

        Args:
            url: Its root, `http://registry:8081` say.
            auth: Gives `user:password`; called for each request, so that a changed secret is used.
            transport: In place of httpx's own.
        """
        self._url = url.rstrip("/")
        self._auth = auth
        self._transport = transport
        self._by_id: dict[int, str] = {}

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        """The authorities to trust: read once, since that takes longer than a request."""
        return httpx.create_ssl_context()

    async def fetch(self, reference: str) -> str | None:
        """Return the schema with this id; None when the registry has none.

        Raises:
            NotAvro: The id names a schema of another kind.
            SchemasUnavailable: The registry does not answer.
        """
        if not reference.startswith("id:"):
            return None
        schema_id = int(reference[3:])
        if schema_id in self._by_id:
            return self._by_id[schema_id]
        response = await self._request("GET", f"/schemas/ids/{schema_id}")
        if response.status_code == _NOT_FOUND:
            return None
        answer = self._json(response)
        if (kind := answer.get("schemaType", "AVRO")) != "AVRO":
            raise NotAvro(f"the registry says that this is a {kind} schema, expected Avro")
        text = answer.get("schema")
        if not isinstance(text, str):
            raise SchemasUnavailable(f"{self._url} gave no schema for id {schema_id}")
        self._by_id[schema_id] = text
        return text

    async def register(self, subject: str, text: str) -> int:
        """Register a schema as the newest version of a subject; return its id.

        A schema that the subject has already keeps its id.

        Raises:
            SchemasUnavailable: The registry does not answer, or refuses: its compatibility rule of
                the subject and ours (FULL_TRANSITIVE) differ, or the subject is another service's.
        """
        body = orjson.dumps({"schema": text})
        response = await self._request("POST", f"/subjects/{subject}/versions", body)
        schema_id = self._json(response).get("id")
        if not isinstance(schema_id, int):
            raise SchemasUnavailable(f"{self._url} registered {subject!r} without giving an id")
        return schema_id

    async def has(self, subject: str, text: str) -> bool:
        """Whether a subject has this schema as one of its versions.

        Raises:
            SchemasUnavailable: The registry does not answer, or refuses.
        """
        body = orjson.dumps({"schema": text})
        response = await self._request("POST", f"/subjects/{subject}", body)
        if response.status_code == _NOT_FOUND:
            return False
        return "id" in self._json(response)

    async def compatible(self, subject: str, text: str) -> bool:
        """Whether a subject would take this schema as its next version; a new one takes any.

        Raises:
            SchemasUnavailable: The registry does not answer, or refuses.
        """
        body = orjson.dumps({"schema": text})
        path = f"/compatibility/subjects/{subject}/versions/latest"
        response = await self._request("POST", path, body)
        if response.status_code == _NOT_FOUND:
            return True
        return self._json(response).get("is_compatible") is True

    async def _request(self, method: str, path: str, body: bytes | None = None) -> httpx.Response:
        auth = None
        if self._auth is not None:
            user, _, password = self._auth().partition(":")
            auth = httpx.BasicAuth(user, password)
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": f"{_MEDIA_TYPE}, application/json"}
        try:
            async with httpx.AsyncClient(
                timeout=_LOOKUP_SECONDS, transport=self._transport, verify=self._trusted
            ) as client:
                return await client.request(
                    method, self._url + path, content=body, headers=headers, auth=auth
                )
        except httpx.HTTPError as error:
            raise SchemasAway(
                f"schema registry {self._url} does not answer ({type(error).__name__})"
            ) from error

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        path = response.request.url.path
        if response.is_error:
            raise (SchemasAway if response.is_server_error else SchemasUnavailable)(
                f"schema registry {self._url} refused {path}: {response.status_code} "
                f"{response.text[:300]}"
            )
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise SchemasUnavailable(f"{self._url}{path} gave no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise SchemasUnavailable(f"{self._url}{path} gave {type(answer).__name__}, not a dict")
        return answer


@dataclass(frozen=True, slots=True)
class SubjectView:
    """A subject of the registry beside the schema that we would write."""

    subject: str
    state: Literal["registered", "compatible", "incompatible"]
    """`compatible`: not there yet, and it would be taken."""


async def subjects_of(settings: Settings, client: RegistryClient) -> tuple[SubjectView, ...]:
    """Compare the newest packaged schemas with a registry, without changing it.

    Raises:
        SchemasUnavailable: The registry does not answer, or refuses.
    """
    views: list[SubjectView] = []
    for topic in EVENTS:
        subject, text = subject_of(settings.topics.name(topic)), newest(topic).text
        if await client.has(subject, text):
            views.append(SubjectView(subject, "registered"))
        elif await client.compatible(subject, text):
            views.append(SubjectView(subject, "compatible"))
        else:
            views.append(SubjectView(subject, "incompatible"))
    return tuple(views)


def codec_for(settings: Settings) -> Codec:
    """Make a codec that looks unknown schemas up where this deployment keeps them."""
    store = store_for(settings)
    refused = settings.refused_schemas
    if isinstance(store, RegistryClient):
        # Values from before the registry came carry fingerprints: the topic is asked as well.
        return Codec((store, _schemas_topic(settings)), registry=True, refused=refused)
    return Codec((store,), refused=refused)


def store_for(settings: Settings) -> SchemasTopic | RegistryClient:
    """Give the place where this deployment publishes schemas."""
    if settings.registry is None:
        return _schemas_topic(settings)
    auth = settings.registry.auth
    return RegistryClient(settings.registry.url, auth=auth.resolve if auth else None)


async def publish_schemas(codec: Codec, topics: Iterable[str], *, settings: Settings) -> None:
    """Publish the schemas of the topics that a process writes; call it before the first record.

    In a registry, each newest schema is registered under `<physical topic>-value`, and the codec
    writes the ids from then on. On the topic, all packaged versions are written.

    Args:
        codec: Of the process.
        topics: Logical topics that it writes.
        settings: Of the deployment.

    Raises:
        SchemasUnavailable: They could not be published; nothing must be written then.
    """
    store = store_for(settings)
    if isinstance(store, SchemasTopic):
        versions = [schema for topic in topics for schema in packaged(topic).values()]
        await store.publish({schema.fingerprint: schema.text for schema in versions})
        return
    ids: dict[type[Event], int] = {}
    for topic in topics:
        subject = subject_of(settings.topics.name(topic))
        ids[EVENTS[topic]] = await store.register(subject, newest(topic).text)
    codec.use_registered_ids(ids)


def _schemas_topic(settings: Settings) -> SchemasTopic:
    return SchemasTopic(
        settings.topics.name("turnstream.schemas"),
        client_options=settings.kafka.client_options,
        check_crcs=settings.kafka.check_crcs,
    )
