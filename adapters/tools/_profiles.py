"""The same jobs under the names that a model may know them by."""

from __future__ import annotations

from typing import Literal

from ..._runtime import Runtime
from ...session import Loop
from ...supervisor import ErrorCode, SupervisorError
from ._jobs import Jobs
from ._native import native_specs
from ._spec import ToolSpec

Profile = Literal["native"]

_PROFILES = {"native": native_specs}


def tool_specs(runtime: Runtime, loop: Loop | None = None, *, profile: Profile = "native") -> list[ToolSpec]:
    """The tools for one agent: its processes belong to `loop` (None: the runtime's main loop), and it sees no others.

    Profile native: Bash, ProcessOutput, ProcessStop, ProcessList.  Raises `SupervisorError` (invalid_settings) for a
    profile that is none.
    """
    if profile not in _PROFILES:
        raise SupervisorError(ErrorCode.INVALID_SETTINGS, f"profile must be one of {', '.join(_PROFILES)}")
    return _PROFILES[profile](Jobs(runtime, loop))
