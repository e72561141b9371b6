"""The section of a decision model: which one, how it is asked, what its numbers mean."""

from typing import Literal

from pydantic import Field

from turnstream.config.connectors import BaseUrl, Price
from turnstream.config.secrets import SecretRef
from turnstream.config.section import Section


class StepCriteria(Section):
    """What each kind of step means; the model chooses by these texts, so write them with care."""

    answer: str = Field(
        default="answer at once, without a tool: what the customer needs is known already",
        min_length=1,
    )
    tool: str = Field(
        default="call a tool: it fits the request, and all that it needs is known", min_length=1
    )
    ask: str = Field(
        default="ask the customer: something that the right tool needs is missing, and they can "
        "say it",
        min_length=1,
    )
    cannot: str = Field(
        default="none of these: no tool and no answer fits, a rule forbids it, or the customer "
        "wants a person",
        min_length=1,
    )


class DecisionsSettings(Section):
    """A decision model behind a decisions API.

    It chooses one of the options that it is given and writes nothing: first the kind of step, then
    the tool or the approved answer. Code fills the arguments.
    """

    kind: Literal["decisions"]
    base_url: BaseUrl
    """Root of the service; ``/api/alpha/decisions`` is added. Redirects are not followed."""
    model: str = Field(min_length=1, max_length=200)
    """Name of the model, as the service knows it."""
    api_key: SecretRef | None = None
    """Reference to the key, sent as a bearer token; it is read at each call."""
    timeout_seconds: float = Field(default=10, gt=0, le=300)
    """How long one question may take. A decision takes up to two of them, within
    `decider_timeout_seconds`."""
    price: Price | None = None
    """For the cost in the diagnostics, where the service itself names none."""
    instructions: str = Field(
        default="What must the assistant of this service do next?", min_length=1
    )
    """The question for the kind of step."""
    criteria: StepCriteria = StepCriteria()
    """Its four options."""
    merge_steps_up_to: int = Field(default=0, ge=0, le=100)
    """Number of tools up to which step and tool are chosen by one question: each tool is an option
    beside answer, ask and cannot, which are never left out."""
    confidence: Literal["provider", "probability"] = "provider"
    """What thresholds are compared with. `provider`: the number that the service calls its
    confidence, the least of the questions'. `probability`: the product of the probabilities of what
    was chosen, which is also taken where the service gives no confidence."""
    confidence_means: str = Field(default="not documented", min_length=1, max_length=120)
    """What the service says that its confidence is; written into every decision's diagnostics."""
    arguments_by: str | None = None
    """Name of one of `deciders`, an agent model, that writes the arguments of the chosen tool by a
    second call. By default they are extracted from the conversation."""
    state_characters: int = Field(default=24_000, ge=1_000, le=1_000_000)
    """Longest conversation that is shown, in characters; the oldest lines are left out."""
