"""Arguments and names that other systems got wrong, through every adapter, natively and in ReAct.

The gates' own tests have the cases and what must come of each; here they come over a wire, whole
and streamed, and every server judges what it is sent back. Where each case is:

====  ==============================================================================================
A01   `test_arguments_that_do_not`; a sound call beside them is made: `test_adapters`,
      `test_broken_arguments_beside_sound_ones`
A02   `test_arguments_that_pass`, `test_every_way_of_writing_no_arguments`; a required one lacks:
      `test_arguments_that_do_not`
A04   both; glued by a stream: `test_two_calls_streamed_as_one_are_never_half_run`
A06   `test_arguments_that_do_not`
A08   both
A10   `test_names_that_do_not_exist`; sent back: `test_adapter_rules`,
      `test_name_of_no_tool_goes_back_as_one_that_is_taken`
A12   both
A14   `test_strict_tools_require_every_property`; the nulls: `test_arguments_that_pass`; what cannot
      be said stops the start: `tests/unit/roles/test_surfaces`
A19   both
====  ==============================================================================================
"""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest

from tests.driving import Driver
from tests.models.adapters import ADAPTERS, RULES, Adapter, Talk, talking
from tests.providers.script import ABSENT, Said, SaidCall, Scripted, call
from tests.providers.server import as_events
from tests.unit.core.test_gates import ACCEPTED, REJECTED
from turnstream.core.publications import ActionEvent

WAYS: Final = [
    pytest.param(
        adapter,
        stream,
        native,
        id=f"{adapter.name}{' streamed' if stream else ''}{'' if native else ' react'}",
    )
    for adapter, stream, native in product(ADAPTERS, (False, True), (True, False))
    if not stream or (adapter.streams and native)
]
"""ReAct is text: how it was read makes no difference to what stands in it."""

GLUING: Final = ("openai_chat", "azure_openai", "vllm", "openai_compatible", "watsonx")
"""Chat Completions and what is like them: their streams number calls by an index."""

NAMES: Final = (
    "lookup_orders",
    "functions.create_refund",
    "default_api:create_refund",
    "create_refund<|channel|>commentary",
    "Create_Refund",
    "create_refund ",
    "create_refund\u200b",
    "",
)

CASES: Final = ("A01", "A02", "A04", "A06", "A08", "A12", "A14", "A19")
"""Those whose arguments come with the gates' tests; A10 is about names."""

STRICT: Final = (
    "openai_chat",
    "openai_responses",
    "azure_openai",
    "azure_openai v1",
    "azure_openai responses",
)

BOUND: Final = 100_000
"""Bytes of a request that repeats nothing of a megabyte."""


def test_every_case_is_here() -> None:
    """None of the cases' arguments has been lost on the way here."""
    names = [*(one[0] for one in ACCEPTED), *(one[0] for one in REJECTED)]

    assert set(CASES) == {one[:3] for one in names if one[:1] == "A"}
    assert 9 == sum(one.startswith("A01-") and one != "A01-1MB" for one in names)
    assert 8 == len(NAMES) == sum(one.startswith("A12-") for one in names)


@pytest.mark.parametrize("adapter", [x for x in ADAPTERS if x.name in STRICT], ids=lambda x: x.name)
def test_strict_tools_require_every_property(adapter: Adapter) -> None:
    """A14: the copy that is sent requires all of them, nullable where they are optional.

    The server holds each schema to the rules of strict mode; what is registered stays as it was.
    """
    before = json.dumps(RULES.catalog.tools["list_orders"].input_schema)
    with talking(adapter, Said(text="Done.")) as talk:
        talk.driver.turn("Please do it.")
    sent = {
        tool["name"]: tool
        for tool in (one.get("function", one) for one in talk.server.bodies[0]["tools"])
    }

    assert all(one["strict"] is True for one in sent.values())
    parameters = sent["list_orders"]["parameters"]
    assert set(parameters["properties"]) == set(parameters["required"])
    assert {"after", "limit", "status", "tags"} == set(parameters["required"])
    assert "null" in json.dumps(parameters["properties"]["limit"])
    assert before == json.dumps(RULES.catalog.tools["list_orders"].input_schema)


def asking(tool: str, arguments: Any, *, native: bool) -> Said:
    """A reply with one call, as a provider's model or as a text says it."""
    given = arguments
    if given is not None and not isinstance(given, str):
        given = json.dumps(given, ensure_ascii=False)
    if native:
        return call(tool, given)
    return Said(text=f"Thought: Let me see.\nAction: {tool}\nAction Input: {given or ''}")


def done(*, native: bool) -> Said:
    """A reply that ends the turn."""
    return Said(text="Done." if native else "Final Answer: Done.")


def conversations(
    adapter: Adapter, replies: list[Said], *, stream: bool, native: bool
) -> Iterator[tuple[int, Talk, Driver]]:
    """One conversation for each reply, with its first turn taken; the next request is answered."""
    script: list[Scripted] = []
    for one in replies:
        script += [one, done(native=native)]
    how: dict[str, Any] = {"stream": stream} if adapter.streams else {}
    with talking(adapter, *script, native_tools=native, **how) as talk:
        for at in range(len(replies)):
            driver = Driver(RULES, decide=talk.propose)
            driver.turn("Please do it.")
            yield at, talk, driver


@pytest.mark.parametrize(("adapter", "stream", "native"), WAYS)
def test_arguments_that_pass(adapter: Adapter, stream: bool, native: bool) -> None:
    """The tool receives exactly what the case says, of those types; then the model goes on."""
    replies = [asking(tool, given, native=native) for _, tool, given, _ in ACCEPTED]
    for at, _, driver in conversations(adapter, replies, stream=stream, native=native):
        case, tool, _, expected = ACCEPTED[at]
        (action,) = driver.of(ActionEvent)
        assert action.call is not None, (case, driver.requests[-1].loop)
        driver.result({})

        assert (case, tool) == (case, action.call.tool)
        assert (case, repr(expected)) == (case, repr(json.loads(action.call.arguments_json)))
        assert "answer" == driver.action.decision.action


@pytest.mark.parametrize(("adapter", "stream", "native"), WAYS)
def test_arguments_that_do_not(adapter: Adapter, stream: bool, native: bool) -> None:
    """Nothing is called; the model is told path and keyword, and goes on."""
    cases = [
        one
        for one in REJECTED
        # In the place of an object, null is a call without arguments.
        if not (native and adapter.objects and one[2] == "null")
    ]
    replies = [asking(tool, given, native=native) for _, tool, given, _, _ in cases]
    for at, talk, driver in conversations(adapter, replies, stream=stream, native=native):
        case, _, _, path, keyword = cases[at]
        assert ["answer"] == [one.decision.action for one in driver.actions], case
        (turn,) = driver.requests[-1].loop
        (envelope,) = turn.envelopes
        assert envelope.error is not None

        assert (case, "invalid_arguments") == (case, envelope.error.code)
        assert (case, path, keyword) == (case, envelope.error.path, envelope.error.keyword)
        assert len(talk.server.heard[-1].body) < BOUND, case


@pytest.mark.parametrize(("adapter", "stream", "native"), WAYS)
def test_names_that_do_not_exist(adapter: Adapter, stream: bool, native: bool) -> None:
    """No near match is called; the model is told which tools there are."""
    # White space at the end of a line is no part of ReAct's form.
    names = [one for one in NAMES if native or one == one.strip(" ")]
    arguments = '{"order_id":"A-1","amount":5}'
    replies = [asking(name, arguments, native=native) for name in names]
    for at, _, driver in conversations(adapter, replies, stream=stream, native=native):
        assert ["answer"] == [one.decision.action for one in driver.actions], names[at]
        (turn,) = driver.requests[-1].loop
        (envelope,) = turn.envelopes
        assert envelope.error is not None

        assert (names[at], "unknown_tool") == (names[at], envelope.error.code)
        assert "create_refund" in envelope.error.message


@pytest.mark.parametrize(("adapter", "stream", "native"), [one for one in WAYS if one.values[2]])
def test_every_way_of_writing_no_arguments(adapter: Adapter, stream: bool, native: bool) -> None:
    """The key left out, null, and streamed in empty parts or in two: one call with `{}`."""
    ways = (
        SaidCall("get_store_hours", ABSENT),
        SaidCall("get_store_hours", None),
        SaidCall("get_store_hours", "", pieces=("", "")),
        SaidCall("get_store_hours", "{}", pieces=("{", "}")),
    )
    replies = [Said(calls=(one,)) for one in ways]
    for at, _, driver in conversations(adapter, replies, stream=stream, native=native):
        (action,) = driver.of(ActionEvent)
        assert action.call is not None, ways[at]
        driver.result({})

        assert ("get_store_hours", "{}") == (action.call.tool, action.call.arguments_json)
        assert "answer" == driver.action.decision.action


@pytest.mark.parametrize("adapter", [x for x in ADAPTERS if x.name in GLUING], ids=lambda x: x.name)
def test_two_calls_streamed_as_one_are_never_half_run(adapter: Adapter) -> None:
    """A server that streams two calls under one index has glued them: neither is made."""

    def part(call_id: str, order: str) -> dict[str, Any]:
        function = {"name": "lookup_order", "arguments": f'{{"order_id":"{order}"}}'}
        return {"index": 0, "id": call_id, "type": "function", "function": function}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        kind = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return {**kind, "choices": [choice]}

    deltas = [{"tool_calls": [part("a", "A-1")]}, {"tool_calls": [part("b", "A-2")]}]
    marked = adapter.name != "watsonx"  # its streams have no [DONE]
    glued = as_events(*(chunk(one) for one in deltas), chunk({}, "tool_calls"), done=marked)
    with talking(adapter, glued, Said(text="Done."), stream=True) as talk:
        talk.driver.turn("Where are A-1 and A-2?")

    assert ["answer"] == [one.decision.action for one in talk.driver.actions]
    (turn,) = talk.driver.requests[-1].loop
    assert all(one.error is not None for one in turn.envelopes)
