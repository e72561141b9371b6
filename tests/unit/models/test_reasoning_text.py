"""Reasoning in a text: left out wherever it ends, and a fault where it does not."""

import pytest

from turnstream.models.reasoning_text import UNCLOSED, looks_like_a_call, outspoken

SAID: list[tuple[str, tuple[str, ...]]] = [
    ("It was shipped.", ("It was shipped.",)),
    (" spaced \n", (" spaced \n",)),
    ("", ("",)),
    ("1 < 2 and think > feel", ("1 < 2 and think > feel",)),
    ("I <thin> am", ("I <thin> am",)),
    ("<think>a</think>\n\nIt was shipped.\n", ("It was shipped.",)),
    ("a</think>It was shipped.", ("It was shipped.",)),
    ("So: <think>a</think>it was <THINK>b</Think >shipped.", ("So: ", "it was ", "shipped.")),
    ("<think>a <think>b</think> c</think>Sent.", ("Sent.",)),
    ("<think>a</think>b</think>Sent.", ("Sent.",)),
    ("Hello. <think>a</think> b</think>Sent.", ("Sent.",)),
    ("<thinking>a</thinking><reasoning why='x'>b</reasoning>Sent.", ("Sent.",)),
    ("[THINK]a[/THINK]Sent.", ("Sent.",)),
    ("<think>a</think>", ()),
    ("</think> \n", ()),
    ('<think>maybe {"a":"bug"} or [1]?</think>{"a":"billing"}', ('{"a":"billing"}',)),
    ('could be {"a":"bug"}</think>{"a":"billing"}', ('{"a":"billing"}',)),
]


@pytest.mark.parametrize(("text", "pieces"), SAID)
def test_reasoning_is_left_out(text: str, pieces: tuple[str, ...]) -> None:
    """What is left is as it was written; a text without reasoning is not touched."""
    found = outspoken(text)

    assert (pieces, None) == (found.pieces, found.fault)
    assert "".join(pieces) == found.text


@pytest.mark.parametrize(
    "text", ["<think>It was", "Sent. <think>", "<think>a<think>b</think>Sent.", "a</think><think>b"]
)
def test_reasoning_without_end_is_a_fault(text: str) -> None:
    """Nobody can tell where the reply begins."""
    found = outspoken(text)

    assert ((), UNCLOSED) == (found.pieces, found.fault)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "create_refund", "arguments": {}}</tool_call>',
        "Done. </tool_call>",
        "<function=create_refund>{}</function>",
        '[TOOL_CALLS][{"name": "create_refund"}]',
        "<|python_tag|>create_refund()",
        "<|tool_calls_section_begin|>",
        "<function_calls><invoke name='x'>",
    ],
)
def test_call_in_text_is_seen(text: str) -> None:
    """These are the forms of open models whose server has no parser for them."""
    assert looks_like_a_call(text)


@pytest.mark.parametrize("text", ["", "Use a tool call.", "a <b> tool_call", "invoke <it>"])
def test_plain_text_is_no_call(text: str) -> None:
    """Words alone are none."""
    assert not looks_like_a_call(text)


@pytest.mark.parametrize(
    "text",
    [
        "<" + " " * 1_000_000,
        "<think" + " " * 1_000_000,
        "< " * 500_000,
        "<think " * 100_000,
        "<tool_call" + " x" * 500_000,
        "</" * 500_000,
    ],
)
def test_long_runs_are_read_to_their_end(text: str) -> None:
    """What a model falls into must not be tried in all its divisions: that would never end."""
    assert text == outspoken(text).text
    assert not looks_like_a_call(text)
