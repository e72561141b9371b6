"""What an agent says of its decider, and how a decider says that it refuses."""

import pytest
from pydantic import ValidationError

from turnstream.core.agents import Agent
from turnstream.core.ports import DeciderRefused, DeciderUnavailable


@pytest.mark.parametrize("value", ["true", 1, 0, None, "native", []])
def test_native_tools_is_a_boolean_or_an_error(value: object) -> None:
    """Nothing is read as one that is none: the wrong way of calling would be taken silently."""
    with pytest.raises(ValidationError, match="expected true or false"):
        Agent.model_validate({"description": "A.", "extra": {"native_tools": value}})


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, None), ({"native_tools": False}, False), ({"native_tools": True}, True)],
)
def test_native_tools_overrides_only_where_it_is_given(
    given: dict[str, bool], expected: bool | None
) -> None:
    """An agent that says nothing leaves it to the section of its decider."""
    assert (
        expected is Agent.model_validate({"description": "A.", "extra": given}).extra.native_tools
    )


def test_unknown_extra_is_refused() -> None:
    """A misspelt key would change nothing, silently."""
    with pytest.raises(ValidationError, match="native_tool"):
        Agent.model_validate({"description": "A.", "extra": {"native_tool": True}})


def test_refusal_names_its_problem() -> None:
    """A refusal is a failure of the decider, with words for the log."""
    refusal = DeciderRefused("the key is not accepted")

    assert isinstance(refusal, DeciderUnavailable)
    assert ("the key is not accepted", None) == (refusal.problem, refusal.retry_after_seconds)
