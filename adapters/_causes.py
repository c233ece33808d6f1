"""What is behind an error of a task group."""

from __future__ import annotations

from typing import cast


def root_of(error: BaseException) -> BaseException:
    """Of a task group's errors the first: what else is in it followed from that."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
