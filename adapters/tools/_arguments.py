"""What a model gives a tool, judged: one declaration makes both the JSON Schema and the reader.

    @attrs.frozen(kw_only=True)
    class ReadArguments:
        process_id: str = argument(Text("Whose output."))
        cursor: int = argument(Whole("Where to read from.", low=0), default=0)

    READ = Form(ReadArguments)
    READ.schema        what the model is shown
    READ.read({...})   a ReadArguments, or BadArgumentError

Rules
- The reader accepts exactly what the schema accepts: a whole number may come as 3.0, true is no number, null is not
  "left out".  What depends on two arguments is no shape and stands beside the tool, as `BadArgumentError` again.
- No combinators in a schema: not every model's API takes `oneOf` and the like at its top.
- A message never shows a value, for a value may be a secret; of an unknown argument it shows the name, made harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, cast, final

import attrs

ArgumentsT = TypeVar("ArgumentsT")

# What the system's own calls take (64 bits); every count of bytes fits.
LARGEST = 2**63 - 1

# A longer handle was never given out, and a list of them has an end.
MAX_HANDLE_CHARACTERS = 128
MAX_PROCESSES = 32

_MAX_NAME_CHARACTERS = 64


class BadArgumentError(Exception):
    """An argument can never be right; `field` names it, "" where there are no arguments at all."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why


class Kind(Protocol):
    """What an argument can be."""

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        ...

    def read(self, value: object) -> Any:
        """The value as the tool wants it.  Raises `ValueError` that says what it must be."""
        ...


@final
@attrs.frozen
class Text:
    """A string."""

    description: str
    least: int = attrs.field(default=1, kw_only=True)
    most: int | None = attrs.field(default=None, kw_only=True)

    @property
    def schema(self) -> dict[str, Any]:
        bounds = {"minLength": self.least or None, "maxLength": self.most}
        return {"type": "string", **_given(bounds), "description": self.description}

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("must be a string")  # noqa: TRY004 -- one kind of error for all that can be wrong
        if len(value) < self.least:
            raise ValueError("must not be empty")
        if self.most is not None and len(value) > self.most:
            raise ValueError(f"must have at most {self.most} characters")
        return value


@final
@attrs.frozen
class Whole:
    """A whole number from `low` to `high`."""

    description: str
    low: int = attrs.field(default=0, kw_only=True)
    high: int = attrs.field(default=LARGEST, kw_only=True)

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high, "description": self.description}

    def read(self, value: object) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or not self.low <= cast("float", value) <= self.high:
            raise ValueError(f"must be a whole number from {self.low} to {self.high}")
        return int(cast("float", value))


@final
@attrs.frozen
class Flag:
    """True or false."""

    description: str

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean", "description": self.description}

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")  # noqa: TRY004 -- see `Text`
        return value


@final
@attrs.frozen
class Choice:
    """One of a few words."""

    description: str
    words: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words), "description": self.description}

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}")
        return value


@final
@attrs.frozen
class Handles:
    """Some processes, each once, in an order that is kept."""

    description: str

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_HANDLE_CHARACTERS},
            "minItems": 1,
            "maxItems": MAX_PROCESSES,
            "uniqueItems": True,
            "description": self.description,
        }

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list of process ids")  # noqa: TRY004 -- see `Text`
        items = cast("list[object]", value)
        if not 1 <= len(items) <= MAX_PROCESSES:
            raise ValueError(f"must name from 1 to {MAX_PROCESSES} processes")
        one = Text("", most=MAX_HANDLE_CHARACTERS)
        try:
            handles = tuple(one.read(item) for item in items)
        except ValueError as error:
            raise ValueError(f"each {error}") from None
        if len(set(handles)) < len(handles):
            raise ValueError("must name each process once")
        return handles


def argument(kind: Kind, *, default: Any = attrs.NOTHING) -> Any:
    """A field of a class of arguments; one without a default is required."""
    return attrs.field(default=default, metadata={_KIND: kind})


def encode(field: str, text: str) -> bytes:
    """`text` in UTF-8.  Raises `BadArgumentError` for half a pair of surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadArgumentError(field, "has a lone surrogate, which is no text") from None


@final
class Form(Generic[ArgumentsT]):
    """The arguments of one tool; `made` is an attrs class whose fields are made by `argument`."""

    def __init__(self, made: type[ArgumentsT]) -> None:
        self._made = made
        fields = attrs.fields(cast("type[attrs.AttrsInstance]", made))
        self._kinds: dict[str, Kind] = {field.name: field.metadata[_KIND] for field in fields}
        self._required = [field.name for field in fields if field.default is attrs.NOTHING]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema; a fresh one for each caller."""
        return {
            "type": "object",
            "properties": {name: kind.schema for name, kind in self._kinds.items()},
            **_given({"required": list(self._required) or None}),
            "additionalProperties": False,
        }

    def read(self, arguments: object) -> ArgumentsT:
        """The arguments, judged.  Raises `BadArgumentError` for the first that is wrong."""
        if not isinstance(arguments, dict):
            raise BadArgumentError("", "the arguments must be one JSON object")
        given = cast("dict[object, object]", arguments)
        for name in given:
            if name not in self._kinds:
                raise BadArgumentError(_harmless(name), f"is not an argument; there is {_listed(list(self._kinds))}")
        for name in self._required:
            if name not in given:
                raise BadArgumentError(name, "is missing")
        values: dict[str, Any] = {}
        for name, kind in self._kinds.items():
            if name in given:
                try:
                    values[name] = kind.read(given[name])
                except ValueError as error:
                    raise BadArgumentError(name, str(error)) from None
        return self._made(**values)


_KIND = "lastword.kind"


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _harmless(name: object) -> str:
    text = name if isinstance(name, str) else type(name).__name__
    return ascii(text)[1:-1][:_MAX_NAME_CHARACTERS]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
