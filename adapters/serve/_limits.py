"""What a directory keeps that is a person's: the same whoever opens it, or one opener would evict another's jobs."""

from __future__ import annotations

from ...supervisor import Limits

SERVE_LIMITS = Limits(
    running_per_loop=256,
    running_per_session=256,
    retained_completed=200,
    spool_bytes=16 * 1024 * 1024,
    aggregate_spool_bytes=4 * 1024 * 1024 * 1024,
)
"""For a person's jobs, which are all of one loop: many at once, and of each as much output as anybody scrolls back."""
