"""Which signals a program of ours hears, and what signals are called.

What whoever started it has it ignore stays ignored: with `nohup`, or in the background of a shell, it goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable


def heard(numbers: Iterable[int]) -> list[signal.Signals]:
    """Those of `numbers` that this program was not started to ignore."""
    return [signal.Signals(number) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def signal_name(number: int) -> str:
    """`SIGTERM`; `signal 40` for one that has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
