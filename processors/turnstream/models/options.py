"""The options that a catalog offers a customer, with the texts that describe them."""

from collections.abc import Iterator

from turnstream.core.definitions import Catalog
from turnstream.models.person import PERSON_REQUESTS
from turnstream.models.ranking import PERSON, Intent
from turnstream.text import OptionTexts


def described_by(catalog: Catalog) -> Iterator[tuple[Intent, OptionTexts]]:
    """Every intent of the catalog with its texts, the wish for a person last."""
    for name, tool in catalog.tools.items():
        fields = tuple(
            [
                source.field or argument
                for argument, source in tool.arguments.items()
                if "message" in source.provenance or "record" in source.provenance
            ]
        )
        yield (
            Intent("tool", name, writes=tool.effect == "write", fields=fields),
            OptionTexts(_with_name(name, tool.description), tool.examples, fields),
        )
    for name, answer in catalog.answers.items():
        # An answer that presents a result is chosen by the result, never by words.
        if answer.of_tool is None:
            yield (
                Intent("answer", name),
                OptionTexts(_with_name(name, answer.description), answer.examples),
            )
    for name, rule in catalog.rules.items():
        # A rule without examples is one that code applies (a missing permission).
        if rule.examples:
            yield (
                Intent("rule", name),
                OptionTexts(_with_name(name, rule.description), rule.examples),
            )
    languages = languages_of(catalog)
    requests = [text for one in languages for text in PERSON_REQUESTS.get(one, ())]
    yield PERSON, OptionTexts(examples=requests)


def _with_name(name: str, description: str) -> str:
    return f"{name.replace('_', ' ')}. {description}"


def languages_of(catalog: Catalog) -> tuple[str, ...]:
    """The primary tags of every locale that the catalog has texts in, its default first."""
    tags = [catalog.default_locale]
    for field in catalog.fields.values():
        tags.extend(field.question or ())
    for answer in catalog.answers.values():
        tags.extend(answer.text)
    for rule in catalog.rules.values():
        tags.extend(rule.text)
    for queue in catalog.queues.values():
        tags.extend(queue.text)
    return tuple(dict.fromkeys(tag.split("-", 1)[0].lower() for tag in tags))
