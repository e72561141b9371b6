"""Writes catalog.yaml: the APIs of the data set as tools, with the texts of `texts.py`.

Usage: python -m benchmarks.star.make_catalog [--star DIR]
"""

import argparse
from pathlib import Path
from typing import Any

import yaml

from benchmarks.star.dataset import apis, star_folder
from benchmarks.star.texts import (
    ANSWERS,
    FIELD_OF,
    FREE,
    ITEMS,
    OUT_OF_SCOPE,
    OWN_OUTPUTS,
    PATTERNS,
    TASKS,
)

TARGET = Path(__file__).with_name("catalog.yaml")
HEADER = """\
# A catalog for the tasks of the STAR dialogues. Written by benchmarks/star/make_catalog.py: change
# texts.py and run it again.

"""
LISTED = ("Categorical", "CategoricalMultiple", "RequestType")


def field_of(api: str, argument: str) -> str | None:
    """Return the field that provides an input of an API, if the catalog has one."""
    return FIELD_OF.get(f"{api}.{argument}") or FIELD_OF.get(argument)


def choice(field: str, value: str) -> dict[str, Any]:
    """Return a choice with its label and what customers write for it."""
    aliases: list[str] = []
    if field == "hour":
        number, half = value.split()
        aliases = [f"{number}{half}", f"{number}:00 {half}", f"{number}:00{half}"]
        aliases += {"12 pm": ["noon"], "12 am": ["midnight"]}.get(value, [])
    elif field == "request_type":
        aliases = {
            "Check": ["available", "availability", "free"],
            "Book": ["reserve", "reservation", "appointment", "schedule"],
        }[value]
    elif value.startswith("Dr. "):
        aliases = [f"doctor {value.removeprefix('Dr. ')}", value.removeprefix("Dr. ")]
    label = {"en": value}
    return {"label": label, "aliases": aliases} if aliases else {"label": label}


def add_field(fields: dict[str, Any], field: str, given: dict[str, Any]) -> None:
    """Add a field, or the values that another API allows for it."""
    description, question = ITEMS[field]
    entry = fields.setdefault(field, {"description": description})
    kind = given["Type"]
    if field in FREE:
        entry["max_length"] = 60
    elif kind in LISTED:
        entry["type"] = "choice"
        known = entry.setdefault("choices", {})
        for value in given["Categories"]:
            known.setdefault(value, choice(field, value))
    elif kind == "Integer":
        entry["type"] = "integer"
        entry["minimum"] = min(entry.get("minimum", given["Min"]), given["Min"])
        entry["maximum"] = max(entry.get("maximum", given["Max"]), given["Max"])
    elif field in PATTERNS:
        entry["pattern"] = PATTERNS[field]
    else:
        entry["max_length"] = 500 if kind == "LongString" else 120
    entry["question"] = {"en": question}


def schema_of(given: dict[str, Any], *, free: bool) -> dict[str, Any]:
    """Return the JSON Schema of an input."""
    kind = given["Type"]
    if kind == "Integer":
        return {"type": "integer", "minimum": given["Min"], "maximum": given["Max"]}
    if kind in LISTED and not free:
        return {"type": "string", "enum": list(given["Categories"])}
    return {"type": "string"}


def result_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an output."""
    match given["Type"]:
        case "Integer":
            return {"type": "integer"}
        case "Boolean":
            return {"type": "boolean"}
        case _ if given.get("Categories"):
            return {"type": "string", "enum": list(given["Categories"])}
        case _:
            return {"type": "string"}


def tool(api: str, given: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the tool of an API, adding the fields that it needs."""
    task = TASKS[api]
    required = task.required if task.required is not None else tuple(given["required"])
    properties: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for one in given["input"]:
        name = one["Name"]
        field = field_of(api, name)
        # What is optional and cannot be recognised in a message would never be filled.
        if field is None or (name not in required and (one["Type"] not in LISTED or field in FREE)):
            continue
        add_field(fields, field, one)
        properties[name] = schema_of(one, free=field in FREE)
        arguments[name] = {"field": field, "provenance": ["message"]}
    outputs = {one["Name"]: result_of(one) for one in given["output"]}
    if api in OWN_OUTPUTS:
        own: dict[str, Any] = {name: {"type": "string"} for name in OWN_OUTPUTS[api]}
        outputs = {name: outputs.get(name, schema) for name, schema in own.items()}
    entry: dict[str, Any] = {
        "description": task.description,
        "subject": api.split("_", 1)[0],
        "examples": list(task.examples),
        "effect": task.effect,
        "data_scope": "public",
    }
    if task.effect == "write":
        entry["threshold"] = 0.3
    entry |= {
        "input_schema": {
            "type": "object",
            "required": list(required),
            "additionalProperties": False,
            "properties": properties,
        },
        "result_schema": {"type": "object", "required": list(outputs), "properties": outputs},
        "arguments": arguments,
        "answer": f"{api}_result",
        "binding": {"kind": "function", "target": f"benchmarks.star.stub:{api}"},
    }
    return entry


def catalog(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the whole catalog."""
    fields: dict[str, Any] = {}
    tools = {api: tool(api, given[api], fields) for api in TASKS}
    answers: dict[str, Any] = {
        f"{api}_result": {
            "description": f"The result of {api.replace('_', ' ')}.",
            "of_tool": api,
            "text": {"en": task.answer},
        }
        for api, task in TASKS.items()
    }
    for name, (description, examples, text) in ANSWERS.items():
        answers[name] = {
            "description": description,
            "examples": list(examples),
            "text": {"en": text},
        }
    description, examples, text = OUT_OF_SCOPE
    return {
        "default_locale": "en",
        "entry_agent": "star",
        "default_queue": "general",
        "agents": {
            "star": {
                "description": "Helps with the tasks of the STAR dialogues.",
                "decider": "catalog_rules",
                "maxSteps": 12,
                "maxQuestions": 8,
            }
        },
        "thresholds": {"answer": 0.2, "call_tool": 0.2, "ask": 0.2, "refuse": 0.3},
        "channels": {"star": {"type": "webchat"}},
        "tools": tools,
        "fields": fields,
        "answers": answers,
        "rules": {
            "out_of_scope": {
                "description": description,
                "examples": list(examples),
                "text": {"en": text},
            }
        },
        "queues": {
            "general": {
                "description": "Every request that the assistant cannot settle.",
                "text": {"en": "A colleague of ours will take over and answer you here."},
            },
            "incidents": {
                "description": "A service was unavailable, or an effect is unknown.",
                "causes": ["tool_unavailable", "outcome_unknown"],
                "text": {"en": "A service does not respond. A colleague of ours is looking at it."},
            },
        },
        "categories": {
            name: {"description": text, "examples": list(words)}
            for name, text, words in (
                ("travel", "Flights, rides and directions.", ("flight", "taxi", "directions")),
                ("stay", "Hotels and flats.", ("hotel room", "apartment")),
                ("food", "Restaurants.", ("table for two", "pizza place")),
                ("money", "Bank accounts and fraud.", ("bank balance", "stolen card")),
                ("health", "Doctors.", ("doctor's appointment", "prescription")),
                ("social", "Meetings and parties.", ("meeting", "party")),
                ("other", "Everything else.", ("weather", "quiz", "space ship")),
            )
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes the same text wherever it is met, without references."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--star", type=Path, help="folder of the data set")
    folder = star_folder(parser.parse_args().star)
    text = yaml.dump(
        catalog(apis(folder)), Dumper=_Dumper, sort_keys=False, width=96, default_flow_style=None
    )
    TARGET.write_text(HEADER + text, encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(TASKS)} tools")


if __name__ == "__main__":
    main()
