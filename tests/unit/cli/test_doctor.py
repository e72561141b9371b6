"""``turnstream doctor``: every check with its finding, and what to do about it."""

import json
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests import small_shop
from tests.unit.cli.test_run import deployment
from turnstream.cli.root import app
from turnstream.stream import groups, registry, standstill, topics
from turnstream.stream.groups import Brokers, GroupView, Position
from turnstream.stream.reachability import Unreachable
from turnstream.stream.registry import RegistryClient, SchemasUnavailable
from turnstream.stream.standstill import Standstill
from turnstream.stream.topics import Change, Plan, TopicsRefused, TopicsUnsupported, WantedTopic

APIS = {1: 12, 22: 4, 24: 3, 28: 3}

TOPIC = WantedTopic("conversation.turns", 4, 1, {})


def planned(
    monkeypatch: pytest.MonkeyPatch,
    *changes: Change,
    error: Exception | None = None,
    apis: Mapping[int, int] = APIS,
    positions: Sequence[Position] = (Position("conversation.turns", 0, 3, 0, 3),),
    members: int | None = 1,
    stands: Mapping[str, tuple[Standstill, ...]] | None = None,
) -> None:
    """Let a cluster differ so from its plan, and every group stand at these positions."""

    async def plan(_settings: object) -> Plan:
        if error is not None:
            raise error
        return Plan(changes, topics=10)

    async def brokers_of(_settings: object) -> Brokers:
        return Brokers(3, apis)

    async def groups_of(
        _settings: object, asked: Mapping[str, Sequence[str]]
    ) -> tuple[GroupView, ...]:
        return tuple(GroupView(name, members, tuple(positions)) for name in asked)

    async def standstills_of(
        _settings: object, _views: object
    ) -> Mapping[str, tuple[Standstill, ...]]:
        return stands or {}

    monkeypatch.setattr(topics, "plan", plan)
    monkeypatch.setattr(standstill, "standstills_of", standstills_of)
    monkeypatch.setattr(groups, "brokers_of", brokers_of)
    monkeypatch.setattr(groups, "groups_of", groups_of)


def examined(config: Path) -> tuple[int, list[dict[str, str]]]:
    """Exit status and findings."""
    result = CliRunner().invoke(app, ["doctor", "-c", str(config), "-o", "json"])
    return result.exit_code, json.loads(result.stdout)


def of(findings: list[dict[str, str]], check: str) -> list[dict[str, str]]:
    """The findings of one check."""
    return [one for one in findings if one["check"] == check]


GROUPS = [f"group {role}" for role in ("decide", "execute", "answer", "classify", "shadow")]


def statuses(findings: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Each check with its status, in order."""
    return [(one["check"], one["status"]) for one in findings]


def test_a_sound_deployment_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 0, every check ok, in the order of need; no remedy where nothing is wrong."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path))

    assert 0 == status
    checks = ("versions", "configuration", "catalog", "models", "tools", "secrets", "broker")
    assert [(check, "ok") for check in (*checks, "topics", *GROUPS)] == statuses(findings)
    assert {""} == {one["remedy"] for one in findings}
    (versions,), (models,) = of(findings, "versions"), of(findings, "models")
    assert "Python 3." in versions["detail"]
    assert "aiokafka " in versions["detail"]
    assert "by-word-1" in models["detail"]
    assert "lag 0" in findings[-1]["detail"]


def test_a_table_is_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what square brackets say, which are no markup."""
    planned(monkeypatch, error=TopicsRefused("no Kafka"))

    async def why(*_: object) -> Unreachable:
        return Unreachable("[red]nobody[/red]", "start it")

    monkeypatch.setattr("turnstream.stream.reachability.why_unreachable", why)

    result = CliRunner().invoke(
        app, ["doctor", "-c", str(deployment(tmp_path))], env={"COLUMNS": "200"}
    )

    assert 1 == result.exit_code
    assert "[red]nobody[/red]" in result.stdout
    assert "fail" in result.stdout


def test_a_bad_configuration_ends_the_examination(tmp_path: Path) -> None:
    """Nothing else can be looked at."""
    path = tmp_path / "turnstream.yaml"
    path.write_text("partitions: many\n")

    status, findings = examined(path)

    assert 1 == status
    assert [("versions", "ok"), ("configuration", "fail")] == statuses(findings)
    assert "turnstream.yaml:1" in findings[1]["detail"]
    assert findings[1]["remedy"]


def test_a_bad_catalog_is_named_and_the_cluster_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models need a catalog; the broker does not."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path, catalog="default_locale: en\ntols: {}\n"))

    assert 1 == status
    assert [
        ("versions", "ok"),
        ("configuration", "ok"),
        ("catalog", "fail"),
        ("secrets", "ok"),
        ("broker", "ok"),
        ("topics", "ok"),
    ] == statuses(findings)[:6]
    assert "catalog.yaml:2" in findings[2]["detail"]


NO_MODULE = {"kind": "python", "target": "no_such_module:make"}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"deciders": {"by_word": NO_MODULE}}, "deciders.by_word"),
        ({"deciders": {}}, "no decider 'by_word'"),
        (
            {
                "deciders": {
                    "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
                    "new": NO_MODULE,
                },
                "shadow": {"decider": "new"},
            },
            "deciders.new",
        ),
        ({"shadow": {"catalog": "absent.yaml"}}, "absent.yaml"),
        (
            {"classifiers": {"mine": NO_MODULE}, "classify": {"classifier": "mine"}},
            "classifiers.mine",
        ),
    ],
    ids=["decider", "no decider", "shadow", "shadow's catalog", "classifier"],
)
def test_every_model_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], where: str
) -> None:
    """The live one, the candidate and the classifier, as the roles would make them."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path, **changes))

    assert 1 == status
    assert ("models", "fail") == statuses(findings)[3]
    assert where in findings[3]["detail"]
    assert findings[3]["remedy"]


def model_at(base_url: str) -> dict[str, Any]:
    """The shop's decider behind an API of one's own."""
    return {"kind": "custom", "model": "m", "base_url": base_url}


@contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections and says nothing that TLS would understand."""

    class Plain(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"plain text, no TLS")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Plain) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_model_that_is_not_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the deciders and why, the shadow's and the writer of another's arguments among them."""
    planned(monkeypatch)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        choosing = {"kind": "decisions", "model": "m", "base_url": url, "arguments_by": "writer"}
        deciders = {
            "by_word": choosing,
            "writer": model_at(f"{url}/reply"),
            "next": model_at(url),
            "unused": model_at("http://127.0.0.1:1"),
        }
        config = deployment(tmp_path, deciders=deciders, shadow={"decider": "next"})
        status, findings = examined(config)

    (found,) = [one for one in of(findings, "models") if "confidence" not in one["detail"]]
    assert (0, "warn") == (status, found["status"])
    assert found["detail"].endswith(
        "cannot be connected to from here (Connection refused): "
        "deciders.by_word, deciders.next, deciders.writer"
    )
    assert "base_url" in found["remedy"]


@pytest.mark.parametrize(("scheme", "status"), [("http", "ok"), ("https", "warn")])
def test_a_model_is_connected_to_as_its_address_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, status: str
) -> None:
    """A port that is open and speaks no TLS is none of an https address."""
    planned(monkeypatch)
    with listening() as port:
        url = f"{scheme}://127.0.0.1:{port}/reply"
        _, findings = examined(deployment(tmp_path, deciders={"by_word": model_at(url)}))

    found = of(findings, "models")[0]
    assert status == found["status"]
    assert (status == "warn") == ("(TLS: " in found["detail"])


def test_a_broker_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are then not spoken of."""
    planned(monkeypatch, error=TopicsRefused("no Kafka"))

    kafka = {"bootstrap_servers": "k.invalid:9092"}
    status, findings = examined(deployment(tmp_path, kafka=kafka))

    assert 1 == status
    assert ("broker", "fail") == statuses(findings)[-1]
    assert "no Kafka at k.invalid:9092 (kafka.bootstrap_servers)" in findings[-1]["detail"]
    assert "correct the name" in findings[-1]["remedy"]


def test_differing_topics_are_named_with_what_mends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `topics apply` can do, what only the configuration can, and what roles work with."""
    planned(
        monkeypatch,
        Change("conversation.turns", "partitions", "has 6, wanted 4", TOPIC),
        Change("conversation.control", "create", "4 partitions", TOPIC),
        Change("conversation.actions", "replication", "has 3, wanted 1", TOPIC),
    )

    status, findings = examined(deployment(tmp_path))

    assert 1 == status
    found = of(findings, "topics")
    assert ["fail", "fail", "warn"] == [one["status"] for one in found]
    assert [
        ("conversation.control: create: 4 partitions", "turnstream topics apply"),
        ("conversation.turns: partitions: has 6, wanted 4", found[1]["remedy"]),
        ("conversation.actions: replication: has 3, wanted 1", found[2]["remedy"]),
    ] == [(one["detail"], one["remedy"]) for one in found]
    assert "set `partitions`" in found[1]["remedy"]
    assert "roles work with it" in found[2]["remedy"]


def test_another_replica_count_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment that works is not called broken."""
    planned(monkeypatch, Change(TURNS, "replication", "has 3, wanted 1", TOPIC))

    status, findings = examined(deployment(tmp_path))

    assert (0, ["warn"]) == (status, [one["status"] for one in of(findings, "topics")])


def test_a_variable_that_nothing_reads_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the one that is meant."""
    planned(monkeypatch)
    monkeypatch.setenv("TURNSTREAM_PARTITION", "12")

    status, findings = examined(deployment(tmp_path))

    found = of(findings, "configuration")
    assert (0, ["warn", "ok"]) == (status, [one["status"] for one in found])
    assert "TURNSTREAM_PARTITION is set" in found[0]["detail"]
    assert "set TURNSTREAM_PARTITIONS if" in found[0]["remedy"]


def test_notices_of_libraries_do_not_stand_between_the_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have to say of a healthy cluster helps nobody."""
    planned(monkeypatch)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    try:
        examined(deployment(tmp_path))
        assert logging.WARNING == root.level
    finally:
        root.setLevel(before)


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    """It is no fault of the broker's."""
    kafka = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": "me",
        "sasl_password": "env:NO_SUCH_VARIABLE",
    }

    status, findings = examined(deployment(tmp_path, kafka=kafka))

    assert 1 == status
    assert [("secrets", "fail"), ("broker", "fail")] == statuses(findings)[-2:]
    assert "kafka.sasl_password: env:NO_SUCH_VARIABLE" in findings[-2]["detail"]
    assert "NO_SUCH_VARIABLE" in findings[-1]["detail"]
    assert "provide the secret" == findings[-1]["remedy"]


def with_binding(binding: dict[str, Any], **changes: Any) -> str:
    """The small shop's catalog with another binding of its tool."""
    tool = {**small_shop.CATALOG["tools"]["get_order"], "binding": binding, **changes}
    text: str = yaml.safe_dump({**small_shop.CATALOG, "tools": {"get_order": tool}})
    return text


SECRET = "a-very-secret-value"


def test_every_reference_is_resolved_and_none_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of options and headers as well; who must set it is said."""
    planned(monkeypatch)
    monkeypatch.setenv("GOOD_KEY", SECRET)
    monkeypatch.setenv("SHOP_URL", "http://127.0.0.1:1")
    headers = {"X-Key": "env:GOOD_KEY", "X-Other": "file:absent.txt", "X-Plain": "v1"}
    binding = {"kind": "http", "url": "{SHOP_URL}/orders", "headers": headers}
    options = {"target": "tests.small_shop:by_word", "options": {"keys": ["env:NOT_SET"]}}

    status, findings = examined(
        deployment(
            tmp_path,
            catalog=with_binding(binding),
            deciders={
                "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
                "other": {"kind": "python", **options},
                "model": {
                    "kind": "decisions",
                    "base_url": "http://127.0.0.1:1",
                    "model": "m",
                    "api_key": "env:NO_KEY",
                },
            },
        )
    )

    found = of(findings, "secrets")
    assert 1 == status
    assert ["fail", "fail", "fail"] == [one["status"] for one in found]
    assert found[0]["detail"].startswith("deciders.model.api_key: env:NO_KEY")
    assert found[1]["detail"].startswith("deciders.other.options.keys.0: env:NOT_SET")
    assert found[2]["detail"].startswith("tools.get_order.binding.headers.X-Other: file:absent.txt")
    assert "turnstream run execute" in found[2]["remedy"]
    assert SECRET not in json.dumps(findings)


@pytest.mark.parametrize(
    ("binding", "named"),
    [
        ({"kind": "function", "target": "nowhere:no"}, "cannot be imported"),
        ({"kind": "function", "target": f"{__name__}:takes_another"}, "'number'"),
        ({"kind": "function", "target": f"{__name__}:takes_more"}, "'account'"),
        ({"kind": "http", "url": "{BAD_URL}/orders"}, "BAD_URL"),
    ],
)
def test_a_tool_that_cannot_be_bound_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binding: dict[str, Any], named: str
) -> None:
    """A function that is not there or takes other arguments, a base URL that is none."""
    planned(monkeypatch)
    monkeypatch.setenv("BAD_URL", "shop.example.com")

    status, findings = examined(deployment(tmp_path, catalog=with_binding(binding)))

    (found,) = of(findings, "tools")
    assert (1, "fail") == (status, found["status"])
    assert "tools.get_order.binding" in found["detail"]
    assert named in found["detail"]
    assert found["remedy"]


def takes_another(number: str) -> dict[str, str]:
    """A tool with another name for its argument."""
    return {"status": number}


def takes_more(order_id: str, account: str) -> dict[str, str]:
    """A tool that wants what no call gives."""
    return {"status": order_id + account}


def test_a_base_url_that_nobody_has_set_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all tools behind it."""
    planned(monkeypatch)
    binding = {"kind": "http", "url": "{NO_URL}/orders"}
    tool = {**small_shop.CATALOG["tools"]["get_order"], "binding": binding}
    tools = {"get_order": tool, "find_order": {**tool, "description": "Find.", "answer": None}}
    catalog = yaml.safe_dump({**small_shop.CATALOG, "tools": tools})

    status, findings = examined(deployment(tmp_path, catalog=catalog))

    (found,) = of(findings, "tools")
    assert (1, "fail") == (status, found["status"])
    assert "NO_URL is not set, the base URL of find_order, get_order" == found["detail"]
    assert "NO_URL" in found["remedy"]


def test_a_write_that_takes_too_long_for_a_stop_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor would refuse to start."""
    planned(monkeypatch)
    binding = small_shop.CATALOG["tools"]["get_order"]["binding"]
    catalog = with_binding(binding, effect="write", threshold=0.5, timeout_seconds=60)

    status, findings = examined(deployment(tmp_path, catalog=catalog))

    (found,) = of(findings, "tools")
    assert (1, "fail") == (status, found["status"])
    assert "tools.get_order.timeout_seconds" in found["detail"]


def test_a_service_that_is_not_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be reachable from where the tools are called; one that listens is fine."""
    planned(monkeypatch)
    with socket.socket() as service:
        service.bind(("127.0.0.1", 0))
        port = service.getsockname()[1]
        binding = {"kind": "http", "url": f"http://127.0.0.1:{port}/orders"}
        config = deployment(tmp_path, catalog=with_binding(binding))
        absent_status, absent = examined(config)
        service.listen()
        status, findings = examined(config)

    (missing,), (there,) = of(absent, "tools"), of(findings, "tools")
    assert (0, "warn") == (absent_status, missing["status"])
    assert f"127.0.0.1:{port} cannot be connected to" in missing["detail"]
    assert "get_order" in missing["detail"]
    assert missing["remedy"]
    assert (0, "ok") == (status, there["status"])


def test_a_broker_that_lacks_something_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without transactions nothing can be promised; an old one is not known to work."""
    planned(monkeypatch, apis={1: 11, 22: 4, 28: 3})

    status, findings = examined(deployment(tmp_path))

    (found,) = of(findings, "broker")
    assert (1, "fail") == (status, found["status"])
    assert "AddPartitionsToTxn (24), Fetch 12, has 11" in found["detail"]


def test_a_broker_without_administration_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo's embedded one."""
    planned(monkeypatch, error=TopicsUnsupported("no settings"))

    status, findings = examined(deployment(tmp_path))

    assert 0 == status
    assert [("broker", "ok"), ("topics", "ok"), ("groups", "ok")] == statuses(findings)[-3:]


TURNS = "conversation.turns"


@pytest.mark.parametrize(
    ("position", "members", "changes", "status", "words"),
    [
        (Position(TURNS, 0, None, 0, 9), 0, {}, "warn", "has never committed"),
        (
            Position(TURNS, 0, None, 0, 9),
            0,
            {"start_from": "latest"},
            "ok",
            "is new; it starts from latest",
        ),
        (Position(TURNS, 0, 9, 0, 5), 1, {}, "fail", "conversation.turns/0 at 9 of 5"),
        (Position(TURNS, 0, 2, 4, 9), 1, {}, "warn", "conversation.turns/0 at 2, log from 4"),
        (
            Position(TURNS, 0, 2, 0, 1500),
            2,
            {},
            "ok",
            "2 running, lag at most 1,498 (markers count)",
        ),
        (Position(TURNS, 0, 2, 0, 9, 3), 2, {}, "ok", "2 running, lag 3"),
        (Position(TURNS, 0, 2, 0, 9), 0, {}, "warn", "0 running, lag at most 7"),
        (Position(TURNS, 0, 2, 0, 9, 3), 0, {}, "warn", "0 running, lag 3"),
        (Position(TURNS, 0, 8, 0, 9, 0), 0, {}, "ok", "0 running, lag 0"),
        (Position(TURNS, 0, 9, 0, 9), 0, {}, "ok", "0 running, lag 0"),
        (Position(TURNS, 0, 9, 0, 9), None, {}, "ok", "members not told"),
    ],
)
def test_where_each_group_stands(  # noqa: PLR0917 - a table of cases
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    position: Position,
    members: int | None,
    changes: dict[str, Any],
    status: str,
    words: str,
) -> None:
    """Known or not, within the log or not, how far behind, and whether anybody reads."""
    planned(monkeypatch, positions=[position], members=members)

    code, findings = examined(deployment(tmp_path, **changes))

    (found,) = of(findings, "group decide")
    assert (int(status == "fail"), status) == (code, found["status"])
    assert words in found["detail"]
    assert (status == "ok") == (found["remedy"] == "")


def test_a_group_that_waits_for_a_schema_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the place, the schema, and the line for a schema that never comes."""
    place = Position(TURNS, 0, 4, 0, 9, 4)
    waits = Standstill(place, "3031323334353637")
    planned(monkeypatch, positions=[place], stands={"turnstream-decide": (waits,)})

    status, findings = examined(deployment(tmp_path))

    working, standing = of(findings, "group decide")
    assert (0, "ok", "warn") == (status, working["status"], standing["status"])
    assert "conversation.turns/0 at 4 (schema 3031323334353637)" in standing["detail"]
    assert 'refused_schemas: ["3031323334353637"]' in standing["remedy"]


def test_groups_that_may_not_be_looked_at_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roles may have the right that who asks has not."""
    planned(monkeypatch)

    async def refused(*_: object) -> tuple[GroupView, ...]:
        raise PermissionError("not for you")

    monkeypatch.setattr(groups, "groups_of", refused)

    status, findings = examined(deployment(tmp_path))

    assert (0, ("groups", "warn")) == (status, statuses(findings)[-1])
    assert "not for you" in findings[-1]["detail"]


@pytest.mark.parametrize(
    ("known", "compatible", "status", "words"),
    [
        (True, True, "ok", "has all 12 subjects"),
        (False, True, "ok", "0 of 12 subjects"),
        (False, False, "fail", "conversation.turns-value"),
        (SchemasUnavailable("it does not answer"), True, "fail", "it does not answer"),
    ],
)
def test_the_registry_is_asked(  # noqa: PLR0917 - a table of cases
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: bool | Exception,
    compatible: bool,
    status: str,
    words: str,
) -> None:
    """Whether it answers, has our schemas, and would take those that it has not."""
    planned(monkeypatch)

    async def has(_self: RegistryClient, _subject: str, _text: str) -> bool:
        if isinstance(known, Exception):
            raise known
        return known

    async def takes(_self: RegistryClient, _subject: str, _text: str) -> bool:
        return compatible

    monkeypatch.setattr(registry.RegistryClient, "has", has)
    monkeypatch.setattr(registry.RegistryClient, "compatible", takes)

    code, findings = examined(deployment(tmp_path, registry={"url": "http://registry:8081"}))

    (found,) = of(findings, "registry")
    assert (int(status == "fail"), status) == (code, found["status"])
    assert words in found["detail"]


def on_server(folder: Path, **server: Any) -> str:
    """The small shop's catalog with its tool on an MCP server, and an agent of its queue."""
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    served = {
        "transport": "stdio",
        "command": sys.executable,
        "args": ["-m", "tests.mcp_process", "stdio", str(folder)],
        "env": env,
        **server,
    }
    catalog = yaml.safe_load(with_binding({"kind": "mcp", "server": "shop"}))
    queues = {
        name: {**queue, "agent": {"url": "http://127.0.0.1:9", "skill": "take_over"}}
        for name, queue in catalog["queues"].items()
    }
    text: str = yaml.safe_dump({**catalog, "servers": {"shop": served}, "queues": queues})
    return text


def test_tools_of_servers_are_compared_with_their_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And agents with their cards: one that is not there may be reachable from elsewhere."""
    planned(monkeypatch)
    config = deployment(tmp_path, catalog=on_server(tmp_path))
    schema = small_shop.CATALOG["tools"]["get_order"]["input_schema"]
    (tmp_path / "schema").write_text(json.dumps(schema))
    _, sound = examined(config)
    (tmp_path / "schema").write_text('{"type":"object","properties":{"number":{}}}')
    status, findings = examined(config)

    (same,), (other,), *told = of(sound, "servers"), of(findings, "servers"), *of(sound, "agents")
    assert ("ok", "fail", 1) == (same["status"], other["status"], status)
    assert other["detail"].startswith("tools.get_order: input_schema differs from the server's at")
    assert {"warn"} == {one["status"] for one in told}


def test_a_server_that_is_not_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its secrets are looked at like all others."""
    planned(monkeypatch)
    env = {"KEY": "env:NOT_SET_ANYWHERE"}
    _, findings = examined(
        deployment(tmp_path, catalog=on_server(tmp_path, command="nothing", env=env))
    )

    (found,), secrets = of(findings, "servers"), of(findings, "secrets")
    assert "warn" == found["status"]
    assert ["servers.shop.env.KEY"] == [one["detail"].split(":")[0] for one in secrets]
