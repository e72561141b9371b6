"""The doctor's look at what a deployment stands on: broker, topics, groups, schema registry."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from turnstream.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from turnstream.config import Settings
    from turnstream.stream.groups import GroupView
    from turnstream.stream.topics import Plan

_TIMEOUT_SECONDS: Final = 10
"""How long each answer may take: a doctor that hangs helps nobody."""

_SHOWN: Final = 4
"""Partitions named per line; a topic may have thousands."""

_TOPIC_REMEDIES: Final = {
    "create": "turnstream topics apply",
    "configure": "turnstream topics apply",
    "partitions": (
        "a partition count is never changed, since keys would move: set `partitions` to what the "
        "topics have, or start anew under another `topics.prefix`"
    ),
    "replication": (
        "roles work with it: set `replication_factor` as the topics are, or reassign their replicas"
    ),
}
"""Kind of difference to what mends it."""


async def examine_cluster(settings: "Settings") -> list[Finding]:
    """Look at broker, topics, the groups of all roles, and the registry if there is one."""
    findings = [*await _kafka(settings)]
    if settings.registry is not None:
        findings += await _registry(settings)
    return findings


async def _kafka(settings: "Settings") -> list[Finding]:
    from turnstream.config import SecretUnavailable
    from turnstream.stream.groups import brokers_of
    from turnstream.stream.reachability import why_unreachable
    from turnstream.stream.topics import TopicsUnsupported, plan

    where = settings.kafka.bootstrap_servers
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            planned = await plan(settings)
            brokers = await brokers_of(settings)
    except TopicsUnsupported as error:
        return [
            ok("broker", f"{where}: the embedded one"),
            ok("topics", f"not looked at: {error}"),
            ok("groups", "not looked at: the embedded broker does not tell where they stand"),
        ]
    except SecretUnavailable as error:
        return [fail("broker", str(error), "provide the secret")]
    except Exception as error:  # noqa: BLE001 - anything here means the broker cannot be used
        why = await why_unreachable(settings.kafka.client_options(), error)
        return [fail("broker", why.detail, why.remedy)]
    if brokers.without:
        detail = f"{where}: it lacks {', '.join(brokers.without)}"
        broker = fail("broker", detail, "use Kafka 3.0 or newer, or what speaks its protocol")
    else:
        broker = ok(
            "broker",
            f"{where}: {brokers.count} node(s), API Fetch v{brokers.apis[1]}, "
            f"TxnOffsetCommit v{brokers.apis[28]}",
        )
    return [broker, *_topics(planned), *await _groups(settings)]


def _topics(planned: "Plan") -> list[Finding]:
    if not planned.changes:
        return [ok("topics", f"all {planned.topics} as they should be")]
    found: dict[str, list[str]] = {}
    for change in planned.changes:
        found.setdefault(_TOPIC_REMEDIES[change.kind], []).append(str(change))
    harmless = _TOPIC_REMEDIES["replication"]
    return [
        (warn if remedy == harmless else fail)("topics", "\n".join(found[remedy]), remedy)
        for remedy in dict.fromkeys(_TOPIC_REMEDIES.values())
        if remedy in found
    ]


async def _groups(settings: "Settings") -> list[Finding]:
    """Where the group of each role stands."""
    from turnstream.stream.groups import groups_of

    groups = {settings.group(role): topics for role, topics in _sources(settings).items()}
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            views = await groups_of(settings, groups)
    except Exception as error:  # noqa: BLE001 - whatever it is, the roles may work all the same
        detail = f"not looked at: {type(error).__name__}: {error}"
        return [warn("groups", detail, "let this user describe groups and read their offsets")]
    return [
        finding
        for role, view in zip(_sources(settings), views, strict=True)
        if view.positions  # else its topics are not there, which has been said
        for finding in _group(role, view, settings)
    ] + await _standstills(settings, views)


async def _standstills(settings: "Settings", views: "Sequence[GroupView]") -> list[Finding]:
    """Groups that wait for a schema; lag and members look well all the while."""
    from turnstream.stream.standstill import standstills_of

    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            found = await standstills_of(settings, views)
    except Exception as error:  # noqa: BLE001 - whatever it is, the roles may work all the same
        detail = f"next records not looked at: {type(error).__name__}: {error}"
        return [warn("groups", detail, "let this user read the topics")]
    findings: list[Finding] = []
    for role in _sources(settings):
        stands = found.get(settings.group(role), ())
        if not stands:
            continue
        places = _named(
            [
                f"{one.position.topic}/{one.position.partition} at {one.position.start} "
                f"(schema {one.schema})"
                for one in stands
            ]
        )
        refused = ", ".join(f'"{schema}"' for schema in sorted({one.schema for one in stands}))
        remedy = (
            "publish the schema, or run a version that has it; if nobody ever will, set "
            f"refused_schemas: [{refused}] for every role and restart: dead letters then"
        )
        detail = f"stands still before a record whose schema nobody knows: {places}"
        findings.append(warn(f"group {role}", detail, remedy))
    return findings


def _sources(settings: "Settings") -> Mapping[str, Sequence[str]]:
    """Role to the physical topics that it reads."""
    from turnstream.roles import answer, classify, decide, execute, shadow

    modules = {
        "decide": decide,
        "execute": execute,
        "answer": answer,
        "classify": classify,
        "shadow": shadow,
    }
    return {
        role: [settings.topics.name(topic) for topic in module.SOURCES]
        for role, module in modules.items()
    }


def _group(role: str, view: "GroupView", settings: "Settings") -> list[Finding]:
    check = f"group {role}"
    if not view.known:
        if settings.start_from is None:
            detail = f"{view.name} has never committed: {role} would refuse to start"
            return [warn(check, detail, "say with `start_from` where a new group begins")]
        return [ok(check, f"{view.name} is new; it starts from {settings.start_from}")]
    findings: list[Finding] = []
    if view.beyond_end:
        places = _named([f"{p} at {p.committed} of {p.end}" for p in view.beyond_end])
        detail = f"{view.name} has committed more than the log has: {places}"
        remedy = (
            "the topic was made anew, and the role refuses to start: bring the topic back, or "
            "start a new group by another `topics.prefix`"
        )
        findings.append(fail(check, detail, remedy))
    if view.expired:
        places = _named([f"{p} at {p.committed}, log from {p.beginning}" for p in view.expired])
        detail = f"{view.name}: records were deleted before they were handled: {places}"
        remedy = "raise the topic's retention above the longest time that the role is away"
        findings.append(warn(check, detail, remedy))
    if findings:
        return findings
    members = "members not told" if view.members is None else f"{view.members} running"
    lag = f"lag {view.lag:,}" if view.counted else f"lag at most {view.lag:,} (markers count)"
    detail = f"{view.name}: {members}, {lag}"
    if view.members == 0 and view.lag:
        return [warn(check, detail, f"nobody reads: turnstream run {role}")]
    return [ok(check, detail)]


def _named(places: Sequence[str]) -> str:
    more = [f"and {len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
    return ", ".join([*places[:_SHOWN], *more])


async def _registry(settings: "Settings") -> list[Finding]:
    from turnstream.config import SecretUnavailable
    from turnstream.stream.registry import (
        RegistryClient,
        SchemasUnavailable,
        store_for,
        subjects_of,
    )

    client = store_for(settings)
    if not isinstance(client, RegistryClient):
        return []
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            subjects = await subjects_of(settings, client)
    except SecretUnavailable as error:
        return [fail("registry", str(error), "provide the secret")]
    except SchemasUnavailable as error:
        return [fail("registry", str(error), "check registry.url, and that it runs")]
    except TimeoutError:
        detail = f"no answer within {_TIMEOUT_SECONDS} s"
        return [fail("registry", detail, "check registry.url, and that it runs")]
    refused = [one.subject for one in subjects if one.state == "incompatible"]
    if refused:
        detail = f"our schemas are no compatible versions of {', '.join(refused)}"
        remedy = (
            "see who else registers there; another `topics.prefix` gives subjects of its own, and "
            "FULL_TRANSITIVE is the rule that our versions keep"
        )
        return [fail("registry", detail, remedy)]
    there = sum(one.state == "registered" for one in subjects)
    detail = f"{there} of {len(subjects)} subjects have our schemas; the others take them"
    return [ok("registry", detail if there < len(subjects) else f"has all {there} subjects")]
