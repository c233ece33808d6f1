"""Whatever a model calls, in whatever order and with whatever arguments: a well-formed result, never a traceback."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from anyio.lowlevel import current_token
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tool_ground import Agent, agent, check
from tool_values import FORMS, calls

from lastword.adapters.tools import _codex as codex
from lastword.adapters.tools._naming import session_number

# Right by their schema, and wrong together, or by what the system can take.
TOGETHER = {"timeout", "process_id", "process_ids", "data", "rows", "cols"}
BY_THE_SYSTEM = {"command", "cmd", "shell", "workdir", "data", "chars"}

# The output of one result, and what is said of it; the longest list of processes.
MAX_RESULT_BYTES = 2 * 32 * 1024


# An example starts processes: looking for a smaller one takes longer than reading this one.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


async def call_all(profile: str, made: list[tuple[str, Any]]) -> None:
    """Call in a row, and judge every result."""
    async with agent(profile=profile) as one:
        for name, value in made:
            spec = one.specs[name]
            value = with_processes(one, value)
            schema = Draft202012Validator(spec.input_schema)
            valid = schema.is_valid(value)  # pyright: ignore[reportUnknownMemberType] -- its stub
            result = await spec.handler(value)
            check(result)
            assert len(json.dumps(result, ensure_ascii=False).encode()) <= MAX_RESULT_BYTES
            if not valid:
                assert result["error"] == "invalid_arguments"
            elif result.get("error") == "invalid_arguments":
                assert result["field"] in TOGETHER | BY_THE_SYSTEM
        await (await one.notices.collect()).ack()


def with_processes(one: Agent, value: Any) -> Any:
    """`value`, with processes of the agent where it says "first" and "last"."""
    known = [process.handle for process in one.runtime.supervisor.list(one.runtime.loop)]
    names = {"first": known[0], "last": known[-1]} if known else {}
    if type(value) is not dict:
        return value
    given = cast("dict[str, Any]", value)
    for key, each in given.items():
        if key == "session_id" and isinstance(each, str) and each in names:
            given[key] = session_number(names[each])
        elif key == "process_ids" and type(each) is list:
            given[key] = [names.get(item, item) for item in cast("tuple[Any, ...]", each)]
        elif key.endswith("_id") and isinstance(each, str):
            given[key] = names.get(each, each)
    return given


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "LEAST_YIELD_MS", 1)
    monkeypatch.setattr(codex, "LEAST_POLL_MS", 1)


@pytest.mark.parametrize("profile", FORMS)
@settings(max_examples=8, phases=NO_SHRINKING)
@given(data=st.data())
async def test_every_call_is_answered(profile: str, anyio_backend: str, data: st.DataObject) -> None:
    assert type(current_token().native_token).__module__.startswith("trio") == (anyio_backend == "trio")
    await call_all(profile, data.draw(calls(profile)))


@pytest.mark.prove
@pytest.mark.parametrize("profile", FORMS)
@settings(max_examples=100, phases=NO_SHRINKING)
@given(data=st.data())
async def test_very_many_calls_are_answered(profile: str, anyio_backend: str, data: st.DataObject) -> None:
    assert type(current_token().native_token).__module__.startswith("trio") == (anyio_backend == "trio")
    await call_all(profile, data.draw(calls(profile)))
