"""Figures as rows of a table: how many, p50, p99, a ratio, a bar, and whether it was met.

A bar judges a row's median alone: p99 on a machine that others use says more of them than of us.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence


class Bar:
    """What the issue asks of a row: at most, or at least, so much."""

    def __init__(self, limit: float, *, least: bool = False) -> None:
        self.limit = limit
        self.least = least

    def met(self, value: float) -> bool:
        """Whether `value` is good enough."""
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.least else '<='} {self.limit:g}"


class Table:
    """Prints rows as they come, and remembers which bars were missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self._title = ""

    def title(self, text: str, unit: str) -> None:
        """Begin a table; the load beside it, since it says how far the absolute figures can be believed."""
        load = os.getloadavg()[0]
        self._title = text
        print(f"\n{text}   [load {load:.1f} on {os.cpu_count()} cores]")
        print(f"  {'':<36}{'n':>5}{'p50':>10}{'p99':>10}  {unit:<8}  bar")

    def row(self, name: str, figures: Sequence[float], bar: Bar | None = None, *, note: str = "") -> float:
        """Print the figures' median and p99, judge the median; the median."""
        ordered = sorted(figures)
        middle = statistics.median(ordered)
        # The worst hundredth: of a throughput that is the low end.
        late = ordered[::-1] if bar is not None and bar.least else ordered
        tail = f"{late[min(len(late) - 1, len(late) * 99 // 100)]:>10.2f}" if len(ordered) > 1 else " " * 10
        verdict = ""
        if bar is not None:
            verdict = f"{bar!s:<8} {'PASS' if bar.met(middle) else 'MISS'}"
            if not bar.met(middle):
                self.missed.append(f"{self._title}: {name} ({middle:.2f}, bar {bar})")
        print(f"  {name:<36}{len(ordered):>5}{middle:>10.2f}{tail}  {note:<8}  {verdict}".rstrip(), flush=True)
        return middle

    def ratio(self, name: str, over: Sequence[float], under: Sequence[float], bar: Bar | None = None) -> float:
        """A row of the ratios of figures that were taken in the same round."""
        return self.row(name, [a / b for a, b in zip(over, under, strict=True)], bar, note="x")

    def finish(self) -> None:
        """Leave the program: with 1 where a median has missed its bar."""
        for name in self.missed:
            print(f"MISSED: {name}")
        sys.exit(1 if self.missed else 0)
