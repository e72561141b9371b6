"""Advice about a catalog that loads: what will confuse a decider, a customer or whoever is on call.

`turnstream catalog check` shows the faults of :mod:`turnstream.catalog.load` beside these.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, TypeAlias

from turnstream.catalog.checks import customer_texts
from turnstream.catalog.load import (
    CatalogError,
    catalog_faults,
    decider_faults,
    read_catalog,
)
from turnstream.catalog.lower_bounds import lower_bound_advice
from turnstream.catalog.overlap import OVERLAP, overlap
from turnstream.catalog.schemas import (
    properties,
    required,
    unknown_formats,
    unknown_keywords,
)
from turnstream.catalog.templates import placeholders
from turnstream.catalog.unscored import unscored_advice
from turnstream.catalog.write_timeouts import writes_beyond
from turnstream.config.yaml_lines import Fault
from turnstream.core.bindings import HttpBinding, McpBinding
from turnstream.core.definitions import Catalog, Tool
from turnstream.core.folding import folded
from turnstream.core.schema_tree import Schema

Severity = Literal["error", "warning", "info"]
Advice: TypeAlias = tuple[Severity, str, tuple[str | int, ...], str]
"""Severity, code, place, message."""

_MIN_QUESTION_WORDS: Final = 3
"""A question of fewer words cannot name both the item and the step that it is needed for."""

_WRITING_VERBS: Final = frozenset(
    """
    activate add approve assign book buy cancel change charge close confirm create deactivate delete
    disable edit enable execute insert issue make mark modify move notify open order pay place post
    purchase put refund register reject remove rename replace request reserve reset schedule send
    set start stop submit subscribe transfer unsubscribe update upload write
    ajouter annuler commander creer effacer envoyer modifier payer resilier supprimer
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""Verbs of change, without accents, as the first word of a tool's name."""

_WRITING_PROPERTY: Final = re.compile(
    r"^(?:new|updated|nouveau|nouvelle)_|^(?:amount|reason|comment|note|message|body|payload)$"
)
_VAGUE: Final = re.compile(
    r"more (?:information|details?|info)|be more (?:specific|precise)|plus d.?informations?|"
    r"plus de (?:details?|precisions?)|(?:preciser|clarifier) votre demande|"
    r"(?:clarify|rephrase) your (?:request|question)"
)
"""Questions that leave the customer to guess which item is meant; compared without accents."""

_NOT_USED_YET: Final = {key: key for key in ("sub_agents", "returns_to")} | {
    "free_questions": "freeQuestions"
}
"""Fields of an agent that change nothing, and their keys: who writes them expects more."""

_NESTED_REPEAT: Final = re.compile(r"\([^()]*[+*][^()]*\)[+*{]")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice, or one fault."""

    severity: Severity
    code: str
    file: str
    line: int | None
    path: str
    message: str

    def as_json(self) -> dict[str, object]:
        """The finding as a JSON object."""
        return asdict(self)


def lint(
    path: Path,
    *,
    deciders: Collection[str] | None = None,
    unscored: Collection[str] = (),
    grace_seconds: float | None = None,
) -> list[Finding]:
    """Check and lint the catalog in a file.

    Args:
        path: the file.
        deciders: the names of the configured deciders; None where no configuration is given.
        unscored: the names of those that give no confidence.
        grace_seconds: how long a stop waits for a write; None where no configuration is given.

    Returns:
        Findings in the order of the file. A catalog without the right shape gives errors only.

    Raises:
        CatalogError: the file cannot be read at all.
    """
    try:
        document, catalog = read_catalog(path)
    except CatalogError as error:
        if all(fault.line is None for fault in error.faults):
            raise
        return [_finding("error", "shape", fault) for fault in error.faults]
    faults = catalog_faults(document, catalog)
    if deciders is not None:
        faults += decider_faults(document, catalog, deciders)
    found = [_finding("error", "check", fault) for fault in faults]
    found += [
        _finding(severity, code, document.fault(place, message))
        for severity, code, place, message in advice(catalog)
    ]
    found += [
        _finding("warning", "unscored_decider", document.fault(place, message))
        for place, message in unscored_advice(catalog, unscored)
    ]
    if grace_seconds is not None:
        found += [
            _finding("error", "write_beyond_grace", document.fault(place, message))
            for place, message in writes_beyond(catalog, grace_seconds=grace_seconds)
        ]
    return sorted(found, key=lambda finding: (finding.line or 0, finding.path, finding.code))


def _finding(severity: Severity, code: str, fault: Fault) -> Finding:
    return Finding(severity, code, fault.file, fault.line, fault.path, fault.message)


def advice(catalog: Catalog) -> Iterator[Advice]:
    """Everything worth saying about a catalog, in no particular order."""
    yield from _overlaps(catalog)
    yield from _shared_examples(catalog)
    for name, tool in catalog.tools.items():
        yield from _effects(name, tool)
        yield from _scope(name, tool)
        for key, schema in (
            ("input_schema", tool.input_schema),
            ("result_schema", tool.result_schema),
        ):
            yield from _keywords(("tools", name, key), schema)
    for place, message in lower_bound_advice(catalog):
        yield "warning", "no_lower_bound", place, message
    yield from _unprovided(catalog)
    yield from _questions(catalog)
    yield from _missing_locales(catalog)
    yield from _fields(catalog)
    yield from _answers(catalog)
    yield from _queues(catalog)
    yield from _agents(catalog)


# --- what a decider cannot tell apart -----------------------------------------------------------


def _options(catalog: Catalog) -> Iterator[tuple[tuple[str, str], str, tuple[str, ...]]]:
    """What a decider chooses from: place, description and examples."""
    for name, tool in catalog.tools.items():
        yield ("tools", name), tool.description, tool.examples
    for name, answer in catalog.answers.items():
        if answer.of_tool is None:
            yield ("answers", name), answer.description, answer.examples
    for name, rule in catalog.rules.items():
        yield ("rules", name), rule.description, rule.examples


def _overlaps(catalog: Catalog) -> Iterator[Advice]:
    for (place, text, _), (other_place, other_text, _) in combinations(_options(catalog), 2):
        score = overlap(text, other_text)
        if score >= OVERLAP:
            yield (
                "warning",
                "overlap",
                (*other_place, "description"),
                f"overlaps with {'.'.join(place)}, score {score:.0f} of 100; say what differs",
            )


def _shared_examples(catalog: Catalog) -> Iterator[Advice]:
    seen: dict[str, tuple[str, str]] = {}
    for place, _, examples in _options(catalog):
        for index, example in enumerate(examples):
            key = " ".join(_WORD.findall(folded(example)))
            first = seen.setdefault(key, place)
            if first != place:
                yield (
                    "warning",
                    "shared_example",
                    (*place, "examples", index),
                    f"the same request is an example of {'.'.join(first)}; it can mean only one",
                )
        if not examples and place != ("rules", "missing_permission"):
            yield (
                "info",
                "no_examples",
                place,
                "no examples; the embedded decider has only the description to go by",
            )


# --- effects ------------------------------------------------------------------------------------


def _effects(name: str, tool: Tool) -> Iterator[Advice]:
    place = ("tools", name)
    if tool.effect == "write":
        if tool.threshold is None:
            message = "a write tool without a threshold never runs automatically"
            yield "info", "no_threshold", place, message
        if not tool.idempotent and tool.retry.attempts > 1 and "retry" in tool.model_fields_set:
            message = "retries are not used: a write that is not idempotent is called once"
            yield "info", "unused_retry", (*place, "retry"), message
        return
    verb = re.split(r"[^a-z]+", folded(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))[0]
    if verb in _WRITING_VERBS:
        message = f"effect is read, but the name begins with {verb!r}: does it change something?"
        yield "warning", "read_that_writes", place, message
    for argument in properties(tool.input_schema):
        if _WRITING_PROPERTY.search(argument):
            message = f"effect is read, but the argument {argument!r} looks like something to store"
            yield (
                "warning",
                "read_that_writes",
                (*place, "input_schema", "properties", argument),
                message,
            )
    if not isinstance(tool.binding, HttpBinding):
        return
    method = tool.binding.method
    here = (*place, "binding", "method")
    if method in ("PUT", "PATCH", "DELETE"):
        message = f"effect is read, but the method is {method}: does it change something?"
        yield "warning", "read_that_writes", here, message
    in_url = set(re.findall(r"\{(\w+)\}", tool.binding.url))
    if method == "POST" and set(required(tool.input_schema)) - in_url:
        message = "effect is read, but required arguments are sent as the body of a POST"
        yield "info", "read_by_post", here, message


def _scope(name: str, tool: Tool) -> Iterator[Advice]:
    """A service that is not told whose data is wanted cannot keep to it."""
    if tool.data_scope != "own":
        return
    if isinstance(tool.binding, HttpBinding):
        key, told = "subject_header", tool.binding.subject_header is not None
    elif isinstance(tool.binding, McpBinding):
        key, told = "subject_meta", tool.binding.subject_meta is not None
    else:
        return  # whether a function takes subject_id is known where it can be imported
    if not told and not any("session" in one.provenance for one in tool.arguments.values()):
        message = (
            "data_scope is own, but the service is not told whose data: give the binding a "
            f"{key} or an argument of provenance session, or say data_scope: public"
        )
        yield "warning", "unnamed_subject", ("tools", name, "binding"), message


def _keywords(place: tuple[str | int, ...], schema: Schema) -> Iterator[Advice]:
    """Keywords that JSON Schema passes over, as it does a misspelt one."""
    for where, keyword, near in unknown_keywords(schema):
        hint = f"did you mean {near!r}?" if near else "it has no effect"
        message = f"no keyword of JSON Schema 2020-12; {hint}"
        yield "warning", "unknown_keyword", (*place, *where, keyword), message
    for where, form in unknown_formats(schema):
        message = f"{form!r} is no format of JSON Schema 2020-12, so nothing enforces it"
        yield "warning", "unknown_format", (*place, *where), message


# --- arguments, fields and questions ------------------------------------------------------------


def _unprovided(catalog: Catalog) -> Iterator[Advice]:
    used = {tool.confirm for tool in catalog.tools.values()}
    for name, tool in catalog.tools.items():
        used |= {source.field or argument for argument, source in tool.arguments.items()}
        needed = required(tool.input_schema)
        for argument in properties(tool.input_schema):
            if argument not in tool.arguments and argument not in needed:
                yield (
                    "info",
                    "never_filled",
                    ("tools", name, "input_schema", "properties", argument),
                    "no provenance under arguments, so this optional argument is never filled",
                )
    for answer in catalog.answers.values():
        for text in answer.text.values():
            used |= placeholders(text)[0]
    for field in catalog.fields:
        if field not in used:
            yield "info", "unused", ("fields", field), "no tool and no answer uses this field"


def _questions(catalog: Catalog) -> Iterator[Advice]:
    for name, entry in catalog.fields.items():
        if entry.question is None:
            message = "no question; fine only while session or results always provide the field"
            yield "info", "no_question", ("fields", name), message
        places: list[tuple[tuple[str, ...], Mapping[str, str]]]
        places = [(("question",), entry.question or {})]
        places += [(("question_for", step), texts) for step, texts in entry.question_for.items()]
        for place, texts in places:
            for locale, text in texts.items():
                plain = folded(text)
                if _VAGUE.search(plain) or len(_WORD.findall(plain)) < _MIN_QUESTION_WORDS:
                    yield (
                        "warning",
                        "vague_question",
                        ("fields", name, *place, locale),
                        "name the item that is missing and the step that it is needed for",
                    )


def _missing_locales(catalog: Catalog) -> Iterator[Advice]:
    texts = list(customer_texts(catalog))
    default = catalog.default_locale.split("-", 1)[0]  # a text without it is an error already
    used = {locale.split("-", 1)[0] for _, by_locale in texts for locale in by_locale}
    used |= {
        channel.default_locale.split("-", 1)[0]
        for channel in catalog.channels.values()
        if channel.default_locale
    }
    for place, by_locale in texts:
        lacking = used - {locale.split("-", 1)[0] for locale in by_locale} - {default}
        if lacking:
            languages = ", ".join(sorted(lacking))
            message = f"no text in {languages}, which other texts have"
            yield "warning", "missing_locale", place, message


def _fields(catalog: Catalog) -> Iterator[Advice]:
    for name, entry in catalog.fields.items():
        if entry.pattern is not None and _NESTED_REPEAT.search(entry.pattern):
            message = "a repetition inside a repetition can take exponential time on long messages"
            yield "warning", "slow_pattern", ("fields", name, "pattern"), message
        wording: dict[str, str] = {}
        for value, choice in entry.choices.items():
            for text in sorted({value, *choice.label.values(), *choice.aliases}):
                first = wording.setdefault(" ".join(_WORD.findall(folded(text))), value)
                if first != value:
                    message = f"{text!r} also means {first!r}; customers would be asked which"
                    place = ("fields", name, "choices", value)
                    yield "warning", "ambiguous_choice", place, message


# --- answers and queues -------------------------------------------------------------------------


def _answers(catalog: Catalog) -> Iterator[Advice]:
    presented = {tool.answer for tool in catalog.tools.values()} | {
        rule.answer for tool in catalog.tools.values() for rule in tool.errors.values()
    }
    for name, answer in catalog.answers.items():
        if answer.of_tool is None:
            continue
        if name not in presented:
            message = f"tool {answer.of_tool!r} names it neither as its answer nor for an error"
            yield "warning", "unreachable", ("answers", name), message
        tool = catalog.tools.get(answer.of_tool)
        if tool is None or tool.answer != name:
            continue
        sure = set(required(tool.result_schema)) | set(catalog.fields)
        for locale, text in answer.text.items():
            for placeholder in sorted(placeholders(text)[0] - sure):
                message = f"{{{placeholder}}} is not required in result_schema; it may be absent"
                place = ("answers", name, "text", locale)
                yield "warning", "uncertain_placeholder", place, message


def _queues(catalog: Catalog) -> Iterator[Advice]:
    for name, queue in catalog.queues.items():
        if not queue.causes and name != catalog.default_queue:
            message = "no handoff cause leads to this queue"
            yield "warning", "unreachable", ("queues", name), message


# --- agents -------------------------------------------------------------------------------------


def _agents(catalog: Catalog) -> Iterator[Advice]:
    for name, agent in catalog.agents.items():
        for field, key in _NOT_USED_YET.items():
            if field in agent.model_fields_set:
                place = ("agents", name, key)
                yield "info", "not_used_yet", place, "kept, but no decision depends on it yet"
