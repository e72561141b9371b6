"""Scripts are read strictly, and the demo's own show what they must."""

from pathlib import Path

import pytest

from turnstream.core.contract import ACTIONS
from turnstream.demo.script import ScriptError, load_scripts


def test_own_scripts_cover_every_action() -> None:
    """The demo has at least twelve conversations with all five actions in two languages."""
    scripts = load_scripts()
    expected = [one for script in scripts for one in script.expected()]

    assert len(scripts) >= 12
    assert set(ACTIONS) == {one.action for one in expected if one.action is not None}
    assert {"fr", "en"} == {script.locale for script in scripts}


def test_first_script_is_the_question_for_the_order() -> None:
    """A parcel without an order is asked about with the approved question."""
    first = load_scripts()[0]

    assert "Où est mon colis ?" == first.steps[0].says
    assert "ask order_id" == str(first.steps[0].then[0])
    assert "Indiquez le numéro de la commande concernée." == first.steps[0].then[0].text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "cannot be read"),
        ("conversations: []", "conversations"),
        ("conversations: [{id: A, title: t, steps: [{says: x}]}]", "conversations.0.id"),
        ("conversations: [{id: a, title: t, steps: [{}]}]", "exactly one of says"),
        (
            "conversations: [{id: a, title: t, steps: [{says: x, then: [{ask: f, call: t}]}]}]",
            "exactly one of answer",
        ),
        (
            "conversations: [{id: a, title: t, steps: [{says: x, then: [{ask: f, with: {}}]}]}]",
            "belong to a call",
        ),
        (
            "conversations: [&c {id: a, title: t, steps: [{says: x}]}, *c]",
            "same id",
        ),
    ],
)
def test_faulty_script_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    """A script with a fault is refused with its file and what is wrong."""
    path = tmp_path / "scripts.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ScriptError, match=fault) as refused:
        load_scripts(path)

    assert str(path) in str(refused.value)
