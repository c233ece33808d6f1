"""What a shell offers for a job: names and handles of the directory.  It only looks, and never fails."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from ._state import state_of


def complete_job(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Those that begin so; what each is, beside it."""
    from ._look import jobs_of, look

    try:
        jobs = jobs_of(look(state_of(ctx)))
    except Exception:  # a shell that completes shows no errors
        return []
    # Of those of the same name the last one stands for all.
    offered = {word: job for job in jobs for word in (job.handle, job.name) if word and word.startswith(incomplete)}
    return [
        CompletionItem(word, help=f"{job.name or job.program}, {job.how}") for word, job in reversed(offered.items())
    ]
