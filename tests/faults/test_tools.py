"""A tool that is missing is never passed over in silence."""

from __future__ import annotations

import pytest
from crash_tools import need

MISSING = ("/no/such/tool", "--version")


def test_a_missing_tool_fails_the_build_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(
        pytest.fail.Exception, match=r"tool does not work here.* NOT tested: /no/such/tool: No such file"
    ):
        need("tool", *MISSING)


def test_a_missing_tool_skips_aloud_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT tested"):
        need("tool", *MISSING)


def test_a_tool_that_is_there_and_may_not_work_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not allowed"):
        need("tool", "sh", "-c", "echo not allowed >&2; exit 1")


def test_a_tool_that_works_lets_the_test_go_on() -> None:
    need("tool", "true")
