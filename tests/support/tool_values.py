"""Arguments that a model may give, right, nearly right and wrong, drawn from a tool's own schema."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
