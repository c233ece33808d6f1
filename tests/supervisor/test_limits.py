"""Settings: what is refused, and what the defaults are."""

from __future__ import annotations

from typing import Any

import pytest

from lastword.notifier import LastwordError
from lastword.supervisor import (
    Containment,
    ErrorCode,
    Limits,
    ResourceLimits,
    SupervisorError,
    TerminalSize,
)

NUMBERS = [
    "running_per_loop",
    "running_per_session",
    "retained_completed",
    "spool_bytes",
    "aggregate_spool_bytes",
    "inline_bytes",
    "pending_input_bytes",
    "grace_seconds",
]


def test_defaults() -> None:
    """As documented."""
    limits = Limits()
    assert [getattr(limits, name) for name in NUMBERS] == [8, 32, 100, 64 << 20, 2 << 30, 32 << 10, 1 << 20, 5.0]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "value", [0, -1, True, "1", None, float("nan"), float("inf"), 1.5, 10**400, pytest.param(10**5000, id="huge")]
)
def test_what_is_no_positive_number_is_refused(name: str, value: Any) -> None:
    """Counts are integers, the grace may be a fraction; zero is never "no limit"."""
    if (name, value) == ("grace_seconds", 1.5):
        assert Limits(grace_seconds=1.5).grace_seconds == 1.5
        return
    with pytest.raises(SupervisorError) as caught:
        Limits(**{name: value})
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert name in str(caught.value)


def test_one_process_may_not_keep_more_than_all() -> None:
    """The parts fit the whole."""
    with pytest.raises(SupervisorError) as caught:
        Limits(spool_bytes=11, aggregate_spool_bytes=10)
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert Limits(spool_bytes=10, aggregate_spool_bytes=10).spool_bytes == 10


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (TerminalSize, {"rows": 0}),
        (TerminalSize, {"cols": 65_536}),
        (TerminalSize, {"rows": True}),
        (ResourceLimits, {"open_files": -1}),
        (ResourceLimits, {"cpu_seconds": 0}),
        (ResourceLimits, {"nice": 20}),
        (ResourceLimits, {"umask": 0o1000}),
        (ResourceLimits, {"core": 1.0}),
        (ResourceLimits, {"core": 1 << 63}),
    ],
)
def test_sizes_and_resources_are_judged_where_they_are_made(make: Any, arguments: dict[str, Any]) -> None:
    """The same error, with the field's name."""
    with pytest.raises(SupervisorError) as caught:
        make(**arguments)
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert next(iter(arguments)) in str(caught.value)


def test_tiers_are_ordered_and_say_what_they_prove() -> None:
    """Weakest first; only a kernel's statement is a proof."""
    assert Containment.PROCESS_GROUP < Containment.SUBREAPER < Containment.CGROUP
    assert [tier.proven for tier in Containment] == [False, True, True]


def test_error_codes_are_the_closed_set() -> None:
    """Every code is its own text, and every error is a LastwordError that carries one."""
    assert {code.value for code in ErrorCode} == {
        "invalid_arguments",
        "invalid_settings",
        "process_quota_exceeded",
        "output_quota_exceeded",
        "lifetime_enforcement_unavailable",
        "process_notifications_unsupported",
        "spawn_failed",
        "process_setup_failed",
        "pty_unavailable",
        "not_found",
        "stdin_closed",
        "input_backpressure",
        "cursor_gap",
        "cursor_ahead",
        "timed_out",
        "interrupted",
        "terminated",
        "killed",
        "supervisor_shutting_down",
        "manifest_corrupt",
        "spool_corrupt",
        "lost_on_restore",
        "teardown_failed",
    }
    error = SupervisorError(ErrorCode.NOT_FOUND, "what to do")
    assert isinstance(error, LastwordError)
    assert str(error) == "not_found: what to do"
