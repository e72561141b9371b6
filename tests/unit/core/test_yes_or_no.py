"""What counts as a yes, where it lets a side effect happen."""

import pytest

from turnstream.core.yes_or_no import yes_or_no


@pytest.mark.parametrize(
    "reply",
    [
        "yes", "Yes please", "yes, go ahead", "YES!", "ok", "OK, thanks", "y", "1", "That's right",
        "of course", "Yes, I do.", "please do", "oui merci", "Oui, s'il vous plaît", "d’accord",
        "bien sûr", "Ja, bitte", "einverstanden", "natürlich", "sí", "Sí, por favor", "de acuerdo",
        "sim, obrigado", "yes yes", "Yes \U0001f44d", "OK\u2026 yes",
    ],
)  # fmt: skip
def test_a_yes_and_courtesies_are_a_yes(reply: str) -> None:
    """In any language that replies come in."""
    assert "true" == yes_or_no(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "no", "No thanks", "nope", "n", "0", "don't do it", "Do not!", "non merci",
        "No, I want to keep it", "no - I have changed my mind", "Nein, lieber nicht", "nein danke",
        "no, gracias", "pas maintenant", "never", "No. It is the other one that I meant",
    ],
)  # fmt: skip
def test_a_no_may_have_reasons(reply: str) -> None:
    """It leads to nothing, whatever follows."""
    assert "false" == yes_or_no(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "that is not ok!", "not ok", "I am not okay with that", "Yes, I want to keep it",
        "yes but not now", "ok, forget it", "wait 1 minute", "is it ok if I keep it?",
        "Yes, don't cancel", "ok stop", "stop, ok?", "never mind, ok", "nobody said yes", "not yes",
        "what is option 1?", "oui mais pas maintenant", "ja, aber nicht stornieren",
        "I don't say yes", "never ok", "what happens if I say yes",
        "ok what is your return address", "yes but to another card", "refund only 1 of them",
        "Et si je change d'avis ?", "y cuanto cuesta?", "o que é isso?", "yes?", "¿sí", "ok？",
        "oui\u037e", "ok;",
        "yes and no", "no, yes", "no problem", "no idea", "please", "", "...", "👍", "1 1",
        "yes, A-1001", "nooo", "okey-dokey", "yes \U0001f44e", "ja ja ja", "ok \u274c", "yes:(",
        "!yes", "y\u0336e\u0336s\u0336", "(yes)", "~yes~",
    ],
)  # fmt: skip
def test_anything_else_is_neither(reply: str) -> None:
    """One word that is not known may turn a yes around; a question is no reply."""
    assert yes_or_no(reply) is None
