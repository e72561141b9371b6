"""Where an HTTP binding puts the arguments of a call, and what a request really carries there.

Arguments named in the URL are put there, percent-quoted; the others are the query of a GET or
DELETE and the JSON body of any other method. A request is read back from the target and the body
that the transport is about to write, by the binding's own template and by nothing that wrote them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote, unquote_plus, urlencode

import httpx
import orjson
from pydantic import JsonValue

from turnstream.core.carried import NOT_OURS
from turnstream.core.json_texts import written
from turnstream.tools.errors import INVALID_ARGUMENT

_ARGUMENT: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

_Pair = tuple[str, str]
"""Name and value of a query's parameter, as text."""

_KEPT: Final = "surrogateescape"
"""How bytes of a URL that are no UTF-8 are read: as what no argument holds, not as the replacement
character, which one may hold."""


class UnsendableError(Exception):
    """Something cannot be put where the binding wants it; nothing was sent."""

    def __init__(self, message: str, *, code: str = INVALID_ARGUMENT) -> None:
        """Say what.

        Args:
            message: our words.
            code: the error code of the call.
        """
        super().__init__(message)
        self.code = code


class Places:
    """The places of a binding's arguments."""

    def __init__(self, url: str, *, method: str) -> None:
        """Read a binding's URL.

        Args:
            url: absolute, its base filled in; arguments in braces.
            method: of the request.
        """
        self._url = url
        self._in_query = method in ("GET", "DELETE")
        self._in_url = frozenset(_ARGUMENT.findall(url))
        # As the client itself writes it, which resolves dots and quotes what must be quoted.
        path, _, query = httpx.URL(url).raw_path.decode().partition("?")
        self._segments = [unquote(segment, errors=_KEPT) for segment in path.split("/")]
        self._pairs = _pairs(query)

    # --- writing --------------------------------------------------------------------------------

    def put(self, arguments: Mapping[str, JsonValue]) -> tuple[str, bytes | None]:
        """The URL and the body of a call's request.

        Raises:
            UnsendableError: an argument does not fit where it belongs.
        """
        in_url = {name: value for name, value in arguments.items() if name in self._in_url}
        rest = {name: value for name, value in arguments.items() if name not in self._in_url}
        url = filled(self._url, in_url)
        if not self._in_query:
            return url, orjson.dumps(rest)
        if rest:
            query = urlencode(
                [(name, text) for name, value in rest.items() for text in _texts(value)]
            )
            url += ("&" if "?" in url else "?") + query
        return url, None

    # --- reading back ---------------------------------------------------------------------------

    def read(
        self, target: bytes, body: bytes, *, like: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue]:
        """The arguments that a request carries.

        Args:
            target: path and query, as they stand in the request's first line.
            body: its body.
            like: the arguments that it should carry. In a URL they are texts; these say which are
                read as what, and where two of them meet in one part of the path.

        Returns:
            The arguments, and `NOT_OURS` where something is neither an argument in its own place
            nor the binding's.
        """
        path, _, query = target.decode("ascii", errors=_KEPT).partition("?")
        segments = [unquote(segment, errors=_KEPT) for segment in path.split("/")]
        fits = len(segments) == len(self._segments)
        taken: list[tuple[str, str]] = []
        for template, segment in zip(self._segments, segments, strict=False):
            found = _extracted(template, segment, like)
            fits = fits and found is not None
            taken += found or []
        others = _pairs(query)
        for pair in self._pairs:
            found = _taken(pair, others, like)
            fits = fits and found is not None
            taken += found or []
        carried: dict[str, JsonValue] = {}
        for name, text in taken:
            # One that stands in several places is shown where it is not what it should be.
            if name not in carried or text != _text(like.get(name)):
                carried[name] = _value(text, like.get(name))
        rest: dict[str, JsonValue] | None
        if self._in_query:
            rest = _of_others(others, like, in_url=self._in_url)
            fits = fits and not body
        else:
            rest = _object(body)
            fits = fits and not others
        # Which of the two a service goes by, where one of the URL stands here too, nobody knows.
        fits = fits and rest is not None and not self._in_url.intersection(rest)
        carried = (rest or {}) | carried
        return carried if fits else {**carried, **NOT_OURS}


def filled(template: str, arguments: Mapping[str, JsonValue]) -> str:
    """A URL with its arguments filled in.

    Raises:
        UnsendableError: one is absent, or would change which resource is meant.
    """
    path, question, query = template.partition("?")
    segments = path.split("/")
    for index, segment in enumerate(segments):
        done = _ARGUMENT.sub(lambda found: _quoted(found[1], arguments), segment)
        # A client resolves these before it sends: the call would go to another resource.
        if done != segment and done in ("", ".", ".."):
            raise UnsendableError("an argument of the URL's path is empty or only dots")
        segments[index] = done
    query = _ARGUMENT.sub(lambda found: _quoted(found[1], arguments), query)
    return "/".join(segments) + question + query


def _quoted(name: str, arguments: Mapping[str, JsonValue]) -> str:
    value = arguments.get(name)
    if value is None or isinstance(value, dict | list):
        raise UnsendableError(f"argument {name!r} of the URL is absent or not a single value")
    return quote(_text(value), safe="")


def _texts(value: JsonValue) -> list[str]:
    """The values of a query parameter; a list repeats it."""
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _value(text: str, like: JsonValue) -> JsonValue:
    """What a text of a URL says, where a value like another is expected."""
    if isinstance(like, str):
        return text
    try:
        return written(text)
    except ValueError:
        return text


def _pairs(query: str) -> list[_Pair]:
    parts = (part.partition("=") for part in query.split("&") if part)
    return [
        (unquote_plus(name, errors=_KEPT), unquote_plus(value, errors=_KEPT))
        for name, _, value in parts
    ]


def _taken(
    template: _Pair, pairs: list[_Pair], like: Mapping[str, JsonValue]
) -> list[tuple[str, str]] | None:
    """The arguments in a template's part of a query, which is taken out; None where it lacks."""
    exact = (_substituted(template[0], like), _substituted(template[1], like))
    for pair in (exact, *pairs):
        found = _extracted("=".join(template), "=".join(pair), like) if pair in pairs else None
        if found is not None:
            pairs.remove(pair)
            return found
    return None


def _substituted(template: str, like: Mapping[str, JsonValue]) -> str:
    return _ARGUMENT.sub(lambda found: _text(like.get(found[1])), template)


def _extracted(
    template: str, text: str, like: Mapping[str, JsonValue]
) -> list[tuple[str, str]] | None:
    """The texts of the arguments in one part of a URL; None where it is not the template's."""
    names = _ARGUMENT.findall(template)
    if text == _substituted(template, like):
        return [(name, _text(like.get(name))) for name in names]
    literals = _ARGUMENT.split(template)[::2]
    found = re.fullmatch("(.*)".join(map(re.escape, literals)), text, re.DOTALL)
    return None if found is None else list(zip(names, found.groups(), strict=True))


def _of_others(
    pairs: Sequence[_Pair], like: Mapping[str, JsonValue], *, in_url: frozenset[str]
) -> dict[str, JsonValue]:
    """The arguments that are parameters of a query."""
    written: dict[str, list[str]] = {}
    for name, text in pairs:
        written.setdefault(name, []).append(text)
    carried: dict[str, JsonValue] = {
        # A list without items has no parameter.
        name: []
        for name, value in like.items()
        if value == [] and name not in in_url
    }
    for name, texts in written.items():
        wanted = like.get(name)
        if isinstance(wanted, list):
            kinds = [*wanted, *([None] * len(texts))]
            carried[name] = [_value(one, kind) for one, kind in zip(texts, kinds, strict=False)]
        else:
            values: list[JsonValue] = [_value(one, wanted) for one in texts]
            carried[name] = values[0] if len(values) == 1 else values
    return carried


def _object(body: bytes) -> dict[str, JsonValue] | None:
    """A body that is a JSON object, and the same one to every reader."""
    try:
        document = written(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
