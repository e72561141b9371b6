"""The chart: values and schema fit, configuration loads, alerts and dashboard name what exists."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import jsonschema_rs
import pytest
import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from tests.promql import TARGET_LABELS, BadQuery, read
from turnstream import __version__
from turnstream.cli.run import Role
from turnstream.config import Settings, load_settings
from turnstream.metrics import server
from turnstream.metrics.catalogue import CATALOGUE

CHART: Final = Path(__file__).parents[2] / "helm"
TEMPLATES: Final = sorted((CHART / "templates").iterdir())
VARIABLES: Final = {"$__rate_interval": "5m", "$namespace": "support"}
"""Grafana's variables in the dashboard, and what stands in for them."""

Tree = dict[str, JsonValue]
_TREE: Final = TypeAdapter(Tree)

_VALUES_PATH: Final = re.compile(r"\.Values((?:\.\w+)+)")
_ROLE_PATH: Final = re.compile(r"\$role\.(\w+)")
_ANNOTATION_LABEL: Final = re.compile(r"\$labels\.(\w+)")
_LEGEND_LABEL: Final = re.compile(r"\{\{(\w+)\}\}")
_FILE: Final = re.compile(r'\.Files\.Get "([^"]+)"')
_DEFINED: Final = re.compile(r'\{\{-? define "([^"]+)"')
_INCLUDED: Final = re.compile(r'include "([^"]+)"')


class Rule(BaseModel):
    """One alert; unknown keys would be refused by Prometheus as well."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]
    for_: str | None = None

    @classmethod
    def read(cls, tree: Tree) -> "Rule":
        """Take a rule from its file, where `for` is its key."""
        return cls.model_validate({("for_" if key == "for" else key): tree[key] for key in tree})


def tree(name: str) -> Tree:
    """A YAML or JSON file of the chart."""
    return _TREE.validate_python(yaml.safe_load((CHART / name).read_text(encoding="utf-8")))


def at(values: JsonValue, *path: str) -> JsonValue:
    """What stands at a path of the values."""
    for key in path:
        values = cast("Tree", values)[key]
    return values


def rules() -> list[Rule]:
    """Every alert."""
    groups = cast("list[dict[str, list[Tree]]]", tree("alerts/turnstream.yaml")["groups"])
    return [Rule.read(rule) for group in groups for rule in group["rules"]]


def panels() -> list[Tree]:
    """Every panel of the dashboard that shows something."""
    dashboard = json.loads((CHART / "dashboards/turnstream.json").read_text(encoding="utf-8"))
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of everything that the dashboard asks."""
    for panel in panels():
        for target in cast("list[dict[str, str]]", panel["targets"]):
            yield str(panel["title"]), target["expr"], target["legendFormat"]


def is_valid(**changes: JsonValue) -> bool:
    """Whether values are accepted with some changed, given as `a__b__c=value`."""
    values = tree("values.yaml")
    for path, value in changes.items():
        *parents, last = path.split("__")
        cast("Tree", at(values, *parents))[last] = value
    return jsonschema_rs.validator_for(tree("values.schema.json")).is_valid(values)


# --- values -------------------------------------------------------------------------------------


def test_the_chart_deploys_this_version() -> None:
    """The image's default tag is the version of the package."""
    chart = tree("Chart.yaml")

    assert ("v2", "turnstream") == (chart["apiVersion"], chart["name"])
    assert __version__ == chart["appVersion"]


def test_the_default_values_are_valid() -> None:
    """What the chart ships passes its own schema, which is a valid schema of draft 7."""
    schema = tree("values.schema.json")

    assert "http://json-schema.org/draft-07/schema#" == schema["$schema"]
    assert jsonschema_rs.meta.is_valid(schema)
    assert is_valid()


@pytest.mark.parametrize(
    "changes",
    [
        {"role": {}},
        {"roles__decide__replica": 3},
        {"roles__decide__replicas": "3"},
        {"image__tags": "1"},
        {"shared__env": [{"name": "PASSWORD", "value": "hunter2"}]},
        {"roles__execute__env": [{"name": "PASSWORD", "valueFrom": {}}]},
        {"shared__envFrom": [{"prefix": "SHOP_"}]},
        {"config__kafka__sasl_password": "hunter2"},
        {"config__registry": {"url": "https://registry", "auth": "user:hunter2"}},
        {"config__metrics__host": "127.0.0.1"},
        {"config__metrics__port": None},
        {"config__stream": {}},
        {"config__stream__group_instance_id": "one"},
        {"config__kafk": {}},
        {"networkPolicy__enabled": True},
    ],
    ids=str,
)
def test_values_that_cannot_work_or_hold_a_secret_are_refused(changes: Tree) -> None:
    """Misspelt keys, secrets in plain text and pods that nobody can probe never reach a cluster."""
    assert not is_valid(**changes)


def test_references_to_secrets_are_accepted() -> None:
    """The ways to a secret that the README shows pass the schema."""
    reference: Tree = {"secretKeyRef": {"name": "kafka", "key": "password"}}

    assert is_valid(
        config__kafka__sasl_password="env:KAFKA_PASSWORD",
        shared__env=[{"name": "KAFKA_PASSWORD", "valueFrom": reference}],
        shared__secretFiles=[{"secretName": "kafka-tls", "mountPath": "/etc/kafka-tls"}],
        roles__execute__envFrom=[{"secretRef": {"name": "shop-tools"}}],
    )


def test_every_role_and_every_section_is_known() -> None:
    """The chart has the roles of the command line and the sections of the configuration."""
    schema = tree("values.schema.json")
    roles = cast("Tree", tree("values.yaml")["roles"])

    assert [role.value for role in Role] == list(roles)
    assert list(roles) == list(cast("Tree", at(schema, "properties", "roles", "properties")))
    sections = at(schema, "definitions", "config", "propertyNames", "enum")
    assert set(Settings.model_fields) == set(cast("list[str]", sections))


def test_the_default_configuration_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config` is a turnstream.yaml that a role accepts, with its catalog beside it."""
    for name in list(os.environ):
        if name.upper().startswith("TURNSTREAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSTREAM_STREAM__GROUP_INSTANCE_ID", "support-turnstream-decide-0")
    path = tmp_path / "turnstream.yaml"
    path.write_text(yaml.safe_dump(tree("values.yaml")["config"]), encoding="utf-8")

    settings = load_settings(path)

    assert "support-turnstream-decide-0" == settings.stream.group_instance_id
    assert tmp_path / "catalog.yaml" == settings.catalog
    assert ("0.0.0.0", 9100) == (settings.metrics.host, settings.metrics.port)


# --- templates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_use_values_that_exist(template: Path) -> None:
    """A misspelt path would render as nothing, without an error."""
    text = template.read_text(encoding="utf-8")
    values = tree("values.yaml")

    for found in _VALUES_PATH.finditer(text):
        at(values, *found[1].strip(".").split("."))  # a KeyError names what is missing
    for role in cast("dict[str, Tree]", values["roles"]).values():
        assert set(_ROLE_PATH.findall(text)) <= set(role)


def test_templates_include_what_exists() -> None:
    """Every included definition is defined once, and every shipped file is there."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    defined = _DEFINED.findall(text)

    assert sorted(set(defined)) == sorted(defined)
    assert set(defined) == set(_INCLUDED.findall(text))
    assert ["alerts/turnstream.yaml", "dashboards/turnstream.json"] == _FILE.findall(text)
    assert all((CHART / name).is_file() for name in _FILE.findall(text))


def test_shadow_gets_no_shared_secrets() -> None:
    """Each list of the StatefulSet's secrets chooses the role's own alone for shadow."""
    text = (CHART / "templates/statefulset.yaml").read_text(encoding="utf-8")
    shared = [line.strip() for line in text.splitlines() if "Values.shared" in line]

    assert '{{- $own := eq $name "shadow" }}' in text
    assert [
        f"{{{{- ${name} := $own | ternary $role.{key} "
        f"(concat $top.Values.shared.{key} $role.{key}) }}}}"
        for name, key in (("env", "env"), ("envFrom", "envFrom"), ("files", "secretFiles"))
    ] == shared


def test_state_on_disk_has_a_volume_where_it_is_kept() -> None:
    """Choosing the store is enough: its directory is set, mounted, and has a volume or a claim."""
    values = tree("values.yaml")
    text = (CHART / "templates/statefulset.yaml").read_text(encoding="utf-8")

    assert is_valid(config__stream__store="rocksdict")
    assert not is_valid(storage__size="a lot")
    assert "memory" == at(values, "config", "stream", "store")
    assert "/var/lib/turnstream" == at(values, "config", "stream", "data_dir")
    assert "{name: state, mountPath: {{ $top.Values.config.stream.data_dir | quote }}}" in text
    for choice in (
        "and $disk $top.Values.storage.persistent",
        "and $disk (not $top.Values.storage",
    ):
        assert f"if {choice}" in text


def test_a_candidate_that_no_pod_would_have_is_refused() -> None:
    """Shadow could not start; the README's command gives what its deployment names."""
    text = (CHART / "templates/configmap.yaml").read_text(encoding="utf-8")
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    command, deployment = re.findall(r"```(?:sh|yaml)\n(.*?)```", readme, re.DOTALL)[:2]
    candidate = at(yaml.safe_load(deployment), "config", "shadow", "catalog")

    assert 'fail "config.shadow.catalog is set: set catalog.candidate too' in text
    assert 'ne $candidate "candidate.yaml"' in text
    assert "  candidate.yaml: |" in text
    assert "candidate.yaml" == candidate
    assert "--set-file catalog.candidate=candidate.yaml" in command
    assert "--set-file catalog.text=catalog.yaml" in command


@pytest.mark.skipif(
    shutil.which("helm") is None,
    reason="rendering needs helm; the texts are tested without it",
)
@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ([], "set catalog.candidate too"),
        (["config.shadow.catalog=new.yaml"], "config.shadow.catalog is new.yaml"),
        (["catalog.candidate=x"], ""),
        (["catalog.existingConfigMap=mine"], ""),
        (["roles.shadow.enabled=false"], ""),
        (["config.shadow.catalog=/etc/mine/new.yaml"], ""),
        (["config.shadow.catalog=catalog.yaml"], ""),
    ],
    ids=str,
)
def test_helm_refuses_a_candidate_that_no_pod_would_have(options: list[str], refused: str) -> None:
    """A name that the ConfigMap has is needed where shadow runs on it."""
    given = [
        "catalog.text=x",
        "config.kafka.bootstrap_servers=k:9092",
        "config.shadow.catalog=candidate.yaml",
        "roles.shadow.enabled=true",
        *options,
    ]
    values = [part for one in given for part in ("--set", one)]
    command = ["helm", "template", "s", str(CHART), "--kube-version", "1.29.0", *values]

    rendered = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (bool(refused), True) == (rendered.returncode != 0, refused in rendered.stderr)


def test_a_pod_may_end_in_peace() -> None:
    """Kubernetes waits longer than the grace, and asks for health when the page can know it."""
    text = (CHART / "templates/statefulset.yaml").read_text(encoding="utf-8")
    delay = re.search(r"initialDelaySeconds: (\d+)", text)

    assert (
        "terminationGracePeriodSeconds: {{ add (ceil $top.Values.config.stream.grace_seconds) 20 }}"
    ) in text
    assert delay is not None
    # Before its first beat is due, the page says that all is well.
    assert server._SILENCE_SECONDS < int(delay[1])


# --- alerts and dashboard -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.alert)
def test_alerts_ask_for_what_exists(rule: Rule) -> None:
    """Names, labels and label values are the catalogue's, and it says what to do."""
    asked = read(rule.expr)

    assert {"severity"} == set(rule.labels)
    assert rule.labels["severity"] in ("critical", "warning")
    assert {"summary", "description"} == set(rule.annotations)
    text = " ".join(rule.annotations.values())
    assert set(_ANNOTATION_LABEL.findall(text)) <= asked.labels


def test_alerts_have_names_of_their_own() -> None:
    """Two alerts of one name would silence each other."""
    names = [rule.alert for rule in rules()]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(("title", "expression", "legend"), list(queries()))
def test_panels_ask_for_what_exists(title: str, expression: str, legend: str) -> None:
    """Names and labels of every query are the catalogue's, and the legend's labels are kept."""
    asked = read(expression, variables=VARIABLES)

    assert set(_LEGEND_LABEL.findall(legend)) <= asked.labels, title


def test_the_dashboard_shows_every_metric() -> None:
    """A metric that nobody can see is missing here, except the count of broken clocks."""
    seen = {name for _, expr, _ in queries() for name in read(expr, variables=VARIABLES).metrics}
    unseen = {metric.name for metric in CATALOGUE} - seen

    assert {"turnstream_impossible_values_total", "turnstream_restored_records_total"} == unseen


def test_panels_do_not_overlap() -> None:
    """Every panel has an id and a place of its own in the 24 columns."""
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        grid = cast("dict[str, int]", panel["gridPos"])
        taken = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in taken) < 24
        cells |= taken
    assert len(panels()) == len({cast("int", panel["id"]) for panel in panels()})


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("turnstream_turn_total", "no metric"),
        ("sum by (tool) (rate(turnstream_turns_total[5m]))", "no such label"),
        ('turnstream_decisions_total{action="reply"}', "is never"),
        ('turnstream_decisions_total{conversation="1"}', "has no label"),
        ("rate(turnstream_partitions_owned[5m])", "range of a counter"),
        ("rate(turnstream_turns_total)", "range of a counter"),
        ("histogram_quantile(0.9, rate(turnstream_decider_seconds_sum[5m]))", "does not fit"),
        ("turnstream_turns_total / turnstream_decisions_total", "never match"),
        ("sum by (role) (turnstream_turns_total", "expected ')'"),
        ("turnstream_partitions_owned > ", "ends too early"),
        ("turnstream_partitions_owned 5", "nothing may follow"),
        ("turnstream_turns_total[5m]", "no instant vector"),
    ],
)
def test_wrong_expressions_are_found(expression: str, fault: str) -> None:
    """The reading of expressions bites: each kind of mistake is refused."""
    with pytest.raises(BadQuery, match=re.escape(fault)):
        read(expression)


def test_the_scrape_sets_the_labels_that_are_used() -> None:
    """`component` comes from the ServiceMonitor; the others are set by Prometheus itself."""
    text = (CHART / "templates/monitoring.yaml").read_text(encoding="utf-8")

    assert {"component"} == set(re.findall(r"targetLabel: (\w+)", text))
    assert {"namespace", "pod", "component"} == TARGET_LABELS
    assert not [metric for metric in CATALOGUE if TARGET_LABELS & set(metric.labels)]
