"""The conversation that every adapter is tried with, by its server and by real models.

The customer asks for an order without naming it. The model asks which; looks the order up; answers
with the result. Then the customer asks when the shop opens, and the model gives the approved text.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from tests.driving import Driver
from turnstream.core.publications import ActionEvent

STATUS: Final[dict[str, JsonValue]] = {"status": "shipped", "total": 20.0}
ANSWER: Final = "Order A-7 is shipped; it costs 20.0."
"""Of the model's own words, and of the approved text: the same."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the conversation came to."""

    steps: tuple[str, ...]
    """Action of each step, with what it is about."""
    texts: tuple[str, ...]
    """What the customer was shown."""


EXPECTED: Final = Outcome(
    ("ask order_id", 'call_tool get_order {"order_id":"A-7"}', "answer", "answer"),
    ("Which order?", ANSWER, "We open at nine."),
)


def play(driver: Driver) -> Outcome:
    """Let the customer write, the tool reply and the answers be composed."""
    driver.turn("Where is my order?")
    texts = [driver.message.text]
    driver.turn("A-7")
    driver.result(STATUS)
    texts.append(compose(driver))
    driver.turn("And when do you open?")
    texts.append(compose(driver))
    return Outcome(tuple(_step(one) for one in driver.actions), tuple(texts))


def compose(driver: Driver) -> str:
    """Do what the answer role does: fill in an approved text, or give the model's own."""
    answer = driver.action.answer
    assert answer is not None
    texts = {"order_status": ANSWER, "hours": "We open at nine."}
    text = answer.text if answer.answer_id is None else texts[answer.answer_id]
    assert text is not None
    driver.answered(text=text)
    return text


def _step(action: ActionEvent) -> str:
    done = action.decision.action
    if action.question is not None:
        return f"{done} {action.question.field}"
    if action.call is not None:
        return f"{done} {action.call.tool} {action.call.arguments_json}"
    return done
