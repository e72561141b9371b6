"""What the topic commands say of a broker that cannot administer topics."""

import pytest
from aiokafka import AIOKafkaProducer

from turnstream.config import KafkaSettings, Settings, TopicSettings
from turnstream.stream.topics import TopicsUnsupported, plan


async def test_the_embedded_broker_is_not_taken_for_a_broken_one(embedded_bootstrap: str) -> None:
    """The error names what the broker lacks, so that doctor does not send anybody after it."""
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=embedded_bootstrap))
    async with AIOKafkaProducer(bootstrap_servers=embedded_bootstrap) as producer:
        await producer.send_and_wait("conversation.turns", b"makes the topic")

    with pytest.raises(TopicsUnsupported, match="does not tell the settings of topics"):
        await plan(settings)


async def test_nor_where_none_of_the_topics_is_there(embedded_bootstrap: str) -> None:
    """Another prefix, as somebody gives it who tries out a configuration of their own."""
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=embedded_bootstrap),
        topics=TopicSettings(prefix="lib."),
    )

    with pytest.raises(TopicsUnsupported, match="does not tell the settings of topics"):
        await plan(settings)
