"""Which job a word on the command line means: by the same rule as the server's."""

from __future__ import annotations

from collections.abc import Sequence

from ._job_info import JobInfo


def find_job(word: str, jobs: Sequence[JobInfo]) -> JobInfo:
    """The job whose handle, name or beginning of a handle `word` is; see `serve.resolve`.

    Raises `NoSuchProcessError`, `AmbiguousProcessError`.
    """
    from ..serve import Candidate, resolve

    handle = resolve(word, [Candidate(job.handle, job.name, not job.has_ended) for job in jobs])
    return next(job for job in jobs if job.handle == handle)
