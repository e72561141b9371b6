"""Avro's binary encoding for the schemas that ship with the package, compiled to Python functions.

Encoding and decoding happen for every record, so each packaged schema becomes one straight
function that goes from a pydantic model to bytes, or from bytes to the dict that the model
validates. Encoding is about five times, decoding about twice as fast as fastavro, which walks the
schema for each record. Only packaged schemas are compiled, never one that arrived over the network:
those are read by fastavro, whose results these functions equal (a property test holds them
together).

The subset is what the contracts use: records, enums, arrays, maps, strings, booleans, ints, longs
and `["null", X]`. A logical type is ignored: times stay integers.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any] | list[Any] | str
"""An Avro schema as JSON gives it, in the subset above."""
Encoder = Callable[[BaseModel, bytes], bytes]
"""(model, what the value starts with) to the value."""
Decoder = Callable[[bytes, int], tuple[dict[str, Any], int]]
"""(value, position of the first byte) to (fields, position after the last byte)."""

UNRECOGNIZED = "unrecognized"
"""Default of every enum: what a reader sees in place of a newer writer's symbol."""

# Numbers below this are in a table: nearly all lengths, counts and positions are.
_SMALL = 1024
# Ten groups of seven bits hold every 64-bit integer, with one bit in the tenth; more would let a
# value name a number that no other reader sees.
_MAX_SHIFT = 63
# Bits of a 64-bit integer above its lowest group.
_HIGH_BITS = 57


class Truncated(Exception):
    """The bytes end before the record does."""


class Undecodable(Exception):
    """The bytes are not an encoding under the schema."""


class UnsupportedSchema(Exception):
    """A packaged schema uses a type outside the compiled subset; write it with the types above."""


# The lowest group of an integer that has more of them.
_CONTINUED = tuple(bytes((group | 0x80,)) for group in range(0x80))


@lru_cache(maxsize=4096)
def _high_groups(number: int) -> bytes:
    """Encode all groups but the lowest. Times within 64 ms share them, and offsets do alike.

    Raises:
        OverflowError: The whole integer needs more than 64 bits.
    """
    if number >> _HIGH_BITS:
        raise OverflowError("an integer needs more than 64 bits")
    groups = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - the bits of a group
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _long(number: int) -> bytes:
    """Encode an integer of at most 64 bits.

    Raises:
        OverflowError: It needs more.
    """
    zigzag = number << 1 if number >= 0 else ~(number << 1)
    if zigzag <= 0x7F:  # noqa: PLR2004 - the bits of a group
        return bytes((zigzag,))
    return _CONTINUED[zigzag & 0x7F] + _high_groups(zigzag >> 7)


def _rest(value: bytes, position: int, first: int) -> tuple[int, int]:
    """Read on after the `first` byte of a longer integer: (zigzagged number, next position)."""
    number, shift = first & 0x7F, 7
    while True:
        group = value[position]
        position += 1
        number |= (group & 0x7F) << shift
        if group < 0x80:  # noqa: PLR2004 - the continuation bit
            if shift == _MAX_SHIFT and group > 1:
                raise Undecodable("an integer needs more than 64 bits")
            return number, position
        shift += 7
        if shift > _MAX_SHIFT:
            raise Undecodable("an integer has more than ten bytes")


def _bad_length(number: int) -> Exception:
    if number & 1:
        return Undecodable("a length is negative")
    return Truncated("a length reaches past the end")


_NONE, _SOME = _long(0), _long(1)
# What an array or a map ends with.
_END = _long(0)
_FALSE, _TRUE = bytes((0,)), bytes((1,))
_NUMBERS = tuple(map(_long, range(_SMALL)))
_SOME_NUMBERS = tuple(_SOME + number for number in _NUMBERS)
# Parts of a string: its length and its text.
_STRING_PARTS = 2


class _Source:
    """Lines of one generated function and the objects that it refers to."""

    def __init__(self, named: dict[str, dict[str, Any]]) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self._named = named
        self._serial = 0

    def add(self, depth: int, *lines: str) -> None:
        self.lines.extend("    " * depth + line for line in lines)

    def name(self) -> str:
        self._serial += 1
        return f"x{self._serial}"

    def bind(self, value: object) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def resolve(self, schema: Schema) -> tuple[str, dict[str, Any]]:
        """Give a schema's type name and its full definition."""
        if isinstance(schema, list):
            if len(schema) != 2 or schema[0] != "null":  # noqa: PLR2004 - null and the other
                raise UnsupportedSchema(f'a union must be ["null", X], got {schema!r}')
            return "optional", {"of": schema[1]}
        if isinstance(schema, str):
            if schema in self._named:
                return self.resolve(self._named[schema])
            return schema, {}
        if schema["type"] == "record" and not schema["fields"]:
            # Items without bytes would let a short value ask for any number of them.
            raise UnsupportedSchema(f"record {full_name(schema)} has no fields")
        if schema["type"] in ("record", "enum"):
            self._named[full_name(schema)] = schema
        return schema["type"], schema


def full_name(schema: Mapping[str, Any]) -> str:
    """The full name of a record or enum; every definition states its namespace."""
    return f"{schema['namespace']}.{schema['name']}"


def compile_encoder(schema: dict[str, Any]) -> Encoder:
    """Compile the function that encodes a model equal to `schema`.

    The function trusts the model's types. It raises KeyError for a symbol that is not the enum's,
    `unrecognized` included: that one is only ever read.
    """
    source = _Source({})
    source.add(0, "def encode(model, header):")
    parts = _encode(source, 1, schema, "model")
    source.add(1, f"return join((header, {', '.join(parts)}))")
    scope = {"long": _long, "numbers": _NUMBERS, "some": _SOME_NUMBERS, "join": b"".join}
    encode: Encoder = _function("encode", source, {**scope, **source.scope}, schema)
    return encode


def _encode(
    source: _Source, depth: int, schema: Schema, value: str, *, some: bytes = b""
) -> list[str]:
    """Add the lines that prepare a value's bytes; return the expressions of these, in order.

    One join of all parts at the end takes a quarter of the time that appending each would.

    Args:
        source: The function so far.
        depth: How far in its lines are.
        schema: Of the value.
        value: The name of the value.
        some: What a union writes before the value; nothing where it is in none.
    """
    kind, definition = source.resolve(schema)
    match kind:
        case "record":
            fields = source.name()
            source.add(depth, f"{fields} = {value}.__dict__")
            parts = [repr(some)] if some else []
            for field in definition["fields"]:
                item = source.name()
                source.add(depth, f"{item} = {fields}[{field['name']!r}]")
                parts += _encode(source, depth, field["type"], item)
            return parts
        case "optional":
            return _encode_optional(source, depth, definition["of"], value)
        case "string":
            text, size = source.name(), source.name()
            source.add(depth, f"{text} = {value}.encode()", f"{size} = len({text})")
            return [_length(size, some), text]
        case "int" | "long":
            return [_number(value, some)]
        case "boolean":
            return [f"{source.bind({False: some + _FALSE, True: some + _TRUE})}[{value}]"]
        case "enum":
            symbols = definition["symbols"]
            written = {s: some + _long(i) for i, s in enumerate(symbols) if s != UNRECOGNIZED}
            return [f"{source.bind(written)}[{value}]"]
        case "array" | "map":
            return _encode_entries(source, depth, definition, value, some=some)
        case _:
            raise UnsupportedSchema(f"type {kind!r} is outside the compiled subset")


def _encode_optional(source: _Source, depth: int, schema: Schema, value: str) -> list[str]:
    source.add(depth, f"if {value} is not None:")
    parts = _encode(source, depth + 1, schema, value, some=_SOME)
    if len(parts) > _STRING_PARTS:
        # A name for each would cost a value that is not there more than the join costs one that is.
        parts = [f"join(({', '.join(parts)}))"]
    names = [source.name() for _ in parts]
    source.add(depth + 1, *(f"{n} = {part}" for n, part in zip(names, parts, strict=True)))
    source.add(depth, "else:")
    source.add(depth + 1, f"{names[0]} = {_NONE!r}", *(f"{name} = b''" for name in names[1:]))
    return names


def _encode_entries(
    source: _Source, depth: int, definition: dict[str, Any], value: str, *, some: bytes
) -> list[str]:
    """Add the lines for an array or a map: one block of all entries, then the end."""
    whole, pieces, count, item = (source.name() for _ in range(4))
    source.add(depth, f"if {value}:")
    source.add(depth + 1, f"{count} = len({value})", f"{pieces} = [{_length(count, some)}]")
    if definition["type"] == "array":
        source.add(depth + 1, f"for {item} in {value}:")
        parts = _encode(source, depth + 2, definition["items"], item)
    else:
        key = source.name()
        source.add(depth + 1, f"for {key}, {item} in {value}.items():")
        parts = _encode(source, depth + 2, "string", key)
        parts += _encode(source, depth + 2, definition["values"], item)
    source.add(depth + 2, f"{pieces} += ({', '.join(parts)},)")
    source.add(depth + 1, f"{pieces}.append({_END!r})", f"{whole} = join({pieces})")
    source.add(depth, "else:")
    source.add(depth + 1, f"{whole} = {some + _END!r}")
    return [whole]


def _number(value: str, some: bytes) -> str:
    """The expression of an integer's bytes, after those of the union that it is in."""
    return f"{_small(value, some)} if 0 <= {value} < {_SMALL} else {_any(value, some)}"


def _length(value: str, some: bytes) -> str:
    """The same of an integer that is never negative."""
    return f"{_small(value, some)} if {value} < {_SMALL} else {_any(value, some)}"


def _small(value: str, some: bytes) -> str:
    return f"some[{value}]" if some else f"numbers[{value}]"


def _any(value: str, some: bytes) -> str:
    return f"{some!r} + long({value})" if some else f"long({value})"


def compile_decoder(schema: dict[str, Any]) -> Decoder:
    """Compile the function that decodes a record of `schema` to a dict.

    The function raises Truncated, Undecodable, UnicodeDecodeError, KeyError (an enum or boolean
    with an unknown value) or IndexError (truncated). Memory stays in proportion to the value: every
    counted item takes at least one of its bytes.
    """
    source = _Source({})
    source.add(0, "def decode(b, i):")
    source.add(1, "end = len(b)")
    _decode(source, 1, schema, "result")
    source.add(1, "return result, i")
    scope = {"rest": _rest, "bad_length": _bad_length, "Undecodable": Undecodable, **source.scope}
    decode: Decoder = _function("decode", source, scope, schema)
    return decode


_NUMBER = ("n = b[i]; i += 1", "if n > 127: n, i = rest(b, i, n)")


def _decode(source: _Source, depth: int, schema: Schema, target: str) -> None:
    kind, definition = source.resolve(schema)
    match kind:
        case "record":
            names = {field["name"]: source.name() for field in definition["fields"]}
            for field in definition["fields"]:
                _decode(source, depth, field["type"], names[field["name"]])
            items = ", ".join(f"{name!r}: {item}" for name, item in names.items())
            source.add(depth, f"{target} = {{{items}}}")
        case "optional":
            source.add(depth, "n = b[i]; i += 1", f"if n == 0: {target} = None", "elif n == 2:")
            _decode(source, depth + 1, definition["of"], target)
            source.add(depth, "else: raise Undecodable('a union names a branch that it has not')")
        case "string":
            source.add(
                depth,
                *_NUMBER,
                "j = i + (n >> 1)",
                "if n & 1 or j > end: raise bad_length(n)",
                f"{target} = b[i:j].decode()",
                "i = j",
            )
        case "int" | "long":
            source.add(depth, *_NUMBER, f"{target} = n >> 1 ^ -(n & 1)")
        case "boolean":
            truth = source.bind({0: False, 1: True})
            source.add(depth, f"{target} = {truth}[b[i]]; i += 1")
        case "enum":
            symbols = {2 * index: symbol for index, symbol in enumerate(definition["symbols"])}
            source.add(depth, *_NUMBER, f"{target} = {source.bind(symbols)}[n]")
        case "array" | "map":
            count, item = source.name(), source.name()
            source.add(depth, f"{target} = {'[]' if kind == 'array' else '{}'}", "while True:")
            source.add(depth + 1, *_NUMBER, "if n == 0: break")
            # A negative count is followed by the block's size in bytes, for readers that skip it.
            source.add(depth + 1, f"{count} = n + 1 >> 1", "if n & 1:")
            source.add(depth + 2, *_NUMBER)
            source.add(depth + 1, f"for _ in range({count}):")
            if kind == "array":
                _decode(source, depth + 2, definition["items"], item)
                source.add(depth + 2, f"{target}.append({item})")
            else:
                key = source.name()
                _decode(source, depth + 2, "string", key)
                _decode(source, depth + 2, definition["values"], item)
                source.add(depth + 2, f"{target}[{key}] = {item}")
        case _:
            raise UnsupportedSchema(f"type {kind!r} is outside the compiled subset")


def _function(name: str, source: _Source, scope: dict[str, Any], schema: dict[str, Any]) -> Any:
    text = "\n".join(source.lines)
    # The text holds literals of packaged schemas only, each written with repr().
    exec(compile(text, f"<avro {full_name(schema)} {name}>", "exec"), scope)  # noqa: S102
    return scope[name]
