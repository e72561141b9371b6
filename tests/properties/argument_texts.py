"""What a model may write as a call's arguments: right, nearly right, broken, and meant to harm.

Everything is drawn for one tool of the fuzz catalog, so that a good part of it passes the gates.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

Raw = str | Mapping[str, Any] | None
"""Arguments as an adapter hands them on: text, or an object that the provider has parsed."""

VALID: Final[dict[str, list[dict[str, Any]]]] = {
    "search_invoices": [
        {"customer": "C-1001", "status": "open"},
        {"customer": "C-1001", "status": None, "limit": 50, "tags": ["a", "b"]},
        {"customer": "C-0000", "status": "paid", "from": "2026-01-01", "to": "2026-01-31"},
        {"customer": "C-1001", "status": "overdue", "to": None, "limit": 3.0},
        {"customer": "C-1001", "status": "paid", "from": "2026-02-01", "to": "2026-01-31"},
    ],
    "create_refund": [
        {"order": "A-1", "amount": 12.5},
        {"order": "A-99", "amount": 50, "notify": True, "note": "}{"},
        {"order": "A-7", "amount": 0.01, "note": None},
        {"order": "A-7", "amount": 60},
        {"order": "A-7", "amount": 1, "note": "goodwill"},
    ],
    "ship": [
        {"address": {"city": "Lyon", "zip": "69001"}, "lines": [{"sku": "k", "count": 1}]},
        {
            "address": {"city": "Lille", "position": [50.6, 3]},
            "lines": [{"sku": "k", "count": 2.0}, {"sku": "", "count": 9}],
            "express": True,
        },
    ],
    "find_contact": [
        {"choice": "mail"},
        {"choice": 9, "until": "2026-01-31T10:00:00Z"},
        {"choice": {"hours": [9, 10, 17]}, "until": None},
    ],
    "note_down": [{"text": "call back", "data": [1, {"a": None}]}, {}],
    "get_hours": [{}],
    "pay_back": [
        {"order": "A-1", "amount": 12.5},
        {"order": "A-1", "amount": 12.5, "owner": "C-1001"},
        {"order": "A-1", "amount": 30},
        {"order": "A-2", "amount": 12.5},
        {"order": "A-1", "amount": 7},
        {"order": "A-1", "amount": 12.5, "owner": "C-1002"},
    ],
}
"""Tool to arguments that its schema allows; some of them break a rule, or take a right."""

_NAMES: Final = sorted({name for some in VALID.values() for one in some for name in one})

_OWN_NAMES: Final = [
    *("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__class__"),
    *("idempotency_key", "permissions", "subject_id", "$ref", "$schema", "", " ", "0", "a/b", "~1"),
]
"""Names that mean something to languages, to validators, or to us."""

_VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -0.0, 1, -1, 3.0, 3.5, 49.99, 50.000001, 51, 1e308, 5e-324),
    *(2**53, 2**53 + 1, 2**63 - 1, 2**63, 10**30, float("nan"), float("inf"), -float("inf")),
    *("", " ", "null", "true", "3", "3.0", "NaN", "open", "opn", "goodwill", "2026-02-30"),
    *(
        "C-1001\n",
        "C-١٠٠١",
        "A-1\u200b",
        "А-1",
        "Ａ-1",
        "e\u0301",
        "\x00",
        "\ud800",
        "\udfff\ud800",
    ),
    *("😀", "\u202e", "x" * 300, "x" * 9_000, "{{7*7}}", "'; DROP TABLE x; --", "../../x"),
    *([], {}, [None], [[]], {"": {}}, ["a", "a"], {"__proto__": {"amount": 1}}, [0] * 300),
]

_LIKE: Final = {"a": "а", "e": "е", "o": "ο", "c": "с", "i": "і", "n": "ｎ", "t": "t\u200b"}
"""Letters to others that look alike."""

_PIECES: Final = [
    *("", "{", "}", "[", "]", '"', ",", ":", "\\", "\\u", "\\ud800", "\\u0000", "\x00", "\ufeff"),
    *("NaN", "-Infinity", "1e999", "-", "0x10", "01", ".5", "1.", "+1", "1_0", "1" * 5_000),
    *("null", "True", "undefined", "//", "/* */", "'", "`", "```json\n", "\n\n", " ", "\u2028"),
    *('"a":1,', '"order":"A-2",', '"amount":99,', ",}", "{}", '{"order":"A-2","amount":1}'),
    *("</s>", "<|call|>", "Here you are: ", "\ud83d"),
]

_WHOLE: Final = [
    *(
        "",
        " \t\r\n",
        "\xa0",
        "null",
        "true",
        "5",
        "[]",
        "[{}]",
        '""',
        "{}",
        "{}{}",
        "{} {}",
        "\ufeff{}",
    ),
    *("NaN", '{"a":NaN}', '{"amount":1e999}', '{"amount":-1e-999}', "{'a':1}", "{a:1}", "a=1&b=2"),
    *('{"a":1,"a":1}', '{"amount":1,"order":"A-1","amount":2}', '{"\\u0061":1,"a":2}'),
    *('{"order":"\\ud800","amount":1}', '{"order":"A-1","amount":1}\x00', "<order>A-1</order>"),
    *("[" * 100_000, '{"a":' * 40_000, "[" * 40 + "]" * 40, '{"data":' * 31 + "{}" + "}" * 31),
    *('{"data":' * 33 + "{}" + "}" * 33, '{"text":"' + "x" * 70_000 + '"}', "1" * 10_000),
]


_JSON: Final = st.recursive(
    st.sampled_from(_VALUES) | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*_NAMES, *_OWN_NAMES]), inner, max_size=3)
    ),
    max_leaves=6,
)
_OTHER: Final = st.dictionaries(
    st.sampled_from([*_NAMES, *_OWN_NAMES]) | st.text(max_size=4), _JSON, max_size=4
)


@st.composite
def changed(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """An object that differs in one place."""
    value = deepcopy(draw(objects))
    holder, key = draw(st.sampled_from(_places(value)))
    match draw(st.integers(0, 6)):
        case 0:
            holder[key] = draw(st.sampled_from(_VALUES) | _JSON)
        case 1:
            del holder[key]
        case 2:
            holder[key] = [holder[key]]
        case 3:
            holder[key] = json.dumps(holder[key])
        case 4:
            holder[key] = str(holder[key])
        case 5:
            _put(holder, draw(st.sampled_from([*_OWN_NAMES, *_NAMES])), draw(_JSON))
        case _:
            _put(holder, _alike(str(key), draw(st.integers(0, 9))), holder[key])
    return value


def _places(value: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Every container with every key of it, down to the leaves."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [value]
    while waiting:
        holder = waiting.pop()
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inner in list(pairs):
            found.append((holder, key))
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return found or [({"": None}, "")]


def _put(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder.append(value)


def _alike(name: str, at: int) -> str:
    at = at % len(name) if name else 0
    return name[:at] + _LIKE.get(name[at : at + 1], f"{name[at : at + 1]}\u0301") + name[at + 1 :]


_STYLES: Final[list[Callable[[Any], str]]] = [
    *[json.dumps] * 4,
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(value, indent=2) + "\n",
    lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    lambda value: "\ufeff" + json.dumps(value),
    lambda value: json.dumps(value).replace(":", " :\t"),
    repr,
]


@st.composite
def written(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]]) -> str:
    """An object's text, in one of the ways in which models write."""
    style: Callable[[Any], str] = draw(st.sampled_from(_STYLES))
    return style(draw(objects))


@st.composite
def damaged(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]]) -> str:
    """An object's text with a piece cut out, put in or repeated."""
    text = json.dumps(draw(objects), ensure_ascii=False)
    at = draw(st.integers(0, len(text)))
    rest = draw(st.integers(max(at - 8, 0), min(at + 8, len(text))))
    return text[:at] + draw(st.sampled_from(_PIECES)) + text[rest:]


def _raw_arguments(tool: str) -> st.SearchStrategy[Raw]:
    right = st.sampled_from(VALID[tool])
    objects = st.one_of(right, changed(right), changed(changed(right)), _OTHER)
    return st.one_of(
        *[written(objects)] * 3,
        *[written(changed(right))] * 3,
        *[changed(right)] * 2,
        *[written(right)] * 3,
        *[damaged(right)] * 2,
        objects,
        damaged(objects),
        st.sampled_from(_WHOLE),
        objects.map(lambda value: json.dumps(json.dumps(value))),
        st.text(max_size=40),
        st.none(),
    )


CASES: Final = st.one_of(
    [st.tuples(st.just(tool), _raw_arguments(tool), st.booleans()) for tool in VALID]
)
"""Tool, arguments for it, and whether a sound call stands beside it."""
