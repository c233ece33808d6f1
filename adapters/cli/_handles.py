"""Which job a word on the command line means.

A handle, else a name, else the beginning of exactly one handle.  Of jobs with the same name the one that was started
last is meant: a name is what somebody calls "the server", and the last one is the one that they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ._errors import CommandFailedError
from ._job_info import JobInfo

JobT = TypeVar("JobT")


def find_job(word: str, jobs: Sequence[JobInfo]) -> JobInfo:
    """The job that `word` means, of `jobs` (oldest first).

    Raises `CommandFailedError`: there is none, or there are several.
    """
    for job in jobs:
        if job.handle == word:
            return job
    for job in reversed(jobs):
        if job.name == word and word:
            return job
    found = [job for job in jobs if word and job.handle.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandFailedError(f"{word!r} is the beginning of {len(found)} handles; give more of it")
    raise CommandFailedError(
        f"there is no job with the handle or name {word!r}; `lastword ps -a` shows all that are known"
    )
