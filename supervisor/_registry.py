"""Which processes are known.  Those that have ended stay readable: as many as are retained, by last use.

Evicting one removes its record and its output, and never what is still to be told of it.  One that keeps survivors, or
that could not be killed, is not evicted: its handle is the only way to reach what is left.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import final

import attrs

from ._job import Job
from ._process import Process
from ._works import Works

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class _Known:
    job: Job
    process: Process


@final
class Registry:
    """The processes of one supervisor."""

    def __init__(self, works: Works) -> None:
        self._works = works
        self._running: dict[str, _Known] = {}
        self._ended: OrderedDict[str, _Known] = OrderedDict()  # the least recently used first

    def add(self, job: Job) -> None:
        """Know a job that is starting, or one that had ended before this supervisor was opened."""
        known = _Known(job, Process(job, self.touch))
        if job.has_ended:
            self._ended[job.record.handle] = known
            self._retain()
        else:
            self._running[job.record.handle] = known

    def process_of(self, job: Job) -> Process:
        """The one public object of a known job."""
        handle = job.record.handle
        return (self._running.get(handle) or self._ended[handle]).process

    def find(self, handle: object) -> Process | None:
        """The process of that handle, if it is one.  Looking is not using: see `touch`."""
        if not isinstance(handle, str):
            return None
        known = self._running.get(handle) or self._ended.get(handle)
        return None if known is None else known.process

    def processes(self) -> list[Process]:
        """All that are known, oldest first (ids are ordered by time)."""
        known = [*self._running.values(), *self._ended.values()]
        return [each.process for each in sorted(known, key=lambda each: each.job.record.base_id)]

    def running(self) -> list[Job]:
        """Those whose last word is not durable yet."""
        return [known.job for known in self._running.values()]

    def holding(self) -> list[Job]:
        """Those that still have something alive: running, or ended and keeping survivors."""
        return self.running() + [known.job for known in self._ended.values() if known.job.holds_survivors]

    def all_jobs(self) -> list[Job]:
        """Every job."""
        return [known.job for known in (*self._running.values(), *self._ended.values())]

    def touch(self, handle: str) -> None:
        """It has been used."""
        if handle in self._ended:
            self._ended.move_to_end(handle)

    def note_ended(self, job: Job) -> None:
        """Its last word is durable."""
        handle = job.record.handle
        self._ended[handle] = self._running.pop(handle)
        self._retain()

    def make_room(self, output_bytes: int) -> bool:
        """Evict until so many bytes of kept output are gone; False, and nothing is evicted, where that cannot be."""
        chosen: list[Job] = []
        for known in self._ended.values():
            if output_bytes <= 0:
                break
            if known.job.reservation.output_bytes and known.job.released:
                chosen.append(known.job)
                output_bytes -= known.job.reservation.output_bytes
        if output_bytes > 0:
            return False
        for job in chosen:
            self._evict(job)
        return True

    def _retain(self) -> None:
        surplus = len(self._ended) - self._works.limits.retained_completed
        if surplus > 0:
            free = (known.job for known in self._ended.values() if known.job.released)
            for job in [job for job, _ in zip(free, range(surplus), strict=False)]:
                self._evict(job)

    def _evict(self, job: Job) -> None:
        del self._ended[job.record.handle]
        job.output.evict()
        try:
            job.output.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the output of an evicted process could not be removed (%s)", error.strerror)
        self._works.admission.shrink(job.reservation, 0)
        self._works.store.forget_process(job.record.handle)
