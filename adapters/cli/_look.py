"""What the files of a state directory say, without a trace, whoever holds it; see `view_directory`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import CommandFailedError
from ._handles import find_job
from ._job_info import JobInfo

if TYPE_CHECKING:
    from ...supervisor import DirectoryView, ProcessView

# What a directory holds that is being made in this moment, until it has its session; see the supervisor's `_directory`.
_BEFORE = frozenset({"lock", "session.new"})


def look(state: Path) -> DirectoryView | None:
    """The directory as it is now; None where there is none, which is a place where nothing has ever run."""
    from ...supervisor import view_directory

    try:
        holds = {each.name for each in state.iterdir()} if state.exists() else set[str]()
    except OSError as error:
        raise CommandFailedError(
            f"the state directory cannot be looked into ({error.strerror}); give another one with --state"
        ) from None
    if "session.id" not in holds:
        if holds - _BEFORE:
            raise CommandFailedError(
                "the folder is no state directory: it holds other files; give another one with --state"
            )
        return None
    return view_directory(state)


def jobs_of(view: DirectoryView | None) -> list[JobInfo]:
    """All jobs, oldest first."""
    if view is None:
        return []
    return [JobInfo.of_view(process, held=view.held) for process in view.processes]


def find_jobs(words: Sequence[str], view: DirectoryView | None) -> list[JobInfo]:
    """The jobs that the words mean, each once.  Raises `NoSuchProcessError`, `AmbiguousProcessError`."""
    jobs = jobs_of(view)
    return list({job.handle: job for job in (find_job(word, jobs) for word in words)}.values())


def find_view(word: str, view: DirectoryView | None) -> tuple[JobInfo, ProcessView]:
    """The job that `word` means, and its process.  Raises as `find_jobs`."""
    jobs = jobs_of(view)
    found = find_job(word, jobs)
    assert view is not None  # noqa: S101 -- it has a job
    return found, view.processes[jobs.index(found)]
