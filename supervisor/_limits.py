"""What a supervisor allows, and what a process may be given.  Plain values, judged where they are made."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, final

import attrs

from ._errors import ErrorCode, SupervisorError

MAX_CELLS = 65535
"""The most rows or columns that a terminal can have: its size has 16 bits for each."""

# What the system's own calls take (64 bits); nothing real is larger.
_LARGEST = 2**63 - 1


def _positive(_: object, field: attrs.Attribute[Any], value: object) -> None:
    number = value if isinstance(value, int) or (field.name == "grace_seconds" and isinstance(value, float)) else None
    if number is None or isinstance(value, bool) or not 0 < number <= _LARGEST:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS, f"{field.name} must be a positive number, not {_shown(value)}"
        )


def _shown(value: object) -> str:
    # Python refuses to write out an int of thousands of digits.
    return "one so large" if isinstance(value, int) and abs(value) > _LARGEST else repr(value)


def _count(low: int, high: int = _LARGEST) -> Any:
    """A validator: None, or an int within the bounds."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            bound = f"at least {low}" if high == _LARGEST else f"from {low} to {high}"
            raise SupervisorError(
                ErrorCode.INVALID_SETTINGS, f"{field.name} must be an integer {bound}, not {_shown(value)}"
            )

    return check


@final
@attrs.frozen(kw_only=True)
class Limits:
    """The quotas of one supervisor.  Zero and negative are refused (`SupervisorError`, invalid_settings).

    - `running_per_loop`, `running_per_session`: processes that may run at once.
    - `retained_completed`: ended processes that are kept for reading; beyond, the least recently used is evicted.
    - `spool_bytes`: what is kept of one process's output, unless `start` says otherwise.
    - `aggregate_spool_bytes`: what all processes together may keep; a running one reserves its whole limit.
      On disk each has up to one segment more: an eighth of its limit, at least 64 KiB and at most 8 MiB; and, where
      its streams are split, an index of 8 bytes for every 512 of its limit (4 KiB to 1 MiB).
    - `inline_bytes`: how much output an adapter shows in one answer.
    - `pending_input_bytes`: input that may wait for a process that does not read.
    - `grace_seconds`: between SIGTERM and SIGKILL.
    """

    running_per_loop: int = attrs.field(default=8, validator=_positive)
    running_per_session: int = attrs.field(default=32, validator=_positive)
    retained_completed: int = attrs.field(default=100, validator=_positive)
    spool_bytes: int = attrs.field(default=64 * 1024 * 1024, validator=_positive)
    aggregate_spool_bytes: int = attrs.field(default=2 * 1024 * 1024 * 1024, validator=_positive)
    inline_bytes: int = attrs.field(default=32 * 1024, validator=_positive)
    pending_input_bytes: int = attrs.field(default=1024 * 1024, validator=_positive)
    grace_seconds: float = attrs.field(default=5.0, validator=_positive)

    def __attrs_post_init__(self) -> None:
        if self.spool_bytes > self.aggregate_spool_bytes:
            raise SupervisorError(
                ErrorCode.INVALID_SETTINGS,
                "spool_bytes must not exceed aggregate_spool_bytes; lower the one or raise the other",
            )


@final
@attrs.frozen(kw_only=True)
class TerminalSize:
    """A terminal's size in character cells."""

    rows: int = attrs.field(default=24, validator=_count(1, MAX_CELLS))
    cols: int = attrs.field(default=80, validator=_count(1, MAX_CELLS))


@final
@attrs.frozen(kw_only=True)
class ResourceLimits:
    """What a process is held to; None leaves the host's own.

    `open_files` is a count, `cpu_seconds` seconds, `address_space` and `core` bytes, `nice` what is added to the host's
    niceness (-20 to 19), `umask` the file mode creation mask.
    """

    open_files: int | None = attrs.field(default=None, validator=_count(0))
    cpu_seconds: int | None = attrs.field(default=None, validator=_count(1))
    address_space: int | None = attrs.field(default=None, validator=_count(1))
    core: int | None = attrs.field(default=None, validator=_count(0))
    nice: int | None = attrs.field(default=None, validator=_count(-20, 19))
    umask: int | None = attrs.field(default=None, validator=_count(0, 0o777))


class Containment(IntEnum):
    """How a process's whole tree is held, weakest first."""

    PROCESS_GROUP = 1
    """A session and group of its own, signalled as one.  A process that leaves the group is out of reach."""

    SUBREAPER = 2
    """A shim that adopts every descendant; its waitpid saying ECHILD is the proof."""

    CGROUP = 3
    """A control group of its own; the kernel saying `populated 0` is the proof."""

    @property
    def proven(self) -> bool:
        """Whether this tier can prove that nothing of a tree is left."""
        return self is not Containment.PROCESS_GROUP
