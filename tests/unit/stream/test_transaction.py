"""A lane's producer is not begun before the brokers name a node."""

from typing import cast

import pytest
from aiokafka.client import AIOKafkaClient

from turnstream.stream import transaction
from turnstream.stream.role import LaneFailed
from turnstream.stream.transaction import wait_for_nodes


class Client:
    """A client of brokers that name a node at the given look."""

    def __init__(self, named_at: int) -> None:
        self.named_at = named_at
        self.looks = 0
        self.bootstraps = 0
        self.cluster = self

    def brokers(self) -> list[str]:
        """The nodes that are known."""
        return ["node"] if self.looks >= self.named_at else []

    async def bootstrap(self) -> None:
        """Connect; the answer may name no node."""
        self.bootstraps += 1

    async def force_metadata_update(self) -> None:
        """Ask once more."""
        self.looks += 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(transaction, "_NODE_SECONDS", 0)


@pytest.mark.parametrize("named_at", [0, 1, 20])
async def test_a_node_is_waited_for(named_at: int) -> None:
    """Brokers that have just come back name one after a while; the connection is made once."""
    client = Client(named_at)
    wait_for_nodes(cast("AIOKafkaClient", client), servers="k:9092")

    await client.bootstrap()

    assert (1, named_at) == (client.bootstraps, client.looks)


async def test_brokers_that_name_none_are_named() -> None:
    """The wait has an end, and says what to do."""
    client = Client(21)
    wait_for_nodes(cast("AIOKafkaClient", client), servers="k:9092")

    with pytest.raises(LaneFailed, match="brokers at k:9092 name no node yet; restart"):
        await client.bootstrap()
