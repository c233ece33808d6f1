"""What a keeper works with and whom it tells: types alone, which nothing imports when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ._facts import Facts


class Timer(Protocol):
    """One call that is due."""

    def cancel(self) -> None:
        """Do not call."""
        ...


class Timers(Protocol):
    """Calls that are due."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def call_after(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` in so many seconds."""
        ...


class Descriptors(Protocol):
    """Calls when a descriptor is readable."""

    def add(self, descriptor: int, callback: Callable[[], None], /) -> None:
        """Call `callback` whenever it is."""
        ...

    def remove(self, descriptor: int, /) -> None:
        """Call no more."""
        ...


class Tree(Protocol):
    """A leader and whoever else belongs to the job."""

    @property
    def proves(self) -> bool:
        """Whether `left() == 0` is a proof."""
        ...

    @property
    def look_again_seconds(self) -> float:
        """How often `left` is to be asked while something is being ended."""
        ...

    @property
    def refused(self) -> int | None:
        """The errno of a signal that somebody other than the leader could not be sent."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the leader has ended, as far as was looked."""
        ...

    @property
    def status(self) -> int | None:
        """The leader's wait status; None while it lives, and where somebody else has taken it."""
        ...

    def reap(self) -> None:
        """Look who has ended."""
        ...

    def left(self) -> int:
        """How many live processes there are beside the leader."""
        ...

    def may_answer(self, number: int, /) -> bool:
        """Whether the leader could live through `number`."""
        ...

    def interrupt(self) -> None:
        """SIGINT as by Ctrl-C.  Raises OSError."""
        ...

    def signal(self, number: int, /) -> None:
        """`number` to all.  Raises OSError where the leader lives and may not be signalled."""
        ...

    def forget_refusals(self) -> None:
        """A new order begins."""
        ...


class Listener(Protocol):
    """Who is told."""

    def grew(self, total: int, /) -> None:
        """There is output up to `total`."""
        ...

    def ended(self, facts: Facts, /) -> None:
        """The leader is dead, the output sealed, the tree ended as far as could be; told once."""
        ...

    def stuck(self, errno: int | None, /) -> None:
        """An order did not end the tree by the kill deadline."""
        ...

    def emptied(self) -> None:
        """After `ended` or a seal: nothing is left, nothing is held."""
        ...
