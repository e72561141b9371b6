"""Tests of turnstream.core.envelope."""

import pytest

from turnstream.core.envelope import CallFault, Envelope, are_usable


def test_a_result_has_one_form() -> None:
    """The fields of the result stand under `result`; there is no error beside it."""
    envelope = Envelope("call_8f3a", "searchInvoices", {"count": 2})

    assert {
        "toolCallId": "call_8f3a",
        "name": "searchInvoices",
        "ok": True,
        "result": {"count": 2},
    } == envelope.as_json()
    assert {} == Envelope("c", "t").as_json()["result"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            CallFault("invalid_arguments", "no", "/status", "enum", retryable=True),
            {
                "code": "invalid_arguments",
                "message": "no",
                "path": "/status",
                "keyword": "enum",
                "retryable": True,
            },
        ),
        (CallFault("down", "no"), {"code": "down", "message": "no", "retryable": False}),
    ],
)
def test_an_error_has_one_form(fault: CallFault, error: dict[str, object]) -> None:
    """Path and keyword stand where there are any; there is no result beside it."""
    envelope = Envelope("c1", "t", error=fault)

    assert {"toolCallId": "c1", "name": "t", "ok": False, "error": error} == envelope.as_json()


@pytest.mark.parametrize(
    ("ids", "usable"),
    [
        ([], True),
        (["a", "b"], True),
        (["x" * 128], True),
        (["a", "a"], False),
        ([""], False),
        (["x" * 129], False),
        (["a\x00"], False),
        (["\ud800"], False),
    ],
)
def test_ids_that_tell_calls_apart(ids: list[str], usable: bool) -> None:
    """Distinct, of a length that can be stored, and printable."""
    assert usable == are_usable(ids)
