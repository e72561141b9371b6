"""Servers, tools on them and agents of queues: what keeps a catalog from loading."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.catalog.small import SMALL
from turnstream.catalog import CatalogError, load_catalog
from turnstream.catalog.lint import lint

Write = Callable[[str], Path]

WEB = {"transport": "streamable_http", "url": "{LIBRARY_URL}/mcp"}
PIPED = {"transport": "stdio", "command": "library", "env": {"API_KEY": "env:LIBRARY_KEY"}}
AGENT = {"url": "{AGENT_URL}", "skill": "take_over"}


def with_servers(
    servers: dict[str, Any] | None = None,
    *,
    binding: dict[str, Any] | None = None,
    agent: dict[str, Any] | None = None,
) -> str:
    """The small catalog with its tool on a server, and an agent."""
    document = yaml.safe_load(SMALL)
    document["servers"] = servers if servers is not None else {"erp": WEB, "files": PIPED}
    document["tools"]["find_loan"]["binding"] = binding or {"kind": "mcp", "server": "erp"}
    document["queues"]["people"]["agent"] = agent or AGENT
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def faults(path: Path) -> list[str]:
    """What is wrong with a catalog, without file and line."""
    with pytest.raises(CatalogError) as raised:
        load_catalog(path)
    return [f"{one.path}: {one.message}" for one in raised.value.faults]


def test_servers_and_agents_are_part_of_a_catalog(write: Write) -> None:
    """And of the version of its decisions."""
    loaded = load_catalog(write(with_servers()))
    other = load_catalog(write(with_servers(agent={**AGENT, "skill": "sing"})))

    assert {"erp", "files"} == set(loaded.catalog.servers)
    assert loaded.decision_version != other.decision_version
    assert loaded.presentation_version == other.presentation_version


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"binding": {"kind": "mcp", "server": "shop"}},
            "tools.find_loan.binding.server: expected one of servers (erp, files), got 'shop'",
        ),
        (
            {"binding": {"kind": "mcp", "server": "people"}},
            "an agent of a queue is never called as a tool",
        ),
        (
            {"binding": {"kind": "mcp", "server": "erp", "tool": "find loan"}},
            "tools.find_loan.binding.tool: the name of a tool on a server is 1 to 128",
        ),
        (
            {"binding": {"kind": "http", "url": "{AGENT_URL}"}},
            "tools.find_loan.binding.url: this is the agent of a queue",
        ),
        (
            {"servers": {"erp": {**WEB, "url": "{AGENT_URL}"}}},
            "servers.erp.url: this is the agent of a queue",
        ),
        ({"servers": {"e r p": WEB, "erp": WEB}}, "servers.e r p: expected a name of 1 to 64"),
        (
            {"servers": {"erp": {**WEB, "url": "library.test/mcp"}}},
            "servers.erp.url: expected http(s):// and a host",
        ),
        (
            {"servers": {"erp": {**WEB, "url": "{LIBRARY_URL}/{book}"}}},
            "servers.erp.url: expected {VARIABLE} at the start only",
        ),
        (
            {"servers": {"erp": {**WEB, "url": "{LIBRARY_URL}mcp"}}},
            "servers.erp.url: expected {VARIABLE} at the start only",
        ),
        (
            {"servers": {"erp": {**WEB, "url": "http://l.test/mcp?token=abc#x"}}},
            "servers.erp.url: token: a secret in a URL ends up in logs",
        ),
        (
            {"servers": {"erp": {**WEB, "headers": {"Authorization": "Bearer abc"}}}},
            "servers.erp.headers.Authorization: expected a reference to a secret",
        ),
        (
            {"servers": {"erp": {**WEB, "headers": {"X Y": "z"}}}},
            "servers.erp.headers.X Y: expected the name of an HTTP header",
        ),
        (
            {"servers": {"erp": {**PIPED, "env": {"API_KEY": "abc"}}}},
            "servers.erp.env.API_KEY: expected a reference to a secret",
        ),
        (
            {"servers": {"erp": {**PIPED, "env": {"A-B": "abc"}}}},
            "servers.erp.env.A-B: expected the name of an environment variable",
        ),
        (
            {"servers": {"erp": {**PIPED, "args": ["a", "b\0"]}}},
            "servers.erp.args.1: expected no NUL character",
        ),
        (
            {"agent": {**AGENT, "headers": {"X-Api-Key": "abc"}}},
            "queues.people.agent.headers.X-Api-Key: expected a reference to a secret",
        ),
        (
            {"agent": {**AGENT, "input_schema": {"properties": {"a": {"type": "text"}}}}},
            "queues.people.agent.input_schema.properties.a.type: ",
        ),
        (
            {"agent": {**AGENT, "url": "ftp://agent.test"}},
            "queues.people.agent.url: expected http(s)://",
        ),
    ],
)
def test_what_keeps_a_catalog_from_loading(
    write: Write, changes: dict[str, Any], expected: str
) -> None:
    """With the place and what was expected there; no secret is repeated."""
    found = faults(write(with_servers(**changes)))

    assert any(expected in one for one in found), found
    assert not any("abc" in one for one in found)


def test_an_agent_is_no_kind_of_binding(write: Write) -> None:
    """It is told of handoffs, and the error says where."""
    (found,) = faults(write(with_servers(binding={"kind": "a2a", "server": "erp"})))

    assert "an agent is never called as a tool" in found


def test_a_server_that_is_not_told_whose_data_is_a_warning(write: Write) -> None:
    """As a service over HTTP is."""
    told = {"kind": "mcp", "server": "erp", "subject_meta": "turnstream/subject"}
    silent, speaking = (
        [
            one.message
            for one in lint(write(with_servers(binding=binding)))
            if one.code == "unnamed_subject"
        ]
        for binding in (None, told)
    )

    assert ([True], []) == (["subject_meta" in one for one in silent], speaking)
