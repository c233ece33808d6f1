"""Why this machine, or this process on it, cannot hold jobs by a certain tier."""

from __future__ import annotations

from enum import StrEnum
from typing import final

import attrs


class LackCode(StrEnum):
    """The closed set of what can be missing for a tier."""

    NOT_LINUX = "not_linux"
    NO_PIDFD = "no_pidfd"
    NO_SUBREAPER = "no_subreaper"
    NO_PROC = "no_proc"
    NO_INTERPRETER = "no_interpreter"
    NO_CGROUP2 = "no_cgroup2"
    NO_CGROUP_KILL = "no_cgroup_kill"
    CGROUP_NOT_VISIBLE = "cgroup_not_visible"
    CGROUP_NOT_DELEGATED = "cgroup_not_delegated"
    CGROUP_MANAGED = "cgroup_managed"
    CGROUP_READ_ONLY = "cgroup_read_only"
    CGROUP_THREADED = "cgroup_threaded"
    CGROUP_LIMIT = "cgroup_limit"
    CGROUP_REFUSED = "cgroup_refused"


@final
@attrs.frozen
class Lack:
    """What is missing: a code for programs, and a sentence for people with what can be done."""

    code: LackCode
    why: str
