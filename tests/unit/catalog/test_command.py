"""`turnstream catalog`: what it shows and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path

import yaml
from typer.testing import CliRunner

from tests.unit.catalog.small import DEMO, SMALL, with_change
from turnstream.cli.catalog import app

Write = Callable[[str], Path]


def run(*arguments: str, text: str | None = None) -> tuple[int, str]:
    """Exit code and standard output of `turnstream catalog`."""
    result = CliRunner().invoke(app, list(arguments), input=text)
    return result.exit_code, result.stdout


def test_check_ends_with_0_when_only_advice_is_left(write: Write) -> None:
    """Advice of severity info is shown and does not fail a build."""
    path = write(with_change("effect: read", "effect: write"))

    code, output = run("check", str(path))

    assert code == 0
    assert f"{path}: 0 error, 0 warning, 1 info" in output


def test_check_ends_with_1_on_findings_and_writes_json(write: Write) -> None:
    """A warning fails a build; JSON output holds every finding in full."""
    path = write(with_change("method: GET", "method: PUT"))

    code, output = run("check", str(path), "-o", "json")

    assert code == 1
    assert json.loads(output) == [
        {
            "severity": "warning",
            "code": "read_that_writes",
            "file": str(path),
            "line": path.read_text(encoding="utf-8").split("method: PUT")[0].count("\n") + 1,
            "path": "tools.find_loan.binding.method",
            "message": "effect is read, but the method is PUT: does it change something?",
        }
    ]


def test_check_ends_with_2_when_it_cannot_run(tmp_path: Path) -> None:
    """An absent catalog and a broken configuration are no findings."""
    config = tmp_path / "turnstream.yaml"
    config.write_text("nope: 1\n", encoding="utf-8")

    assert run("check", str(tmp_path / "none.yaml"))[0] == 2
    assert run("check", "--config", str(config))[0] == 2


def test_the_catalog_of_the_configuration_is_the_default(tmp_path: Path, write: Write) -> None:
    """Without a path the configuration says which catalog is meant."""
    write(SMALL)
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")

    assert run("check", "-c", str(config))[0] == 0


def test_deciders_are_looked_for_in_the_configuration(tmp_path: Path, write: Write) -> None:
    """An agent's decider must be configured; without a configuration nobody knows."""
    text = with_change(
        "{description: Answers readers of the library.}", "{description: A., decider: bank}"
    )
    path = write(text)
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")
    line = text.split("decider: bank")[0].count("\n") + 1
    problem = "agents.desk.decider: no decider 'bank'; configured are catalog_rules"

    assert run("check", str(path))[0] == 0
    for arguments in ((str(path), "-c", str(config)), ("-c", str(config))):
        code, output = run("check", *arguments)
        assert 1 == code
        assert f"{path}:{line}: error {problem} [check]" in output


def test_writes_that_outlast_a_stop_are_found_with_a_configuration(
    tmp_path: Path, write: Write
) -> None:
    """With them `execute` does not start; without a configuration nobody knows the grace."""
    catalog = yaml.safe_load(SMALL)
    catalog["tools"]["find_loan"] |= {"effect": "write", "timeout_seconds": 30}
    path = write(yaml.safe_dump(catalog))
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")
    problem = "tools.find_loan.timeout_seconds: is 30, but a write must end within"

    code, output = run("check", "-c", str(config))

    assert (1, True) == (code, problem in output)
    assert problem not in run("check", str(path))[1]


def test_show_gives_versions_and_definitions() -> None:
    """The versions that travel on decisions can be looked up, in both forms."""
    code, text = run("show", str(DEMO))
    _, body = run("show", str(DEMO), "-o", "json")
    shown = json.loads(body)

    assert code == 0
    assert shown["decision_version"] in text
    assert shown["presentation_version"] in text
    assert shown["catalog"]["agents"]["shop"]["maxSteps"] == 8


def test_show_and_validate_end_with_2_on_a_faulty_catalog(write: Write) -> None:
    """A catalog with faults has no versions to show, and no schema to hold anything to."""
    path = str(write(with_change("effect: read", "effect: x")))

    assert 2 == run("show", path)[0]
    assert 2 == run("validate", "find_loan", "-", path, text="{}")[0]


def test_show_as_gives_tools_as_a_surface_wants_them() -> None:
    """JSON on standard output, all tools or those that are named."""
    code, output = run("show", str(DEMO), "--as", "anthropic")
    _, one = run("show", str(DEMO), "cancel_order", "--as", "openai")
    _, loose = run("show", str(DEMO), "cancel_order", "--as", "openai", "--no-strict")

    assert 0 == code
    assert 5 == len(json.loads(output))
    assert {"name", "description", "input_schema"} == set(json.loads(output)[0])
    assert [True] == [tool["function"]["strict"] for tool in json.loads(one)]
    assert [False] == ["strict" in tool["function"] for tool in json.loads(loose)]


def test_the_prompt_form_is_text_unless_json_is_asked_for() -> None:
    """As a model reads it, or as strings."""
    code, text = run("show", str(DEMO), "cancel_order", "get_order_status", "--as", "prompt")
    _, body = run("show", str(DEMO), "cancel_order", "--as", "prompt", "-o", "json")

    assert 0 == code
    assert text.startswith("get_order_status: Tells where one order is")
    assert "\n\ncancel_order: Cancels one order" in text
    assert [text.split("\n\n")[1].strip()] == json.loads(body)


def test_the_catalog_of_the_configuration_is_shown_as_well(tmp_path: Path, write: Write) -> None:
    """Arguments without a dot or a slash are tools."""
    write(SMALL)
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")

    code, output = run("show", "find_loan", "--as", "mcp", "-c", str(config))

    assert 0 == code
    assert ["find_loan"] == [tool["name"] for tool in json.loads(output)]


def test_show_as_ends_with_1_where_something_would_be_lost(write: Write) -> None:
    """With file, line and path, as every fault of a catalog."""
    text = with_change("format: {enum: [print, audio]}", "format: {enum: [print, audio, 1]}")
    path = write(text)
    line = text.split("enum: [print, audio, 1]")[0].count("\n") + 1

    result = CliRunner().invoke(app, ["show", str(path), "--as", "openai-responses"])

    assert 1 == result.exit_code
    assert f"{path}:{line}: tools.find_loan.input_schema.properties.format.enum: openai" in (
        result.stderr
    )


def test_show_ends_with_2_for_tools_that_cannot_be_meant() -> None:
    """A tool that is not there, and tools without a surface."""
    assert run("show", str(DEMO), "cancel_orders", "--as", "mcp")[0] == 2
    assert run("show", str(DEMO), "cancel_order")[0] == 2


def test_validate_prints_path_keyword_and_the_difference(tmp_path: Path, write: Write) -> None:
    """What was expected and what was there, one difference after the other."""
    file = tmp_path / "arguments.json"
    file.write_text('{"format": "vinyl", "shelf": 1}', encoding="utf-8")
    catalog = write(
        with_change("required: [book]", "required: [book]\n      additionalProperties: false")
    )

    code, output = run("validate", "find_loan", str(file), str(catalog))
    _, body = run("validate", "find_loan", str(file), str(catalog), "-o", "json")

    assert 1 == code
    assert [
        "(the whole): required",
        '  expected  "book"',
        '  found     ["format","shelf"]',
        "/format: enum",
        '  expected  ["print","audio"]',
        '  found     "vinyl"',
        "(the whole): additionalProperties",
        '  expected  ["book","format"]',
        '  found     ["shelf"]',
        "find_loan: 3 differences",
    ] == sorted_by_difference(output)
    assert {"tool": "find_loan", "valid": False, "dropped": [], "rules_not_tried": 0} == {
        key: value for key, value in json.loads(body).items() if key != "differences"
    }
    assert {
        "path": "/format",
        "keyword": "enum",
        "expected": ["print", "audio"],
        "found": "vinyl",
    } in (json.loads(body)["differences"])


def sorted_by_difference(output: str) -> list[str]:
    """The lines of three differences in the order that the test names them in."""
    lines = output.splitlines()
    groups = [lines[at : at + 3] for at in range(0, len(lines) - 1, 3)]
    order = ["required", "enum", "additionalProperties"]
    groups.sort(key=lambda group: order.index(group[0].split(": ")[1]))
    return [line for group in groups for line in group] + lines[-1:]


def test_validate_reads_the_input_and_drops_what_null_means() -> None:
    """A dash is the standard input; null for an optional argument is no difference."""
    code, output = run("validate", "cancel_order", "-", str(DEMO), text='{"order_id": "A-1001"}')

    assert (0, "cancel_order: valid\n") == (code, output)


def test_validate_says_which_rules_it_did_not_try(write: Write) -> None:
    """Valid by the schema is not yet allowed."""
    catalog = yaml.safe_load(SMALL)
    rule = {"kind": "range", "argument": "book", "maximum": "B-5"}
    catalog["tools"]["find_loan"]["rules"] = [rule]
    path = write(yaml.safe_dump(catalog))

    code, output = run("validate", "find_loan", "-", str(path), text='{"book": "B-9"}')

    rules = "find_loan: its business rules were not tried: range\n"
    assert (0, f"find_loan: valid\n{rules}") == (code, output)


def test_validate_says_which_nulls_mean_absent(write: Write) -> None:
    """For an optional argument that does not allow null."""
    text = '{"book": "B-1", "format": null}'

    code, output = run("validate", "find_loan", "-", str(write(SMALL)), text=text)

    assert (0, "/format: null means absent\nfind_loan: valid\n") == (code, output)


def test_validate_ends_with_1_for_what_is_no_json_object() -> None:
    """Broken JSON, JSON of another kind, a name that is there twice; a long one is cut."""
    for text in ("{", "[]", "null", '{"a": 1, "a": 2}', '"' + "x" * 1000 + '"'):
        result = CliRunner().invoke(app, ["validate", "cancel_order", "-", str(DEMO)], input=text)
        assert 1 == result.exit_code
        assert len(result.stderr) < 600


def test_validate_ends_with_2_when_it_cannot_run(tmp_path: Path, write: Write) -> None:
    """No such tool, no such file, no usable catalog."""
    file = tmp_path / "arguments.json"
    file.write_text("{}", encoding="utf-8")
    broken = write(with_change("effect: read", "effect: x"))

    assert run("validate", "no_such_tool", str(file), str(DEMO))[0] == 2
    assert run("validate", "cancel_order", str(tmp_path / "none.json"), str(DEMO))[0] == 2
    assert run("validate", "find_loan", str(file), str(broken))[0] == 2
