"""What each surface can say of a tool and its schema, as data.

:mod:`turnstream.core.wordings` puts schemas into these words, :mod:`turnstream.core.surfaces` makes
the tools.

Sources, read in November 2026:

- OpenAI, strict: "Structured model outputs", *Supported schemas* and the limits below it
  (developers.openai.com/api/docs/guides/structured-outputs). `minLength` and `maxLength` are not
  in that list, but the converter of OpenAI's own SDK (openai-node, ``src/lib/transform.ts``)
  passes them on and refuses `uniqueItems`, `prefixItems` and `contains`. Servers that only
  resemble OpenAI may accept less; their tools go without strict.
- OpenAI, not strict: the refusal of the API itself, "schema must have type 'object' and not have
  'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level"; names from `FunctionDefinition`
  of the SDK.
- Anthropic: "Define tools" (platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools)
  for names; the refusals of the API for the rest, "input_schema does not support oneOf, allOf, or
  anyOf at the top level" and "property keys should match pattern".
- Gemini: `parametersJsonSchema`, since `parameters` is a subset of OpenAPI 3.0 without
  `additionalProperties`, `$ref`, lists of types or enums of anything but strings. No keywords of
  its own are documented for it; what is supported is documented for its sister
  `responseJsonSchema`, formats under "Structured output" (ai.google.dev/gemini-api/docs), and as
  class `JSONSchema` of Google's SDK (python-genai, ``types.py``). `oneOf` is read there as `anyOf`,
  and cycles are unrolled to a limited depth, so both are refused.
- MCP: revision 2026-07-28, *Tools*: `type: object` at the top, otherwise all of JSON Schema.
"""

import re
from typing import Final, NoReturn

from pydantic import JsonValue

from turnstream.core.errors import DefinitionError
from turnstream.core.evolution import dataclass
from turnstream.core.schema_tree import Place, Schema, pointer, walk


class SurfaceError(DefinitionError):
    """A tool cannot be shown on a surface without loss; whoever edits the catalog must act."""

    def __init__(self, tool: str, *, surface: str, place: Place, keyword: str, reason: str) -> None:
        where = f"tools.{tool}.input_schema"
        at = f" at {pointer(place)}" if place else ""
        super().__init__(f"{where}{at}: {keyword}: {surface}: {reason}")
        self.tool = tool
        self.surface = surface
        self.place = place
        """Keys and indexes inside the input schema to the schema that holds the keyword."""
        self.keyword = keyword
        """The keyword in question; `name` where the name of the tool or of an argument is."""
        self.reason = reason

    @property
    def pointer(self) -> str:
        """JSON pointer into the tool's input schema."""
        return pointer(self.place)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one surface accepts."""

    surface: str
    """As it is called in errors."""
    tool_name: re.Pattern[str]
    name_rule: str
    """The same in words."""
    keywords: frozenset[str] | None = None
    """Keywords of JSON Schema that it accepts; None for all."""
    not_at_the_top: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    """Values of `format` that it accepts; None for all."""
    argument_name: re.Pattern[str] | None = None

    def check_name(self, tool: str) -> None:
        """Check the name of a tool.

        Raises:
            SurfaceError: the surface does not accept it.
        """
        if not self.tool_name.fullmatch(tool):
            raise SurfaceError(
                tool,
                surface=self.surface,
                place=(),
                keyword="name",
                reason=f"a name is {self.name_rule}; rename the tool",
            )

    def check(self, tool: str, schema: Schema) -> None:
        """Check name, keywords and argument names.

        Raises:
            SurfaceError: the surface cannot say something.
        """
        self.check_name(tool)
        for place, here in walk(schema):
            for keyword in here:
                if not place and keyword in self.not_at_the_top:
                    self.refuse(tool, place, keyword, "not accepted at the top of the arguments")
                if not self._knows(keyword):
                    self.refuse(tool, place, keyword, "not supported; say it in other keywords")
            form = here.get("format")
            if self.formats is not None and form is not None and form not in self.formats:
                supported = ", ".join(sorted(self.formats))
                self.refuse(tool, place, "format", f"only {supported} are supported")
        arguments = schema.get("properties")
        for name in arguments if isinstance(arguments, dict) else ():
            if self.argument_name is not None and not self.argument_name.fullmatch(name):
                reason = f"the name of an argument must match {self.argument_name.pattern}"
                self.refuse(tool, ("properties", name), "name", reason)

    def refuse(self, tool: str, place: Place, keyword: str, reason: str) -> NoReturn:
        """Raise the error that names tool, place and keyword."""
        raise SurfaceError(tool, surface=self.surface, place=place, keyword=keyword, reason=reason)

    def _knows(self, keyword: str) -> bool:
        return self.keywords is None or keyword in self.keywords or _droppable(keyword)


_SHARED: Final = frozenset(
    """
    $defs $ref additionalProperties anyOf const default description enum format items maxItems
    maximum maxLength minItems minimum minLength pattern properties required title type
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""What both restricted surfaces support, in these words or in equal ones."""

OPENAI_STRICT: Final = Dialect(
    "openai (strict)",
    tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII),
    name_rule="1 to 64 of the characters A-Z a-z 0-9 _ -",
    keywords=_SHARED | {"definitions", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"},
    formats=frozenset(
        "date date-time duration email hostname ipv4 ipv6 time uuid".split()  # noqa: SIM905 - as above
    ),
)
OPENAI: Final = Dialect(
    "openai",
    tool_name=OPENAI_STRICT.tool_name,
    name_rule=OPENAI_STRICT.name_rule,
    not_at_the_top=frozenset({"allOf", "anyOf", "const", "enum", "not", "oneOf"}),
)
ANTHROPIC: Final = Dialect(
    "anthropic",
    tool_name=re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII),
    name_rule="1 to 128 of the characters A-Z a-z 0-9 _ -",
    not_at_the_top=frozenset({"allOf", "anyOf", "oneOf"}),
    argument_name=re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII),
)
GEMINI: Final = Dialect(
    "gemini",
    # Google's newest SDK says 128 characters, the reference of Vertex AI 64.
    tool_name=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", re.ASCII),
    name_rule="1 to 64 of the characters A-Z a-z 0-9 _ . : -, a letter or _ first",
    keywords=_SHARED
    | {"$anchor", "$id", "maxProperties", "minProperties", "prefixItems", "uniqueItems"},
    formats=frozenset({"date", "date-time", "time"}),
)
MCP: Final = Dialect(
    "mcp",
    tool_name=re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII),
    name_rule="1 to 128 of the characters A-Z a-z 0-9 _ - .",
)
PROMPT: Final = Dialect(
    "prompt",
    tool_name=re.compile(r"[A-Za-z0-9_.:/-]{1,128}", re.ASCII),
    name_rule="1 to 128 of the characters A-Z a-z 0-9 _ . : / -",
    argument_name=re.compile(r"[^\s:]+"),
)


def _droppable(keyword: str) -> bool:
    """Whether JSON Schema itself lets a keyword be left out: it asserts nothing."""
    return keyword in {"$comment", "$schema"} or keyword.startswith("x-")


def without_asides(schema: Schema) -> dict[str, JsonValue]:
    """A schema without what JSON Schema itself lets everybody leave out."""
    return {key: value for key, value in schema.items() if not _droppable(key)}
