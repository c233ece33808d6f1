"""Opening a session, and closing it: what is asked for is judged first, and what was opened is always closed."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from ..notifier import Clock, InvalidArgumentError, SystemClock, new_uuid7
from ._arguments import check_id, check_type
from ._core import Core, SessionObserver
from ._session import Session
from .journal import Journal, MemoryJournal

_CLOCK = ("now", "monotonic", "sleep")

# By identity: a second session on one journal object would not be fenced, but share its epoch, and its connection.
_in_use: dict[int, object] = {}


@asynccontextmanager
async def open_session(
    journal: Journal,
    *,
    session_id: UUID | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    new_id: Callable[[], UUID] = new_uuid7,
    observer: SessionObserver | None = None,
    inline: bool | None = None,
) -> AsyncGenerator[Session]:
    """Open the session in `journal`, and close both when the block ends.

    `session_id` None: the session that the journal holds, or a new one (`new_id`) for a journal that holds none.  What
    was not acknowledged is pending again.  An earlier opener that is still alive is fenced: it cannot write any more.

    `inline`: whether the journal works in the event loop's own thread (for memory, the default there, and for virtual
    time) or in one of its own (the default for everything else).  Leaving the block finishes what is in flight, also
    when cancelled.  Raises `InvalidArgumentError` (also for a journal object that another session has open: make one
    of its own on the same path), `JournalUnavailableError`, `JournalCorruptError`, `JournalTooNewError` and
    `JournalSessionError`; whatever the block raises leaves as it is.
    """
    _check(journal, session_id, clock, rng, new_id, observer, inline)
    with _taken(journal):
        core = Core(
            journal,
            clock=SystemClock() if clock is None else clock,
            rng=random.Random() if rng is None else rng,  # noqa: S311 -- spreads retries, guards nothing
            observer=SessionObserver() if observer is None else observer,
            inline=isinstance(journal, MemoryJournal) if inline is None else inline,
        )
        try:
            await core.start(session_id, new_id)
            yield Session(core)
        finally:
            await core.stop()


@contextmanager
def _taken(journal: Journal) -> Generator[None]:
    """Have the journal object for one session; raise where another has it."""
    if _in_use.setdefault(id(journal), here := object()) is not here:
        raise InvalidArgumentError("journal", "is open in another session; make one of its own on the same path")
    try:
        yield
    finally:
        del _in_use[id(journal)]


def _check(
    journal: object, session_id: object, clock: object, rng: object, new_id: object, observer: object, inline: object
) -> None:
    # A class has every method of its instances, and can do nothing with them.
    if isinstance(journal, type) or not isinstance(journal, Journal):
        kind = journal.__name__ if isinstance(journal, type) else type(journal).__name__
        raise InvalidArgumentError("journal", f"must be a Journal such as SqliteJournal(path), not {kind}")
    if session_id is not None:
        check_id("session_id", session_id)
    if clock is not None and not all(callable(getattr(clock, name, None)) for name in _CLOCK):
        raise InvalidArgumentError("clock", f"must be a Clock, with {', '.join(_CLOCK)}")
    if not callable(new_id):
        raise InvalidArgumentError("new_id", "must be a function that returns a new UUID")
    for field, value, expected in (
        ("rng", rng, random.Random),
        ("observer", observer, SessionObserver),
        ("inline", inline, bool),
    ):
        if value is not None:
            check_type(field, value, expected)
