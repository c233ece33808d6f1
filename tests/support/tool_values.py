"""Arguments that a model may give, right, nearly right and wrong, drawn from a tool's own schema."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from lastword.adapters.tools import (
    _claude as claude,  # pyright: ignore[reportPrivateUsage]  # what the readers take has no face
)
from lastword.adapters.tools import (
    _codex as codex,  # pyright: ignore[reportPrivateUsage]  # as above
)
from lastword.adapters.tools import (
    _native_arguments as native,  # pyright: ignore[reportPrivateUsage]  # as above
)
from lastword.adapters.tools._arguments import Form

FORMS: dict[str, dict[str, Form[Any]]] = {
    "native": {
        "Bash": Form(native.BashArguments),
        "ProcessOutput": Form(native.OutputArguments),
        "ProcessInput": Form(native.InputArguments),
        "ProcessStop": Form(native.StopArguments),
        "ProcessList": Form(native.ListArguments),
    },
    "claude": {
        "Bash": Form(claude.ClaudeBashArguments),
        "BashOutput": Form(claude.BashOutputArguments),
        "KillShell": Form(claude.KillShellArguments),
        "TaskStop": Form(claude.TaskStopArguments),
    },
    "codex": {
        "exec_command": Form(codex.ExecArguments),
        "write_stdin": Form(codex.WriteArguments),
    },
}
"""The tools of each profile, in their order."""

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def near(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values at and about the edges of a property's schema."""
    match schema["type"]:
        case "integer":
            edges = [schema["minimum"], schema["maximum"]]
            about = [edge + step for edge in edges for step in (-1, 0, 1)]
            return st.sampled_from([*about, *map(float, about), 0.5, True]) | st.integers(*edges)
        case "boolean":
            return st.booleans() | st.sampled_from([0, 1, "true"])
        case "string" if "enum" in schema:
            return st.sampled_from([*schema["enum"], "", schema["enum"][0].upper()])
        case "string":
            most = min(schema.get("maxLength", 300), 300)
            return st.text(st.characters(), max_size=8) | st.sampled_from(["", "x" * most, "x" * (most + 1), "\ud800"])
        case "array":
            items = near(schema["items"]) | JSON_VALUES
            most = schema["maxItems"]
            return st.lists(items, max_size=4) | st.sampled_from(
                [[], ["a", "a"], [str(n) for n in range(most)], [str(n) for n in range(most + 1)]]
            )
        case other:
            raise AssertionError(other)


def arguments(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Objects for a tool's schema, some of them valid, and now and then no object at all."""
    properties: dict[str, dict[str, Any]] = schema["properties"]
    required = {name: near(properties[name]) for name in schema.get("required", [])}
    optional = {name: near(each) for name, each in properties.items() if name not in required}
    fitting = st.fixed_dictionaries(required, optional=optional)
    names = st.text(max_size=4) | (st.sampled_from(sorted(properties)) if properties else st.just("x"))
    return fitting | st.tuples(fitting, _few(names)).map(_merged) | _few(names) | JSON_VALUES


def _merged(parts: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return parts[0] | parts[1]


def _few(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, JSON_VALUES, max_size=2)


# Nothing that waits, nothing that does harm: what a model gives for these is replaced.
_COMMANDS = [
    "true",
    "exit 3",
    "echo here",
    "printf '\\377\\001'",
    "seq 1 9000",
    "exec sleep 60",
    "kill -9 $$",
    "a\0b",
    "\ud800",
]
_INSTEAD: dict[str, st.SearchStrategy[Any]] = {
    "command": st.sampled_from(_COMMANDS),
    "cmd": st.sampled_from(_COMMANDS),
    "shell": st.sampled_from(["/bin/sh", "/bin/missing", "a\0b"]),
    "workdir": st.sampled_from(["/", "missing", "a\0b"]),
    "yield_time_ms": st.sampled_from([0, 1, -1, 1.0, 0.5]),
    "timeout_ms": st.sampled_from([0, 1, -1]),
    "grace_ms": st.sampled_from([0, 1, -1]),
    "timeout": st.sampled_from([0, 1, -1, 20]),
    "process_id": st.sampled_from(["first", "last", "nobody", ""]),
    "process_ids": st.lists(st.sampled_from(["first", "last", "nobody"]), max_size=3),
    "bash_id": st.sampled_from(["first", "last", "nobody"]),
    "shell_id": st.sampled_from(["first", "last", "nobody"]),
    "task_id": st.sampled_from(["first", "last", "nobody"]),
    "session_id": st.sampled_from(["first", "last", 1]),
}


# Where a tool would wait by default, it is told not to.
_AT_ONCE = {"yield_time_ms": 0, "timeout_ms": 0, "timeout": 20}


@st.composite
def calls(draw: st.DrawFn, profile: str) -> list[tuple[str, Any]]:
    """What a model calls in a row; "first" and "last" stand for processes that it has then."""
    made: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(sorted(FORMS[profile])))
        schema = FORMS[profile][name].schema
        value: Any = draw(arguments(schema))
        if type(value) is dict:
            given = cast("dict[str, Any]", value)
            value = {key: draw(_INSTEAD[key]) if key in _INSTEAD else each for key, each in given.items()}
            value |= {key: each for key, each in _AT_ONCE.items() if key in schema["properties"] and key not in value}
        made.append((name, value))
    return made
