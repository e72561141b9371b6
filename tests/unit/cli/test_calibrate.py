"""`turnstream calibrate`: from labelled conversations to a file that the roles load."""

import builtins
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import turnstream.demo
from tests import small_shop
from tests.cases import labelled
from tests.cases.playing import cases
from tests.unit.test_paraphrases import played
from turnstream.calibration import Calibration, CalibrationRefused
from turnstream.cli.root import app
from turnstream.config import load_settings
from turnstream.roles.deployment import Deployment

DEMO = Path(turnstream.demo.__file__).parent / "turnstream.yaml"
PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments: str, folder: Path, write: str = "calibration.json") -> Any:
    """The command's result; its file is in the folder."""
    return CliRunner().invoke(app, ["calibrate", *arguments, "--write", str(folder / write)])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A run on the demo's catalog, with the folder that it wrote into."""
    folder = tmp_path_factory.mktemp("demo")
    for name, lines in (("tuning", labelled.tuning()), ("control", labelled.control())):
        (folder / name).write_bytes(b"\n".join(lines))
    files = (str(folder / "tuning"), "--control", str(folder / "control"))
    plot = ("--plot", str(folder / "plot.png"))
    return run(*files, "-c", str(DEMO), *plot, "-o", "json", folder=folder), folder


def written(folder: Path) -> Calibration:
    """What the command wrote."""
    return Calibration.model_validate_json((folder / "calibration.json").read_bytes())


def test_the_demo_can_be_calibrated(demo: tuple[Any, Path]) -> None:
    """Fitted on the requests that its decider was made with, measured on the paraphrases."""
    result, folder = demo

    assert 0 == result.exit_code, result.stderr
    found = written(folder)
    assert (629, 50) == (
        found.made_from.tuning.labelled_turns,
        found.made_from.control.labelled_turns,
    )
    assert None is found.temperature.why_not
    assert {"answer", "call_tool", "ask", "refuse"} == found.actions.keys()
    assert found.model_dump(mode="json") == json.loads(result.stdout)["calibration"]
    assert (folder / "plot.png").read_bytes().startswith(PNG)


def test_what_the_catalog_would_do_is_what_it_does(demo: tuple[Any, Path]) -> None:
    """The table worked out from proposals without thresholds is that of real decisions."""
    table = json.loads(demo[0].stdout)["report"]["before"]["table"]
    worked_out = {
        (right, done): count for right, row in table.items() for done, count in row.items() if count
    }

    decided = Counter((right["action"], done["action"]) for right, done in played().values())

    assert len(cases("paraphrases.yaml")) == sum(worked_out.values())
    assert dict(decided) == worked_out


def deployed(folder: Path, text: str) -> Deployment:
    """A deployment of the demo's catalog with more configuration."""
    config = folder / "turnstream.yaml"
    config.write_text(f"catalog: {DEMO.parent / 'catalog.yaml'}\n{text}", encoding="utf-8")
    settings = load_settings(config)
    return Deployment(settings, settings.catalog)


@pytest.mark.parametrize("section", ["decide: {calibrations: {catalog_rules: calibration.json}}"])
def test_the_roles_load_what_was_written(demo: tuple[Any, Path], section: str) -> None:
    """Decisions then name the calibration beside the decider."""
    found = deployed(demo[1], section).deciders()

    made_for, version = written(demo[1]).made_for, written(demo[1]).version
    assert {f"{made_for.decider}+{version}"} == {one.name for one in found.values()}


SMALL = {
    "catalog": {**small_shop.CATALOG, "channels": {"web": {"type": "api"}}},
    "turnstream": {
        "catalog": "catalog.yaml",
        "deciders": {"by_word": {"kind": "python", "target": "tests.small_shop:by_word"}},
        "shadow": {"decider": "by_word"},
    },
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The small shop's deployment, with 100 conversations of one turn."""
    for name, content in SMALL.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    write_lines(tmp_path / "lines", range(100))
    return tmp_path


def write_lines(path: Path, numbers: range) -> None:
    """Conversations that get the opening hours; every fifth should not have."""
    lines: list[dict[str, Any]] = []
    for number in numbers:
        name = {"conversation_id": f"c-{number}"}
        lines.append({**name, "text": f"hello, are you open on day {number}"})
        lines.append({**name, "action": "ask" if number % 5 == 0 else "answer", "actor": "ana"})
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")


def small(shop: Path, *arguments: str, files: tuple[str, ...] = ("lines",), **named: str) -> Any:
    """A run on the small shop."""
    paths = (str(shop / one) for one in files)
    return run(*paths, "-c", str(shop / "turnstream.yaml"), *arguments, folder=shop, **named)


def test_one_file_is_divided_by_conversation(shop: Path) -> None:
    """The same way each time; lines without times are in their order."""
    result = small(shop)

    found = written(shop)
    assert ((0.5, 0), "by-word-1") == (
        (found.made_from.control_share, found.made_from.seed),
        found.made_for.decider,
    )
    assert 100 == found.made_from.tuning.conversations + found.made_from.control.conversations
    assert "tuning set" in result.stdout
    small(shop)
    assert found == written(shop)
    small(shop, "--seed", "1", "--control-share", "0.2")
    assert found != written(shop)


def test_what_cannot_be_fitted_is_said(shop: Path) -> None:
    """Status 1; the file holds the rest. This decider gives no probabilities and is always sure."""
    result = small(shop)

    assert 1 == result.exit_code
    assert "not fitted: temperature: 0 turns with a probability" in result.stderr
    assert "not fitted: answer: no threshold reaches 90%" in result.stderr
    assert 1.0 == written(shop).temperature.value


def test_a_target_or_costs_say_what_thresholds_are_for(shop: Path) -> None:
    """One of them."""
    (shop / "costs.yaml").write_text("handoff: 0.5\nmatrix: {ask: {answer: 2}}\n")

    small(shop, "--target-precision", "0.7")
    assert ("target_precision", 1.0) == (
        written(shop).aim.kind,
        written(shop).actions["answer"].value,
    )
    result = small(shop, "--costs", str(shop / "costs.yaml"))
    assert ("least_cost", None) == (written(shop).aim.kind, written(shop).actions["answer"].note)
    assert "cost" in result.stdout

    result = small(shop, "--costs", str(shop / "costs.yaml"), "--target-precision", "0.9")
    assert (2, "exclude each other" in result.stderr) == (result.exit_code, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [("handoff: -1\n", r"costs\.yaml:1: handoff: "), (None, r"costs\.yaml: cannot be read")],
)
def test_costs_that_are_none_are_refused(shop: Path, text: str | None, message: str) -> None:
    """With file, line and key."""
    if text is not None:
        (shop / "costs.yaml").write_text(text)

    result = small(shop, "--costs", str(shop / "costs.yaml"))

    assert 2 == result.exit_code
    assert re.search(message, result.stderr)


def test_sets_that_overlap_are_refused(shop: Path) -> None:
    """Before anything is asked of a decider."""
    write_lines(shop / "more", range(98, 150))

    result = small(shop, "--control", str(shop / "more"))

    assert 2 == result.exit_code
    assert "2 conversations are in the tuning set and in the control set ('c-98'" in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"conversation_id": "c", "text": "x"}\n', "no turn has a label: add lines"),
        (b"", "no turn has a label"),
        (
            b'{"text": "x"}\n\nnothing\n',
            r"lines:1: conversation_id: Field required\n.*lines:3: not",
        ),
        (b'{"conversation_id": "c", "action": "answer"}', "lines:1: actor: Field required"),
        (
            b'{"conversation_id": "c", "action": "calltool", "actor": "ana"}',
            r"lines:1: action: expected 'answer', 'call_tool', .* or 'unlabelled'\n",
        ),
        (b"[]\n" * 9, r"lines:5: expected a JSON object\nand 4 lines more"),
        (b'"' + b"x" * 5_000_000 + b'"', "lines:1: too long for any event"),
    ],
)
def test_lines_that_are_none_are_refused(shop: Path, content: bytes, message: str) -> None:
    """All of them are named before anything is fitted."""
    (shop / "lines").write_bytes(content)

    result = small(shop)

    assert 2 == result.exit_code
    assert re.search(message, result.stderr)
    assert not (shop / "calibration.json").exists()


def test_what_was_left_out_is_said(shop: Path) -> None:
    """Actions that follow no turn, turns without a label, texts of both sets."""
    write_lines(shop / "more", range(100, 102))
    with (shop / "more").open("a") as file:
        for line in (
            {"conversation_id": "c-200", "text": "hello, are you open on day 3"},
            {"conversation_id": "c-201", "action": "answer", "actor": "ana"},
        ):
            file.write(f"\n{json.dumps(line)}")

    result = small(shop, "--control", str(shop / "more"))

    assert "1 actions left out: they follow no customer turn" in result.stderr
    assert "control set: 1 customer turns left out: without a label" in result.stderr
    assert "1 turns of the control set are worded as one of the tuning set" in result.stderr


def test_a_set_without_labels_is_refused(shop: Path) -> None:
    """It is said what became of its turns."""
    (shop / "more").write_text(
        '{"conversation_id": "c-200", "text": "hello"}\n'
        '{"conversation_id": "c-200", "action": "unlabelled", "actor": "ana"}\n'
        '{"conversation_id": "c-201", "text": "no channel", "channel_id": "nowhere"}\n'
        '{"conversation_id": "c-201", "action": "answer", "actor": "ana"}\n'
    )

    result = small(shop, "--control", str(shop / "more"))

    assert 2 == result.exit_code
    assert (
        "the control set has no labelled turn with a proposal (1 the decider was not asked, or "
        "could not be had; 1 without a label): give more"
    ) in result.stderr


def test_a_broken_decider_is_named_without_its_words(shop: Path) -> None:
    """They may be a customer's."""
    write_lines(shop / "more", range(200, 201))
    text = (shop / "more").read_text().replace("hello", small_shop.BUG)
    (shop / "more").write_text(text)

    result = small(shop, "--control", str(shop / "more"))

    assert 2 == result.exit_code
    assert "turnstream calibrate: the decider failed with RuntimeError" in result.stderr
    assert small_shop.BUG not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--decider", "nobody"), "no decider 'nobody'; configured are by_word, catalog_rules"),
        (("-c", "no-such.yaml"), "no-such.yaml"),
    ],
)
def test_what_is_not_there_is_named(shop: Path, arguments: tuple[str, ...], message: str) -> None:
    """Status 2."""
    result = small(shop, *arguments)

    assert 2 == result.exit_code
    assert message in result.stderr


def test_the_role_decides_whose_decider_is_asked(shop: Path) -> None:
    """That of the entry agent for `decide`."""
    small(shop, "--role", "decide", "--decider", "catalog_rules")
    assert written(shop).made_for.decider.startswith("catalog_rules-")

    small(shop, "--role", "decide")
    assert "by-word-1" == written(shop).made_for.decider


@pytest.mark.parametrize(
    ("section", "expected"),
    [({}, "by-word-1"), ({"shadow": {"decider": "catalog_rules"}}, "catalog_rules-")],
)
def test_without_a_role_the_candidate_is_meant_where_there_is_one(
    shop: Path, section: dict[str, Any], expected: str
) -> None:
    """Else the live decider: a default nobody wrote down is not what a deployment uses."""
    config = shop / "turnstream.yaml"
    settings = yaml.safe_load(config.read_text())
    del settings["shadow"]
    config.write_text(yaml.safe_dump({**settings, **section}), encoding="utf-8")

    small(shop)

    assert written(shop).made_for.decider.startswith(expected)


def test_a_plot_without_its_library_names_the_extra(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the work; without --plot nothing is missing."""
    imported = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return imported(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)

    result = small(shop, "--plot", str(shop / "plot.png"))

    assert 2 == result.exit_code
    assert "pip install 'turnstream[calibrate]'" in result.stderr
    assert not (shop / "calibration.json").exists()
    assert 1 == small(shop).exit_code


@pytest.mark.parametrize(
    ("write", "plot", "message"),
    [
        ("lines", None, "--write: {}/lines is read or written already"),
        ("link", None, "--write: {}/link is read or written already"),
        ("more", None, "--write: {}/more is read or written already"),
        ("turnstream.yaml", None, "--write: {}/turnstream.yaml is read or written already"),
        ("made.json", "lines", "--plot: {}/lines is read or written already"),
        ("made.json", "made.json", "--plot: {}/made.json is read or written already"),
        ("none/made.json", None, "--write: {}/none/made.json cannot be written"),
        ("made.json", "none/plot.png", "--plot: {}/none/plot.png cannot be written"),
        ("made.json", ".", "--plot: {} is a folder"),
    ],
)
def test_what_cannot_be_written_is_found_before_the_work(
    shop: Path, write: str, plot: str | None, message: str
) -> None:
    """Status 2; what is read is as it was, and nothing is written."""
    write_lines(shop / "more", range(200, 210))
    (shop / "link").symlink_to(shop / "lines")
    before = {path: path.read_bytes() for path in shop.iterdir()}

    plotting = ("--plot", str(shop / plot)) if plot is not None else ()
    result = small(shop, "--control", str(shop / "more"), *plotting, write=write)

    assert 2 == result.exit_code
    assert f"turnstream calibrate: {message.format(shop)}" in result.stderr
    assert before == {path: path.read_bytes() for path in shop.iterdir()}


def test_a_plot_that_fails_leaves_no_calibration(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2 means that nothing was done."""

    def full(report: object, path: Path) -> None:
        raise OSError(f"no space left for {path}")

    monkeypatch.setattr("turnstream.cli.calibration_plot.plot", full)

    result = small(shop, "--plot", str(shop / "plot.png"))

    assert (2, False) == (result.exit_code, (shop / "calibration.json").exists())
    assert "no space left" in result.stderr


def test_the_tables_say_everything(demo: tuple[Any, Path]) -> None:
    """Every part of the report has its place."""
    folder = demo[1]
    files = (str(folder / "control"), "-c", str(DEMO))

    text = run(*files, folder=folder.parent).stdout

    for part in (
        "decision version",
        "expected calibration error",
        "Reliability of the confidence",
        "Thresholds, the catalog's and calibrated",
        "Other thresholds",
        "unnecessary calls",
        "superfluous questions",
        "wrong refusals",
        "nothing held back",
        "Near ties of two tools",
    ):
        assert part in text


def test_a_calibration_of_other_versions_refuses_the_start(demo: tuple[Any, Path]) -> None:
    """Both are named; so is a file that cannot be read."""
    folder = demo[1]
    other = written(folder).made_for.model_copy(update={"decision_version": "0000"})
    changed = written(folder).model_copy(update={"made_for": other})
    (folder / "other.json").write_text(changed.model_dump_json())
    made = deployed(folder, "decide: {calibrations: {catalog_rules: other.json}}")

    with pytest.raises(CalibrationRefused) as refused:
        made.deciders()

    assert f"'0000', and here it is '{made.loaded.decision_version}'" in str(refused.value)
    assert "`--role decide` for decide.calibrations" in str(refused.value)
    with pytest.raises(CalibrationRefused, match=r"nothing\.json: No such file"):
        deployed(folder, "decide: {calibrations: {catalog_rules: nothing.json}}").deciders()
    result = CliRunner().invoke(app, ["run", "decide", "-c", str(folder / "turnstream.yaml")])
    assert (2, True) == (result.exit_code, "nothing.json: No such file" in result.stderr)
