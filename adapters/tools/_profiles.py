"""The same jobs under the names that a model may know them by."""

from __future__ import annotations

from ..._runtime import Runtime
from ...session import Loop
from ...supervisor import ErrorCode, SupervisorError
from ._claude import claude_specs
from ._codex import codex_specs
from ._jobs import Jobs
from ._naming import Profile
from ._native import native_specs
from ._notices import Notices
from ._spec import ToolSpec

_PROFILES = {"native": native_specs, "claude": claude_specs, "codex": codex_specs}


def tool_specs(
    runtime: Runtime, loop: Loop | None = None, *, profile: Profile = "native", notices: Notices | None = None
) -> list[ToolSpec]:
    """The tools for one agent: its processes belong to `loop` (None: the runtime's main loop), and it sees no others.

    Profiles: native (Bash, ProcessOutput, ProcessInput, ProcessStop, ProcessList), and the names and shapes that other
    models know: claude (Bash, BashOutput, KillShell, TaskStop) and codex (exec_command, write_stdin).

    `notices` is told what results have told, so that it does not tell that again.  Without it every process's end stays
    a notice of the loop, also where a result has told it: no tool ever acknowledges one.

    Raises `SupervisorError` (invalid_settings) for a profile that is none, and for notices of another loop or profile.
    """
    if profile not in _PROFILES:
        raise SupervisorError(ErrorCode.INVALID_SETTINGS, f"profile must be one of {', '.join(_PROFILES)}")
    if notices is not None:
        notices.refuse_others(runtime.loop if loop is None else loop, profile)
    return _PROFILES[profile](Jobs(runtime, loop, notices))
