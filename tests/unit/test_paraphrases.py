"""How well the catalog's own decider understands customers who do not write like its examples."""

from collections import Counter
from functools import cache

from pydantic import JsonValue

from tests.cases.playing import WRITER, Player, cases, compared, seen, shop
from tests.copies import near_copies
from turnstream.core.contract import ACTIONS

LEAST_ACCURACY = 0.80
"""Share of messages whose action must be the expected one."""

MESSAGES = cases("paraphrases.yaml")

Pair = tuple[dict[str, JsonValue], dict[str, JsonValue]]


@cache
def played() -> dict[str, Pair]:
    """Case id to the expected and the actual step, both with every key that is known of it."""
    results: dict[str, Pair] = {}
    for case in MESSAGES:
        expected = case["expect"]
        permissions = case.get("permissions", list(WRITER))
        assert isinstance(expected, dict)
        assert isinstance(permissions, list)
        player = Player(locale=str(case["locale"]), permissions=[str(one) for one in permissions])
        actions = player.customer(str(case["text"]))
        assert len(actions) == 1, f"{case['id']}: one message, one action"
        results[str(case["id"])] = (expected, seen(actions[0]) | compared([expected], actions)[0])
    return results


def agreeing(key: str) -> tuple[int, int]:
    """How many cases agree on a key, of how many that name it."""
    pairs = [(expected, actual) for expected, actual in played().values() if key in expected]
    return sum(expected[key] == actual.get(key) for expected, actual in pairs), len(pairs)


def report() -> str:
    """Agreement per key, and every case that misses in any of them."""
    keys = ("action", "tool", "arguments", "missing_field", "answer", "rule", "cause")
    lines = [f"{key}: {same} of {all_}" for key in keys for same, all_ in [agreeing(key)]]
    for name, (expected, actual) in played().items():
        if any(expected[key] != actual.get(key) for key in expected):
            lines.append(f"{name}: expected {expected}, got {actual}")
    return "\n".join(lines)


def test_messages_are_well_spread() -> None:
    """Fifty messages, half of them French, at least six for every action, each id once."""
    actions = Counter(
        str(case["expect"]["action"]) for case in MESSAGES if isinstance(case["expect"], dict)
    )

    assert 50 == len({case["id"] for case in MESSAGES}) == len(MESSAGES)
    assert {"fr": 25, "en": 25} == Counter(case["locale"] for case in MESSAGES)
    assert set(ACTIONS) == set(actions)
    assert min(actions.values()) >= 6


def test_expected_names_are_in_the_catalog() -> None:
    """No expectation names a tool, field, answer or rule that the shop does not have."""
    catalog = shop()[0].catalog
    names = {
        "tool": set(catalog.tools),
        "missing_field": set(catalog.fields),
        "answer": set(catalog.answers),
        "rule": set(catalog.rules),
    }
    unknown = [
        (case["id"], key)
        for case in MESSAGES
        if isinstance(case["expect"], dict)
        for key, known in names.items()
        if key in case["expect"] and case["expect"][key] not in known
    ]

    assert [] == unknown


def test_messages_are_no_copies_of_examples() -> None:
    """No message is an example of the catalog or of the decider, or nearly one."""
    assert [] == near_copies([str(case["text"]) for case in MESSAGES], shop()[0].catalog)


def test_every_action_occurs() -> None:
    """The decider uses all five actions; none is out of reach."""
    assert set(ACTIONS) == {actual["action"] for _, actual in played().values()}, report()


def test_actions_are_the_expected_ones() -> None:
    """At least four of five messages lead to the action that a support lead would take."""
    same, all_ = agreeing("action")
    print(report())  # shown with -rP, also when the test passes

    assert same / all_ >= LEAST_ACCURACY, report()
