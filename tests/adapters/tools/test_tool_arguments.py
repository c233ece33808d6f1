"""A tool's schema and its reader are one thing: they accept the same, whatever a model may send."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tool_ground import agent
from tool_values import FORMS, arguments

import lastword
from lastword.adapters.tools import tool_specs
from lastword.adapters.tools._arguments import BadArgumentError, Form

EVERY_FORM = [pytest.param(form, id=f"{profile}-{name}") for profile in FORMS for name, form in FORMS[profile].items()]


def accepts(form: Form[Any], value: Any) -> bool:
    with suppress(BadArgumentError):
        form.read(value)
        return True
    return False


def judge(form: Form[Any], value: Any) -> None:
    """Schema and reader agree on `value`, and a refusal names the field, in harmless text."""
    schema_says = Draft202012Validator(form.schema).is_valid(value)  # pyright: ignore[reportUnknownMemberType] -- its stub
    assert accepts(form, value) == schema_says
    if schema_says:
        return
    with pytest.raises(BadArgumentError) as caught:
        form.read(value)
    field, why = caught.value.field, caught.value.why
    for text in (field, why):
        assert text.isascii()
        assert text.isprintable()
    assert len(field) <= 64
    assert bool(field) or not isinstance(value, dict) or "" in value


@pytest.mark.parametrize("form", EVERY_FORM)
@settings(max_examples=50)
@given(data=st.data())
def test_the_reader_accepts_what_the_schema_accepts_and_nothing_else(form: Form[Any], data: st.DataObject) -> None:
    judge(form, data.draw(arguments(form.schema)))


@pytest.mark.prove
@pytest.mark.parametrize("form", EVERY_FORM)
@settings(max_examples=1000)
@given(data=st.data())
def test_they_agree_on_very_many_values(form: Form[Any], data: st.DataObject) -> None:
    judge(form, data.draw(arguments(form.schema)))


@pytest.mark.parametrize("profile", FORMS)
async def test_every_tool_shows_a_strict_schema_that_any_api_can_take(profile: str) -> None:
    """No combinators: there are APIs that refuse them at the top of a tool's schema."""
    async with agent(profile=profile) as one:
        for spec in one.specs.values():
            Draft202012Validator.check_schema(spec.input_schema)  # pyright: ignore[reportUnknownMemberType] -- its stub
            assert json.loads(json.dumps(spec.input_schema)) == spec.input_schema
            assert set(spec.input_schema) <= {"type", "properties", "required", "additionalProperties"}
            assert spec.input_schema["type"] == "object"
            assert spec.input_schema["additionalProperties"] is False
            assert all(each["description"] for each in spec.input_schema["properties"].values())
            assert spec.description
            assert len(spec.description) <= 1024


@pytest.mark.parametrize("profile", FORMS)
async def test_the_tools_are_those_of_the_forms(profile: str) -> None:
    async with agent(profile=profile) as one:
        assert [(name, spec.input_schema) for name, spec in one.specs.items()] == [
            (name, form.schema) for name, form in FORMS[profile].items()
        ]


async def test_a_profile_that_is_none_is_refused() -> None:
    async with lastword.open_runtime() as runtime:
        with pytest.raises(lastword.SupervisorError, match="native, claude, codex"):
            tool_specs(runtime, profile="other")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("Bash", {}, "command"),
        ("Bash", {"command": ""}, "command"),
        ("Bash", {"command": 1}, "command"),
        ("Bash", {"command": None}, "command"),
        ("Bash", {"command": "a\0b"}, "command"),
        ("Bash", {"command": "\ud800"}, "command"),
        ("Bash", {"command": "true", "workdir": "a\0b"}, "workdir"),
        ("Bash", {"command": "true", "cwd": "/"}, "cwd"),
        ("Bash", {"command": "true", "timeout": 0}, "timeout"),
        ("Bash", {"command": "true", "timeout": -1}, "timeout"),
        ("Bash", {"command": "true", "timeout": 1.5}, "timeout"),
        ("Bash", {"command": "true", "timeout": True}, "timeout"),
        ("Bash", {"command": "true", "background": 1}, "background"),
        ("Bash", {"command": "true", "yield_time_ms": -1}, "yield_time_ms"),
        ("Bash", {"command": "true", "max_output_bytes": 0}, "max_output_bytes"),
        ("Bash", {"command": "true", "\ud800": 1}, "\\ud800"),
        ("ProcessOutput", {}, "process_id"),
        ("ProcessOutput", {"process_id": "a", "process_ids": ["b"]}, "process_ids"),
        ("ProcessOutput", {"process_ids": []}, "process_ids"),
        ("ProcessOutput", {"process_ids": ["a", "a"]}, "process_ids"),
        ("ProcessOutput", {"process_ids": "a"}, "process_ids"),
        ("ProcessOutput", {"process_id": "a", "cursor": -1}, "cursor"),
        ("ProcessOutput", {"process_id": "a", "limit_bytes": 0}, "limit_bytes"),
        ("ProcessOutput", {"process_id": "a", "encoding": "hex"}, "encoding"),
        ("ProcessOutput", {"process_id": "a", "wait": "some"}, "wait"),
        ("ProcessInput", {"process_id": "a"}, "data"),
        ("ProcessInput", {"process_id": "a", "rows": 3}, "cols"),
        ("ProcessInput", {"process_id": "a", "cols": 3}, "rows"),
        ("ProcessStop", {}, "process_id"),
        ("ProcessStop", {"process_id": "a", "mode": "stop"}, "mode"),
        ("ProcessStop", {"process_id": "a", "grace_ms": -1}, "grace_ms"),
        ("ProcessList", {"all": True}, "all"),
    ],
)
async def test_bad_arguments_are_refused_by_the_name_of_the_field(name: str, given: Any, field: str) -> None:
    async with agent() as one:
        result = await one.call(name, **given)
        assert (result["error"], result["field"]) == ("invalid_arguments", field)
        assert result["message"].startswith(f"{field}: ")
        assert one.runtime.supervisor.list(one.runtime.loop) == []


async def test_what_is_no_object_is_refused_too() -> None:
    async with agent() as one:
        values: tuple[Any, ...] = (None, [], "command", 3)
        for nothing in values:
            result = await one.specs["Bash"].handler(nothing)
            assert (result["error"], result["field"]) == ("invalid_arguments", "")
