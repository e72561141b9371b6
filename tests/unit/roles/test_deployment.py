"""A deployment put together, or refused with a message that says what to change."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import turnstream.demo
from tests import small_shop
from turnstream.catalog import CatalogError
from turnstream.config import Settings
from turnstream.core.ruleset import Limits
from turnstream.models.catalog_rules import CatalogRules
from turnstream.roles import classify
from turnstream.roles.deployment import PRIORITY, Deployment, DeploymentError
from turnstream.roles.run import ROLES, build_role

DEMO = Path(turnstream.demo.__file__).parent / "catalog.yaml"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of the user's."""
    module = types.ModuleType("own_models")
    monkeypatch.setitem(sys.modules, "own_models", module)
    return module


def deployment(folder: Path, catalog: dict[str, Any] | None = None, **settings: Any) -> Deployment:
    """A deployment of the small shop."""
    path = folder / "catalog.yaml"
    path.write_text(yaml.safe_dump(catalog or small_shop.CATALOG))
    return Deployment(Settings.model_validate({"catalog": path, **settings}), path)


def python(target: str, **options: Any) -> dict[str, Any]:
    """The section of a decider of the user's own."""
    return {"by_word": {"kind": "python", "target": target, "options": options}}


def test_a_decider_of_the_users_own_gets_the_catalog_and_its_options(
    tmp_path: Path, own: types.ModuleType
) -> None:
    """Its factory is called once for all agents that name it."""
    calls: list[tuple[Any, dict[str, Any]]] = []

    def make(catalog: object, **options: Any) -> small_shop.ByWord:
        calls.append((catalog, options))
        return small_shop.ByWord()

    own.make = make  # type: ignore[attr-defined]
    agents = {
        name: {"description": f"The {name}.", "decider": "by_word"} for name in ("shop", "desk")
    }
    made = deployment(
        tmp_path,
        {**small_shop.CATALOG, "agents": agents},
        deciders=python("own_models:make", depth=3),
    )

    deciders = made.deciders()

    assert {"shop", "desk"} == deciders.keys()
    assert deciders["shop"] is deciders["desk"]
    assert [(made.catalog, {"depth": 3})] == calls


def failing(_catalog: object) -> object:
    """A factory that fails."""
    message = "no licence"
    raise ValueError(message)


@pytest.mark.parametrize(
    ("target", "attribute", "message"),
    [
        ("no_such_module:make", None, r"deciders\.by_word\.target: cannot import 'no_such_module"),
        ("own_models:nothing", None, r"deciders\.by_word\.target: cannot import 'own_models:noth"),
        ("own_models:make", 3, r"'own_models:make' is not callable"),
        ("own_models:make", failing, r"'own_models:make' failed .* ValueError: no licence"),
        ("own_models:make", lambda: None, r"'own_models:make' failed .* TypeError"),
        ("own_models:make", lambda _catalog: object(), r"made a object, which has no propose\(\)"),
    ],
)
def test_a_decider_that_cannot_be_made_stops_the_start(
    tmp_path: Path, own: types.ModuleType, target: str, attribute: object, message: str
) -> None:
    """The message names the key of the configuration and the target."""
    if attribute is not None:
        own.make = attribute  # type: ignore[attr-defined]

    with pytest.raises(DeploymentError, match=message):
        deployment(tmp_path, deciders=python(target)).deciders()


def test_a_module_that_fails_on_import_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises."""
    (tmp_path / "broken_models.py").write_text("raise RuntimeError('no GPU')")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DeploymentError, match="cannot import 'broken_models:make': no GPU"):
        deployment(tmp_path, deciders=python("broken_models:make")).deciders()


def test_an_agent_without_its_decider_stops_the_start(tmp_path: Path) -> None:
    """The message names the line of the catalog and lists what is configured."""
    message = (
        r"catalog\.yaml:\d+: agents\.shop\.decider: no decider 'by_word'; configured are catalog_"
    )
    with pytest.raises(CatalogError, match=message):
        deployment(tmp_path).deciders()


def test_the_embedded_decider_is_always_there(tmp_path: Path) -> None:
    """Without any configuration."""
    decider = deployment(tmp_path).main.decider("catalog_rules")

    assert isinstance(decider, CatalogRules)


def test_a_bad_catalog_stops_every_role(tmp_path: Path) -> None:
    """The shadow also on the candidate's."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("default_locale: en\ntols: {}\n")
    for name in ROLES:
        with pytest.raises(CatalogError, match=r"bad\.yaml"):
            build_role(name, Deployment(Settings(catalog=bad), bad))
    shadowed = Settings.model_validate({"catalog": DEMO, "shadow": {"catalog": bad}})
    with pytest.raises(CatalogError, match=r"bad\.yaml:2: .*tols"):
        build_role("shadow", Deployment(shadowed, DEMO))


def test_the_candidate_is_the_main_catalog_unless_it_has_its_own(tmp_path: Path) -> None:
    """Each with its own versions."""
    main = deployment(tmp_path, deciders=python("tests.small_shop:by_word"))
    other = Deployment(
        Settings.model_validate({"catalog": main.catalog_path, "shadow": {"catalog": DEMO}}),
        main.catalog_path,
    )

    assert main.candidate() is main.main
    assert main.loaded.decision_version == main.candidate().ruleset.decision_version
    assert other.loaded.decision_version != other.candidate().ruleset.decision_version


def test_the_limits_are_the_configured_ones(tmp_path: Path) -> None:
    """Seconds become milliseconds."""
    limits = deployment(
        tmp_path,
        decide={
            "max_turn_age_seconds": 1.5,
            "conversation_ttl_seconds": 60,
            "answer_deadline_seconds": 2,
            "history_messages": 7,
            "bot_actors": ["bot"],
        },
    ).limits

    assert (1_500, 60_000, 2_000, 7, frozenset({"bot"})) == (
        limits.max_turn_age_ms,
        limits.conversation_ttl_ms,
        limits.answer_deadline_ms,
        limits.history_messages,
        limits.bot_actors,
    )


def test_a_configuration_that_says_nothing_gives_the_default_limits(tmp_path: Path) -> None:
    """The two places that name them agree."""
    assert Limits() == deployment(tmp_path).limits


Build = Callable[[Deployment], object]


def test_a_classifier_of_the_users_own_is_made_alike(tmp_path: Path) -> None:
    """And refused alike."""
    made = deployment(
        tmp_path,
        classifiers={"mine": {"kind": "python", "target": "no_such_module:make"}},
        classify={"classifier": "mine"},
    )

    with pytest.raises(DeploymentError, match=r"classifiers\.mine\.target: cannot import"):
        classify.build(made)


def test_every_source_but_turns_and_decisions_goes_first() -> None:
    """Results end what turns wait for; a decision of somebody else's waits for its inputs."""
    assert "conversation.turns" not in PRIORITY
    assert "conversation.actions" not in PRIORITY
