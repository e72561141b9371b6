"""The embedded broker: librdkafka's in-process cluster, for a demo that needs no Java.

It speaks Kafka's protocol with groups, offsets and transactions, keeps everything in memory, and
ends with the process that opened it. What its clients must know:

- it has no CreateTopics: a topic appears on first use, with 4 partitions;
- batches of transactions fail aiokafka's checksum test: consumers set `check_crcs=False`;
- nothing survives it, so it proves nothing about delivery.
"""

from types import TracebackType
from typing import Final, Protocol, Self

from turnstream.demo.errors import BrokerError

__all__ = ["PARTITIONS", "EmbeddedBroker"]

PARTITIONS: Final = 4
"""How many partitions every topic has."""

START_SECONDS: Final = 30.0
"""The cluster is up in milliseconds; a library that hangs must not hang the demo."""


class _Node(Protocol):
    host: str
    port: int


class EmbeddedBroker:
    """One in-process broker, opened with `with` or `start()`."""

    def __init__(self) -> None:
        """Prepares a broker without opening it."""
        self._owner: object | None = None  # the cluster lives as long as this client does
        self._bootstrap: str | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:PORT`, known while the broker is open."""
        if self._bootstrap is None:
            raise BrokerError("the embedded broker is not open: call start() first")
        return self._bootstrap

    def start(self) -> None:
        """Opens the broker.

        Raises:
            BrokerError: The extra `embedded` is not installed, or the library gave no address.
        """
        if self._owner is not None:
            return
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError as error:
            raise BrokerError(
                "the embedded broker needs confluent-kafka: install turnstream[embedded], or use "
                "a real Kafka (--kafka)"
            ) from error
        owner = Producer(
            {
                "bootstrap.servers": "embedded",  # replaced by the cluster's own address
                "test.mock.num.brokers": 1,
                "log_level": 3,  # else it prints a notice that its cluster is enabled
            }
        )
        try:
            nodes: list[_Node] = list(owner.list_topics(timeout=START_SECONDS).brokers.values())
        except KafkaException as error:
            raise BrokerError(f"the embedded broker did not answer: {error}") from error
        if not nodes:
            raise BrokerError(
                "the embedded broker has no address: the installed confluent-kafka lacks "
                "librdkafka's in-process cluster; use a real Kafka (--kafka)"
            )
        self._owner = owner
        self._bootstrap = f"{nodes[0].host}:{nodes[0].port}"

    def close(self) -> None:
        """Closes the broker; everything in it is gone."""
        self._owner = None
        self._bootstrap = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
