"""Values as people read them.  Pure."""

from __future__ import annotations

from datetime import datetime

from ._job_info import JobInfo

# Enough to tell a few hundred handles apart: 6 bits each.
SHORT_HANDLE = 8


def age(seconds: float) -> str:
    """`12s`, `3m05s`, `2h10m`, `4d03h`: at most two units."""
    whole = max(0, int(seconds))
    for unit, size, below, rest in (("d", 86400, 3600, "h"), ("h", 3600, 60, "m"), ("m", 60, 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // below:02}{rest}"
    return f"{whole}s"


def size(count: int) -> str:
    """`512 B`, `1.5 KiB`, `20 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def lasted(job: JobInfo, now: datetime) -> str:
    """How long it ran, or has been running."""
    if job.started_at is None:
        return ""
    return age(((job.finished_at or now) - job.started_at).total_seconds())


def clock_time(moment: datetime) -> str:
    """The local time, to the millisecond."""
    return moment.astimezone().strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03}"
