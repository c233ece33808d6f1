"""Ctrl-C on trio: it must not be raised in the middle of our own work.

trio raises KeyboardInterrupt wherever the main thread happens to be, unless the running frame belongs to a function
that is marked as protected; then it is raised in the main task, at its next checkpoint.  A process between its spawn
and its record, or a closing that is half done, must not be where it happens to be.  (asyncio cancels the main task
instead, so there is nothing to do.)

The core imports no backend, so functions are marked here, and trio is told of them when we run on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_marked: list[Callable[..., Any]] = []


def uninterrupted(function: FunctionT) -> FunctionT:
    """Mark a function: after `protect`, no KeyboardInterrupt is raised while it runs, or what it calls."""
    _marked.append(function)
    return function


def protect() -> None:
    """Tell trio, if it has been imported, of every marked function.  Cheap, and harmless to repeat."""
    trio = sys.modules.get("trio")
    if trio is not None:
        for function in _marked:
            trio.lowlevel.enable_ki_protection(function)
