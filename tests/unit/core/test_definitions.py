"""Tests of turnstream.core.definitions."""

import pytest
from pydantic import JsonValue, ValidationError

from turnstream.core.agents import STOPS, Agent
from turnstream.core.bindings import FunctionBinding, HttpBinding, HttpReconcile
from turnstream.core.definition import Definition
from turnstream.core.definitions import FieldDefinition, RetryPolicy, Tool
from turnstream.core.errors import DefinitionError


def test_a_leading_name_in_capitals_is_the_base_url() -> None:
    """The base URL comes from the environment; the arguments stay to be filled in."""
    binding = HttpBinding(url="{SHOP_URL}/orders/{order_id}")

    assert "SHOP_URL" == binding.variable

    filled = binding.with_variables({"SHOP_URL": "http://127.0.0.1:8080/"})

    assert "http://127.0.0.1:8080/orders/{order_id}" == filled.url
    assert filled.variable is None
    assert filled == filled.with_variables({})


def test_the_question_about_a_write_has_a_base_url_too() -> None:
    """It may be another service."""
    binding = HttpBinding(
        url="http://127.0.0.1:1/refunds",
        reconcile=HttpReconcile(url="{LEDGER_URL}/by-key/{idempotency_key}"),
    )

    filled = binding.with_variables({"LEDGER_URL": "http://127.0.0.1:2"}).reconcile

    assert filled is not None
    assert "http://127.0.0.1:2/by-key/{idempotency_key}" == filled.url


@pytest.mark.parametrize(
    "base", [None, "", "127.0.0.1:8080", "ftp://x", "https://u:p@x", "http://"]
)
def test_a_wrong_base_url_names_its_variable(base: str | None) -> None:
    """An absent variable, or one that holds no plain base URL, stops the start."""
    binding = HttpBinding(url="{SHOP_URL}/orders")

    with pytest.raises(DefinitionError, match="set the environment variable SHOP_URL"):
        binding.with_variables({} if base is None else {"SHOP_URL": base})


@pytest.mark.parametrize(
    ("definition", "given"),
    [
        (Agent, {"maxSteps": True}),
        (Agent, {"max_steps": True}),
        (RetryPolicy, {"backoff_seconds": True}),
        (FieldDefinition, {"type": "number", "minimum": False}),
    ],
)
def test_a_boolean_is_no_number(definition: type[Definition], given: dict[str, JsonValue]) -> None:
    """A limit that somebody switched on would be 1; the key is named as it was written."""
    (*_, key) = given

    with pytest.raises(ValidationError, match=f"{key}: expected a number, got a boolean"):
        definition.model_validate(given)


def test_a_boolean_stays_one_where_there_is_one() -> None:
    """And a number is taken as one."""
    given = {"description": "x", "decider": "d", "maxSteps": 3, "freeQuestions": True}
    agent = Agent.model_validate(given)

    assert (3, True) == (agent.max_steps, agent.free_questions)
    assert agent == Agent.model_validate(agent)


def test_a_loop_must_be_able_to_end() -> None:
    """The article's configuration is taken as it stands; one without a final answer is refused."""
    article = {
        "loop": "agent",
        "maxSteps": 8,
        "stopWhen": ["final_answer", "max_steps", "user_cancel", "schema_fail"],
        "hops": [
            {"kind": "model", "emits": "tool_calls | text"},
            {"kind": "runtime", "emits": "tool_result JSON"},
            {"kind": "model", "emits": "next_tool | final JSON"},
        ],
    }
    agent = Agent.model_validate({"description": "D.", **article})

    assert (8, "agent") == (agent.max_steps, agent.loop)
    assert tuple(STOPS) == agent.stop_when == Agent(description="D.").stop_when
    assert ["model", "runtime", "model"] == [one.kind for one in agent.hops]
    with pytest.raises(ValidationError, match="must name final_answer"):
        Agent.model_validate({"description": "D.", "stopWhen": ["max_steps"]})


def test_a_tool_takes_a_binding_that_is_made_already() -> None:
    """A catalog in code and one in a file are the same tools."""
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}}
    made = Tool(
        description="Find a loan",
        input_schema=schema,
        result_schema=schema,
        effect="read",
        binding=FunctionBinding(target="library.loans:find"),
    )

    assert FunctionBinding(target="library.loans:find") == made.binding
    assert made == Tool.model_validate(made.model_dump())
