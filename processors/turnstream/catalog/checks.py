"""What must be true of a catalog before anything starts on it.

Each check yields where it looked and what is wrong, what was expected, what to do. Tools have
modules of their own, :mod:`turnstream.catalog.tool_checks` and
:mod:`turnstream.catalog.call_checks`; agents have :mod:`turnstream.catalog.agent_checks`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeAlias

from turnstream.catalog.agent_checks import agent_problems
from turnstream.catalog.call_checks import call_problems
from turnstream.catalog.schemas import properties
from turnstream.catalog.templates import placeholders
from turnstream.catalog.tool_checks import tool_problems
from turnstream.core.definitions import (
    FREE_TEXT,
    MISSING_PERMISSION,
    ApprovedAnswer,
    Catalog,
    FieldDefinition,
)
from turnstream.core.extraction import Extractor

Problem: TypeAlias = tuple[tuple[str | int, ...], str]
"""Keys from the top of the catalog, and what is wrong there."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
"""What model providers accept as the name of a function; a longer one fails on its first use."""

_CHANNEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", re.ASCII)

_RESERVED: Final = frozenset({FREE_TEXT, "ask_user"})
"""Names under which a model asks the customer; a definition named so could not be told apart."""

_ANCHOR: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<anchor>[\^$])", re.DOTALL)
"""Finds ``^`` and ``$`` outside of escapes and character classes."""

_NO_PLACEHOLDERS: Final = (
    "only the text of an approved answer may have placeholders, and a question that confirms a call"
)

_UNICODE_FLAG: Final = re.compile(r"\(\?[a-zA-Z]*[uL]")


def catalog_problems(catalog: Catalog) -> Iterator[Problem]:
    """Everything that is wrong with a well-formed catalog."""
    yield from _names(catalog)
    yield from _references(catalog)
    yield from _locales(catalog)
    yield from _fields(catalog)
    yield from _answers(catalog)
    yield from tool_problems(catalog)
    yield from call_problems(catalog)
    yield from agent_problems(catalog)


def _names(catalog: Catalog) -> Iterator[Problem]:
    for section in ("tools", "fields", "answers", "rules", "queues", "categories", "agents"):
        for name in getattr(catalog, section):
            if name in _RESERVED:
                yield (section, name), f"the name {name!r} is reserved; choose another"
            elif not _NAME.fullmatch(name):
                yield (
                    (section, name),
                    "expected a name of 1 to 64 of the characters A-Z a-z 0-9 _ -, a letter first",
                )
    for name in catalog.channels:
        if not _CHANNEL_ID.fullmatch(name):
            yield (
                ("channels", name),
                "expected a channel id of 1 to 100 of the characters A-Z a-z 0-9 . _ -",
            )
    if not catalog.channels:
        yield ("channels",), "expected at least one channel, else every turn is refused"
    for name in catalog.answers:
        if name in catalog.tools:
            yield (
                ("answers", name),
                "a tool has the same name; a question is asked for one or the other",
            )


def _references(catalog: Catalog) -> Iterator[Problem]:
    yield from _known(("entry_agent",), catalog.entry_agent, catalog.agents, "agents")
    yield from _known(("default_queue",), catalog.default_queue, catalog.queues, "queues")
    for name, agent in catalog.agents.items():
        here = ("agents", name)
        for index, sub_agent in enumerate(agent.sub_agents):
            yield from _known((*here, "sub_agents", index), sub_agent, catalog.agents, "agents")
        if agent.returns_to is not None:
            yield from _known((*here, "returns_to"), agent.returns_to, catalog.agents, "agents")
    taken: dict[str, str] = {}
    for name, queue in catalog.queues.items():
        for index, cause in enumerate(queue.causes):
            if cause in taken:
                yield (
                    ("queues", name, "causes", index),
                    f"{cause!r} already leads to queue {taken[cause]!r}; it can lead to one only",
                )
            taken.setdefault(cause, name)
    needing = [name for name, tool in catalog.tools.items() if tool.may_need_permissions]
    if needing and MISSING_PERMISSION not in catalog.rules:
        yield (
            ("rules",),
            f"expected a rule {MISSING_PERMISSION!r}: tool {needing[0]!r} requires permissions",
        )


def _known(
    place: tuple[str | int, ...], name: str, among: Collection[str], section: str
) -> Iterator[Problem]:
    if name not in among:
        allowed = ", ".join(sorted(among)) or "none is defined"
        yield place, f"expected one of {section} ({allowed}), got {name!r}"


# --- texts --------------------------------------------------------------------------------------


def customer_texts(catalog: Catalog) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, str]]]:
    """Every text that a customer may see, per locale, and its place."""
    for name, entry in catalog.fields.items():
        if entry.question is not None:
            yield ("fields", name, "question"), entry.question
        for step, texts in entry.question_for.items():
            yield ("fields", name, "question_for", step), texts
        for value, choice in entry.choices.items():
            yield ("fields", name, "choices", value, "label"), choice.label
    for name, answer in catalog.answers.items():
        yield ("answers", name, "text"), answer.text
        for placeholder, by_value in answer.words.items():
            for value, texts in by_value.items():
                yield ("answers", name, "words", placeholder, value), texts
    for name, rule in catalog.rules.items():
        yield ("rules", name, "text"), rule.text
    for name, queue in catalog.queues.items():
        yield ("queues", name, "text"), queue.text


def _locales(catalog: Catalog) -> Iterator[Problem]:
    wrong = "expected a language tag such as fr or fr-CA"
    if not _LOCALE.fullmatch(catalog.default_locale):
        yield ("default_locale",), wrong
    for name, channel in catalog.channels.items():
        if channel.default_locale is not None and not _LOCALE.fullmatch(channel.default_locale):
            yield ("channels", name, "default_locale"), wrong
    default = catalog.default_locale
    confirming = {tool.confirm for tool in catalog.tools.values()}
    for place, texts in customer_texts(catalog):
        if not {default, default.split("-", 1)[0]} & texts.keys():
            yield place, f"expected a text in the default locale {default!r}"
        for locale, text in texts.items():
            if not _LOCALE.fullmatch(locale):
                yield (*place, locale), wrong
            if not text.strip():
                yield (*place, locale), "expected a text, got an empty one"
            is_template = place[0] == "answers" and place[2] == "text"
            confirms = place[0] == "fields" and place[1] in confirming
            if not is_template and not confirms and placeholders(text)[0]:
                yield (*place, locale), _NO_PLACEHOLDERS


# --- fields -------------------------------------------------------------------------------------


def _fields(catalog: Catalog) -> Iterator[Problem]:
    for name, entry in catalog.fields.items():
        broken = list(_pattern(("fields", name, "pattern"), entry))
        yield from broken
        if entry.minimum is not None and entry.maximum is not None:  # noqa: SIM102 - two rules
            if entry.minimum > entry.maximum:
                yield ("fields", name, "maximum"), f"expected at least minimum, {entry.minimum:g}"
        if not broken:
            yield from _suggestions(name, entry)
        for step in entry.question_for:
            if step not in catalog.tools and step not in catalog.answers:
                yield (
                    ("fields", name, "question_for", step),
                    "expected the name of a tool or of an approved answer",
                )


def _pattern(place: tuple[str | int, ...], entry: FieldDefinition) -> Iterator[Problem]:
    pattern = entry.pattern
    if pattern is None:
        return
    if entry.type != "string":
        yield place, f"a pattern is for fields of type string, this one is {entry.type}"
    body = pattern.removeprefix("^").removesuffix("\\Z")
    if body.endswith("$") and not body.endswith("\\$"):
        body = body.removesuffix("$")
    if any(found["anchor"] for found in _ANCHOR.finditer(body)) or "\\A" in body or "\\Z" in body:
        yield (
            place,
            "an anchor inside the pattern; it always matches a whole value, so leave anchors out",
        )
    if _UNICODE_FLAG.search(pattern):
        yield place, "character classes are ASCII here; leave the flags u and L out"
    try:
        # As it was written, so that a fault is told in terms of it.
        re.compile(pattern, re.ASCII)
        re.compile(body, re.ASCII)
    except (re.error, ValueError) as error:
        yield place, f"not a regular expression: {error}"
        return
    try:
        compiled = re.compile(f"(?:{body})\\Z", re.ASCII)
        Extractor({"field": entry})
    except re.error as error:
        yield place, f"cannot be matched as a part of a pattern, as flags (?i) cannot: {error.msg}"
        return
    if compiled.fullmatch("") is not None:
        yield place, "matches the empty text, so a value would be found everywhere"


def _suggestions(name: str, entry: FieldDefinition) -> Iterator[Problem]:
    extractor = Extractor({name: entry})
    for index, value in enumerate(entry.suggestions):
        if not extractor.valid(name, value):
            yield (
                ("fields", name, "suggestions", index),
                f"{value!r} is not a valid value of the field",
            )
    if entry.restricted and not entry.suggestions and entry.type != "choice":
        yield ("fields", name, "restricted"), "expected suggestions, else no reply would be valid"


# --- answers ------------------------------------------------------------------------------------


def _answers(catalog: Catalog) -> Iterator[Problem]:
    for name, answer in catalog.answers.items():
        if answer.of_tool is not None:
            place = ("answers", name, "of_tool")
            yield from _known(place, answer.of_tool, catalog.tools, "tools")
        yield from _template(catalog, name, answer)


def _template(catalog: Catalog, name: str, answer: ApprovedAnswer) -> Iterator[Problem]:
    tool = catalog.tools.get(answer.of_tool or "")
    known = set(catalog.fields) | set(properties(tool.result_schema) if tool else ())
    used: set[str] = set()
    for locale, text in answer.text.items():
        names, faults = placeholders(text)
        used |= names
        for fault in faults:
            yield ("answers", name, "text", locale), fault
        for placeholder in sorted(names - known):
            allowed = ", ".join(sorted(known)) or "there is none"
            yield (
                ("answers", name, "text", locale),
                f"nothing provides {{{placeholder}}}; expected a field or a result ({allowed})",
            )
    for placeholder in answer.words:
        if placeholder not in used:
            yield (
                ("answers", name, "words", placeholder),
                f"no text of this answer has the placeholder {{{placeholder}}}",
            )
