"""The schema registry's client, against scripted answers."""

from collections.abc import Callable

import httpx
import orjson
import pytest

from turnstream.stream.codec import NotAvro
from turnstream.stream.registry import RegistryClient, SchemasAway, SchemasUnavailable

SCHEMA = '{"type": "record", "name": "R", "fields": []}'
Answer = Callable[[httpx.Request], httpx.Response]


def _client(answer: Answer, auth: Callable[[], str] | None = None) -> RegistryClient:
    transport = httpx.MockTransport(answer)
    return RegistryClient("http://registry:8081/api/", auth=auth, transport=transport)


async def test_a_schema_is_fetched_once() -> None:
    """What an id means never changes, so it is asked for once."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={"schema": SCHEMA})

    client = _client(answer)

    assert SCHEMA == await client.fetch("id:7")
    assert SCHEMA == await client.fetch("id:7")
    assert asked == ["/api/schemas/ids/7"]


async def test_fingerprints_are_not_asked_for() -> None:
    """A registry knows ids only."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request)

    assert await _client(answer).fetch("00" * 8) is None


async def test_an_unknown_id() -> None:
    """An id that the registry has not is not found yet; it is asked for again."""
    answers = iter(
        [
            httpx.Response(404, json={"error_code": 40403}),
            httpx.Response(200, json={"schema": SCHEMA}),
        ]
    )
    client = _client(lambda _: next(answers))

    assert await client.fetch("id:7") is None
    assert SCHEMA == await client.fetch("id:7")


async def test_another_kind_of_schema() -> None:
    """A schema that is not Avro is told apart from one that is missing."""
    client = _client(lambda _: httpx.Response(200, json={"schemaType": "JSON", "schema": "{}"}))

    with pytest.raises(NotAvro, match="JSON"):
        await client.fetch("id:7")


async def test_registration() -> None:
    """A schema is posted to its subject, with the credentials read at that time."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"id": 12})

    client = _client(answer, auth=lambda: "user:pass:word")

    assert await client.register("staging.tool.results-value", SCHEMA) == 12
    (request,) = requests
    assert request.url.path == "/api/subjects/staging.tool.results-value/versions"
    assert {"schema": SCHEMA} == orjson.loads(request.content)
    assert request.headers["authorization"] == "Basic dXNlcjpwYXNzOndvcmQ="
    assert request.headers["content-type"] == "application/vnd.schemaregistry.v1+json"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx.Response(200, json={"id": 3, "version": 1}), True),
        (httpx.Response(404, json={"error_code": 40401}), False),
        (httpx.Response(404, json={"error_code": 40403}), False),
    ],
)
async def test_whether_a_subject_has_a_schema(answer: httpx.Response, expected: bool) -> None:
    """No subject and no such version are the same answer."""
    asked: list[tuple[str, str]] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        return answer

    assert expected == await _client(reply).has("s-value", SCHEMA)
    assert [("POST", "/api/subjects/s-value")] == asked


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx.Response(200, json={"is_compatible": True}), True),
        (httpx.Response(200, json={"is_compatible": False, "messages": ["why"]}), False),
        (httpx.Response(404, json={"error_code": 40401}), True),
    ],
)
async def test_whether_a_subject_would_take_a_schema(
    answer: httpx.Response, expected: bool
) -> None:
    """A subject that is not there takes any."""
    asked: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return answer

    assert expected == await _client(reply).compatible("s-value", SCHEMA)
    assert ["/api/compatibility/subjects/s-value/versions/latest"] == asked


async def test_an_id_without_a_schema_is_the_registrys_fault() -> None:
    """Such an answer is an error that readers survive, not one of another kind."""
    client = _client(lambda _: httpx.Response(200, json={"schemaType": "AVRO"}))

    with pytest.raises(SchemasUnavailable, match="no schema for id 7"):
        await client.fetch("id:7")


def _refuses(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    ("answer", "named", "passes"),
    [
        (_refuses, r"does not answer \(ConnectError\)", True),
        (lambda _: httpx.Response(503, text="starting"), "503 starting", True),
        (lambda _: httpx.Response(409, text="incompatible"), "409 incompatible", False),
        (lambda _: httpx.Response(200, text="<html>"), "gave no JSON", False),
        (lambda _: httpx.Response(200, json=[]), "gave list", False),
        (lambda _: httpx.Response(200, json={}), "without giving an id", False),
    ],
)
async def test_failures_say_what_happened(
    answer: Answer,
    named: str,
    passes: bool,
) -> None:
    """Every failure of a registry is one kind of error with its address and cause.

    One that may pass is told apart: it does not refuse the start of a role.
    """
    with pytest.raises(SchemasUnavailable, match=named) as caught:
        await _client(answer).register("s", SCHEMA)
    assert "http://registry:8081/api" in str(caught.value)
    assert passes == isinstance(caught.value, SchemasAway)
