"""What an error of a provider means, and what is said of it."""

import errno
import json
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)

from turnstream.core.ports import DeciderRefused, DeciderUnavailable, ReplyUnusable
from turnstream.models.gemini_models import as_it_came, mended
from turnstream.models.provider_errors import failure_of, refuses_tools, refuses_top_p
from turnstream.models.refusals import problem
from turnstream.models.transport import LONGEST_REST_SECONDS, ToolsRefused, unavailable
from turnstream.plain_http import retry_after


def http(status: int, body: object = None) -> ModelHTTPError:
    """An error with a status."""
    return ModelHTTPError(status, "m", body)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelTimeoutError("m", "slow"), TimeoutError),
        (TimeoutError(), TimeoutError),
        (DeciderRefused("x"), DeciderRefused),
        (UserError("x"), DeciderRefused),
        (ModelConnectionError("m", "x"), DeciderUnavailable),
        (ModelAPIError("m", "x"), DeciderUnavailable),
        (http(500), DeciderUnavailable),
        (http(408), DeciderUnavailable),
        (http(418), DeciderRefused),
        (UnexpectedModelBehavior("x"), ReplyUnusable),
        (KeyError("input"), ReplyUnusable),
        (ssl.SSLCertVerificationError("x"), DeciderUnavailable),
        (RuntimeError("x"), DeciderUnavailable),
    ],
)
def test_error_has_its_kind(error: Exception, kind: type[Exception]) -> None:
    """Only what a second request cannot mend is a refusal."""
    assert kind is type(failure_of(error))


def test_what_broke_a_connection_is_said_in_words_of_the_system() -> None:
    """Of the texts around it nothing: a library may repeat an address or a request."""
    error = ModelConnectionError("m", "POST https://shop.test/?q=secret")
    error.__cause__ = RuntimeError("secret")
    error.__cause__.__context__ = ConnectionRefusedError(errno.ECONNREFUSED, "secret")

    assert "the connection broke (Connection refused)" == str(failure_of(error))


def test_words_of_the_conversation_are_not_repeated() -> None:
    """Codes and parameters are words; anything else that a provider put there is left out."""
    assert "the request is refused (status 400, bad_value, top_p)" == problem(
        400, "bad_value", "my secret word", None, 7, "top_p", "bad_value"
    )
    assert "the key is not accepted (status 401)" == problem(401)
    assert "the request is refused" == problem(None)


TOP_P: list[tuple[int, object, bool]] = [
    (400, {"code": "unsupported_parameter", "param": "top_p", "message": "x"}, True),
    (400, {"error": {"code": "unsupported_parameter", "param": "top_p"}}, True),
    (400, {"message": "Unsupported parameter: 'top_p' is not supported with this model."}, True),
    (422, "top_p is not supported", True),
    (400, {"code": "unsupported_value", "param": "top_p", "message": "not supported"}, False),
    (400, {"code": "unsupported_parameter", "param": "temperature"}, False),
    (400, {"message": "Invalid 'top_p': decimal above maximum value."}, False),
    (400, {"message": "Unsupported value: 'temperature' does not support 0.2."}, False),
    (400, {"param": "top_p", "code": None, "message": "top_p is not supported"}, True),
    (400, {"code": "invalid_request_body", "message": "Unsupported parameter: 'top_p'"}, True),
    (400, {"code": "unsupported_parameter", "message": "'top_p' is not supported"}, True),
    (400, {"code": "unsupported_parameter", "param": None, "message": "'seed' is not"}, False),
    (400, {"message": "Invalid 'top_p': 1.5 is not supported, use 0 to 1"}, False),
    (400, {"message": "temperature and top_p cannot both be specified: unsupported"}, False),
    (401, {"message": "top_p is not supported"}, False),
    (500, "top_p is not supported", False),
    (400, None, False),
]


@pytest.mark.parametrize(("status", "body", "expected"), TOP_P)
def test_top_p_is_unknown_only_where_it_is_said(status: int, body: object, expected: bool) -> None:
    """Explicitly, by code and parameter or in so many words."""
    assert expected is refuses_top_p(http(status, body))
    assert False is refuses_top_p(KeyError("top_p"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            '"auto" tool choice requires --enable-auto-tool-choice to be set',
            True,
        ),
        ("This model doesn't support tool use.", True),
        ("Tools are not supported.", True),
        ("Invalid schema for function 'lookup'", False),
        ("The tool is not there", False),
        ("does not support tools with additionalProperties in their schema", False),
        ("does not support tool_choice 'auto' with response_format", False),
        ("does not support tool schema 'pattern'", False),
    ],
)
def test_tools_are_refused_only_where_it_is_said(message: str, expected: bool) -> None:
    """A bad schema is an error of ours, not a model without tools."""
    assert expected is refuses_tools(http(400, {"message": message}))
    assert False is refuses_tools(http(429, {"message": message}))


def test_refused_tools_are_an_error_of_their_own() -> None:
    """Whoever may fall back tells it from all other refusals."""
    assert isinstance(failure_of(http(400, {"message": "it does not support tools"})), ToolsRefused)


def test_redirect_behind_an_error_is_seen() -> None:
    """Some libraries tell of it by the cause of their error alone."""

    class Redirected(Exception):
        status_code = 307

    error = ModelAPIError("m", "x")
    error.__cause__ = Redirected()

    assert "redirects" in str(failure_of(error))


@pytest.mark.parametrize(
    ("wished", "kept"),
    [(2.0, 2.0), (-5.0, 0.0), (1e9, LONGEST_REST_SECONDS), (float("nan"), None), (None, None)],
)
def test_wish_to_be_left_alone_is_bounded(wished: float | None, kept: float | None) -> None:
    """A wrong header must not silence a decider for a day."""
    assert kept == unavailable("x", retry_after_seconds=wished).retry_after_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("", None), ("soon", None), ("x" * 100, None), ("²", None)]
)
def test_retry_after_is_seconds_or_nothing(text: str, seconds: float | None) -> None:
    """What makes no sense is no wish."""
    assert seconds == retry_after({"Retry-After": text})


def test_retry_after_may_be_a_date() -> None:
    """As HTTP has it."""
    at = datetime.now(UTC) + timedelta(seconds=100)
    wished = retry_after({"Retry-After": format_datetime(at, usegmt=True)})

    assert wished is not None
    assert 0 < wished <= at.timestamp() - time.time() + 5


GEMINI = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":%s}}]}}]}'


@pytest.mark.parametrize(
    ("args", "came"),
    [("[1]", "[1]"), ('"{\\"x"', '{"x'), ("5", "5"), ("true", "true"), ('{"a": 1}', {"a": 1})],
)
def test_arguments_of_gemini_that_are_no_object_come_through(args: str, came: object) -> None:
    """The library sees an object, the gates see what was sent."""
    document = json.loads(mended((GEMINI % args).encode()))
    (part,) = document["candidates"][0]["content"]["parts"]

    assert isinstance(part["functionCall"]["args"], dict)
    assert came == as_it_came(part["functionCall"]["args"])


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"candidates":[{}]}', (GEMINI % "{}").encode()]
)
def test_other_bodies_of_gemini_stay_as_they_are(body: bytes) -> None:
    """Not a byte of them changes."""
    assert body == mended(body)


def test_events_of_gemini_are_mended_one_by_one() -> None:
    """Lines that are no data, and data that is sound, stay as they are."""
    stream = b"data: {}\n\n: note\ndata: " + (GEMINI % "[1]").encode() + b"\n\n"
    found = mended(stream)

    assert found.startswith(b"data: {}\n\n: note\ndata: {")
    assert b'"args": {' in found
