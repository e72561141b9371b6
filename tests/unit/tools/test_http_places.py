"""What a request carries is read back as it was put, and nothing else is."""

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.core.carried import NOT_OURS, differences
from turnstream.tools.http_places import Places, UnsendableError

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SINGLE = st.booleans() | NUMBERS | TEXT
JSON = st.recursive(
    SINGLE | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
URLS = st.sampled_from(
    [
        "http://h/a b/{x}-{y}?f=1&z={y}",
        "http://h/w/../{x}/é/{y}/end?",
        "http://h/v/{x}/{y}/",
        "http://h?{x}={y}",
    ]
)
METHODS = st.sampled_from(["GET", "DELETE", "POST", "PUT", "PATCH"])


@settings(max_examples=400, deadline=None)
@given(URLS, METHODS, SINGLE, SINGLE, st.dictionaries(TEXT.filter(bool), JSON, max_size=4))
def test_what_was_put_is_read(
    url: str, method: str, x: Any, y: Any, others: dict[str, Any]
) -> None:
    """From the bytes of a real request, for any JSON in any place."""
    arguments = {**others, "x": x, "y": y}
    places = Places(url, method=method)
    try:
        where, body = places.put(arguments)
        request = httpx.Request(method, where, content=body)
    except (UnsendableError, httpx.InvalidURL):
        return

    read = places.read(request.url.raw_path, request.content, like=arguments)

    assert () == differences(arguments, read)


GET = Places("http://h/orders/{order_id}/{part}-{line}?v=1&of={order_id}", method="GET")
POST = Places("http://h/orders/{order_id}?v=1", method="POST")
ASKED: dict[str, Any] = {
    "order_id": "A-1",
    "part": "p-1",
    "line": 2,
    "tags": ["a", 1],
    "page": 3,
    "none": [],
}


@pytest.mark.parametrize(
    ("target", "paths"),
    [
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3", ()),
        (b"/orders/A-1/p-1-2?of=A-1&page=3&v=1&tags=a&tags=1", ()),
        (b"/orders/A-2/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3", ("/order_id",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-2&tags=a&tags=1&page=3", ("/order_id",)),
        (b"/orders/A-1/p-1-3?v=1&of=A-1&tags=a&tags=1&page=3", ("/line",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=1&tags=a&page=3", ("/tags/0", "/tags/1")),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&page=3", ("/tags",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&tags=b&page=3", ("/tags",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=03", ("/page",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&page=3", ("/page",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1", ("/page",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&x=1", ("/x",)),
        (b"/orders/A-1/p-1-2?v=2&of=A-1&tags=a&tags=1&page=3", ("/v", "/")),
        (b"/orders/A-1/p-1-2?v=1&tags=a&tags=1&page=3", ("/",)),
        (b"/refunds/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3", ("/",)),
        (b"/orders/A-1/p-1-2/x?v=1&of=A-1&tags=a&tags=1&page=3", ("/",)),
        (b"/orders/A-1/p?v=1&of=A-1&tags=a&tags=1&page=3", ("/part", "/line", "/")),
        (b"/orders/A-2/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&order_id=A-1", ("/order_id", "/")),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&order_id=A-2", ("/",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&order_id=A-1", ("/",)),
        (b"/orders/A-1/p-1-2?v=1&of=A-1&tags=a&tags=1&page=3&line=2&part=p-1", ("/",)),
    ],
)
def test_an_altered_url_shows(target: bytes, paths: tuple[str, ...]) -> None:
    """By the argument that is not as it was asked for, or as what is not the binding's."""
    assert paths == differences(ASKED, GET.read(target, b"", like=ASKED))


@pytest.mark.parametrize(
    ("target", "body", "paths"),
    [
        (b"/orders/A-1?v=1", b'{"n":1e2,"t":"\xc3\xa9"}', ()),
        (b"/orders/A-1?v=1", b'{"n":101,"t":"\xc3\xa9"}', ("/n",)),
        (b"/orders/A-1?v=1", b'{"n":100}', ("/t",)),
        (b"/orders/A-1?v=1", b'{"n":100,"t":"\xc3\xa9","order_id":"A-2"}', ("/",)),
        (b"/orders/A-1?v=1", b'{"n":100,"t":"\xc3\xa9","order_id":"A-1"}', ("/",)),
        (b"/orders/A-2?v=1", b'{"n":100,"t":"\xc3\xa9","order_id":"A-1"}', ("/order_id", "/")),
        (b"/orders/A-1?v=1", b'{"n":900,"n":100,"t":"\xc3\xa9"}', ("/n", "/t", "/")),
        (b"/orders/A-1?v=1", '{"n":100,"t":"é"}'.encode("utf-16"), ("/n", "/t", "/")),
        (b"/orders/A-1?v=1", b'{"n":100,"t":"\xe9"}', ("/n", "/t", "/")),
        (b"/orders/A-1?v=1&n=100", b'{"n":100,"t":"\xc3\xa9"}', ("/",)),
        (b"/orders/A-1?v=1", b"[1]", ("/n", "/t", "/")),
        (b"/orders/A-1?v=1", b"n=100", ("/n", "/t", "/")),
        (b"/orders/A-1?v=1", b'{"n":' + b"[" * 500 + b"]" * 500 + b"}", ("/n", "/t", "/")),
    ],
)
def test_an_altered_body_shows(target: bytes, body: bytes, paths: tuple[str, ...]) -> None:
    """Numbers are equal however they are written; what is no object carries nothing."""
    asked: dict[str, Any] = {"order_id": "A-1", "n": 100, "t": "é"}

    assert paths == differences(asked, POST.read(target, body, like=asked))


def test_a_get_has_no_body() -> None:
    """One that has a body carries something else."""
    read = GET.read(b"/orders/A-1/p-1-2?v=1&of=A-1", b"{}", like=ASKED)

    assert NOT_OURS.items() <= read.items()


@pytest.mark.parametrize(
    ("target", "value"),
    [
        (b"/o?x=%7B%22a%22:1,%22a%22:2%7D", {"a": 2}),
        (b"/o?x=18446744073709551617", 2.0**64),
        (b"/o?x=%FF", "\ufffd"),
        (b"/o?x=\xff", "\ufffd"),
        (b"/o?x=" + b"%5B" * 300 + b"%5D" * 300, []),
    ],
)
def test_a_text_of_a_url_is_taken_for_no_other(target: bytes, value: Any) -> None:
    """Not by a name twice, a number that is near or a character that stands for any."""
    asked = {"x": value}
    read = Places("http://h/o", method="GET").read(target, b"", like=asked)

    assert ("/x",) == differences(asked, read)[:1]


def test_nothing_else_is_an_argument_without_a_name() -> None:
    """That argument may be anything that JSON has."""
    asked: dict[str, Any] = {"": None}
    read = Places("http://h/o", method="POST").read(b"/o?x=1", b'{"":null}', like=asked)

    assert ("/",) == differences(asked, read)
