"""What a job's first steps are told (`shim._exec.Spec`), from what a launcher was given."""

from __future__ import annotations

import os
from typing import Final

from ..shim._exec import Spec
from ..shim._proc import umask_of_self
from ._launcher import LaunchSpec

_RESOURCES: Final = {
    "open_files": "RLIMIT_NOFILE",
    "cpu_seconds": "RLIMIT_CPU",
    "address_space": "RLIMIT_AS",
    "core": "RLIMIT_CORE",
}


def job_spec(spec: LaunchSpec, cgroup: str | None, *, durable: bool, inherits: bool = False) -> Spec:
    """`cgroup` is the path of the job's own, if it is to have one; `durable`: the folder outlives the host.

    `inherits`: whoever takes the steps has this process's umask.  Else that is looked up, and OSError raised where the
    system does not tell it.
    """
    given = spec.resources
    return Spec(
        argv=tuple(map(os.fsencode, spec.argv)),
        env=tuple((os.fsencode(name), os.fsencode(value)) for name, value in spec.env.items()),
        cwd=None if spec.cwd is None else os.fsencode(spec.cwd),
        umask=umask_of_self() if given.umask is None and not inherits else given.umask,
        limits=tuple(
            (limit, value) for name, limit in _RESOURCES.items() if (value := getattr(given, name)) is not None
        ),
        nice=given.nice,
        keep=spec.survivors == "keep",
        output_path=str(spec.output_path),
        output_limit=spec.output_limit,
        rotate=spec.rotate,
        cgroup=cgroup,
        durable=durable,
        split=spec.split_streams,
        terminal=spec.terminal,
    )
