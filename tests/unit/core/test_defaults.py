"""The defaults that decisions depend on: changing one changes what customers meet."""

from turnstream.core.agents import Agent
from turnstream.core.ruleset import Limits

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def test_an_agent_takes_eight_steps_and_asks_twice() -> None:
    """Unless its entry in the catalog says otherwise."""
    agent = Agent(description="", decider="d")

    assert (8, 2) == (agent.max_steps, agent.max_questions)


def test_limits_are_the_documented_ones() -> None:
    """A turn is too old after 15 minutes; an idle conversation ends after a week."""
    assert (
        Limits(
            max_turn_age_ms=15 * MINUTE,
            conversation_ttl_ms=7 * DAY,
            question_ttl_ms=30 * DAY,
            answer_deadline_ms=30_000,
            queue_allowance_ms=30_000,
            history_messages=30,
            history_characters=16_000,
            message_characters=4_000,
            result_bytes=32_768,
            facts_bytes=49_152,
            remembered_facts=8,
            passages_bytes=24_576,
            remembered_turns=256,
            remembered_messages=16,
            max_rejections=2,
            bot_actors=frozenset(),
        )
        == Limits()
    )
