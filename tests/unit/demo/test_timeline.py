"""The timeline shows causes before effects, one conversation after the other."""

import io

from rich.console import Console

from tests.unit.demo import events
from turnstream.demo.script import Script, Step
from turnstream.demo.timeline import Timeline, literal


def script(name: str) -> Script:
    """A script that nobody plays."""
    return Script(id=name, title=f"title {name}", steps=(Step(says="x"),))


def shown(*names: str) -> tuple[Timeline, io.StringIO]:
    """A timeline of conversations, and where it prints."""
    out = io.StringIO()
    console = Console(file=out, color_system=None, width=40)
    return Timeline(console, tuple(map(script, names)), plain=True), out


def test_decision_is_the_contracts_json() -> None:
    """A decision is shown as its four keys on one line, null written out."""
    expected = (
        '{"action":"ask","tool":null,"missing_field":"order_id","reason_code":"missing_input"}'
    )

    assert expected == literal(events.ASK)


def test_effect_waits_for_its_cause() -> None:
    """A message and a comparison that arrive before the decision are shown after it."""
    timeline, out = shown("c")
    for one in (
        events.message("a", "Which?"),
        events.comparison("a", events.REFUSE),
        events.action("a"),
        events.turn("Where?"),
    ):
        timeline.take(one)

    lines = out.getvalue().splitlines()
    assert ["customer", "decide", "bot", "shadow"] == [line.split()[1] for line in lines[1:]]
    assert literal(events.ASK) in lines[2]


def test_conversations_are_shown_one_after_the_other() -> None:
    """A second conversation is shown once the first is over, and only then."""
    timeline, out = shown("c", "d")
    timeline.take(events.turn("first", conversation="c"))
    timeline.take(events.turn("second", conversation="d"))

    assert "second" not in out.getvalue()

    timeline.over("c")

    assert out.getvalue().index("first") < out.getvalue().index("second")


def test_what_has_no_cause_is_shown_in_the_end() -> None:
    """Nothing is hidden because its cause never came."""
    timeline, out = shown("c")
    timeline.take(events.message("nobody", "orphan"))
    timeline.over("c")

    assert "orphan" in out.getvalue()


def test_repeated_question_follows_its_outcome() -> None:
    """A question asked again has no action; the rejected reply is its cause."""
    timeline, out = shown("c")
    rejected = events.outcome("rejected")
    from turnstream.core.identity import action_id

    timeline.take(events.message(action_id("c", events.source(), 0), "Which?"))
    timeline.take(rejected)
    timeline.take(events.turn("hm"))

    lines = out.getvalue().splitlines()
    assert ["customer", "outcome", "bot"] == [line.split()[1] for line in lines[1:]]


def test_customers_text_is_no_markup() -> None:
    """What a customer writes is printed as it is."""
    timeline, out = shown("c")
    timeline.take(events.turn("[bold red]x[/] [link=http://y]z"))

    assert "[bold red]x[/] [link=http://y]z" in out.getvalue()
