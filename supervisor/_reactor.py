"""Every descriptor that a supervisor waits for: one kernel queue, one task.

The queue's own descriptor is readable when any of its members is (true of epoll and of kqueue), so one
`anyio.wait_readable` serves all jobs on both backends: no task, thread or event-loop registration for each.

A callback that raises is logged and its descriptor is not asked again (it would be readable for ever): one job's fault
must not end the task that all are served by.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
from collections.abc import Callable

import anyio

logger = logging.getLogger(__name__)


class Reactor:
    """Calls back when descriptors are ready; the callbacks run in `run()`'s task and must not wait."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, descriptor: int, callback: Callable[[], None], *, writable: bool = False) -> None:
        """Call `callback` whenever `descriptor` is readable (or `writable`; level-triggered), until it is removed.

        Raises OSError where the system can watch no more.
        """
        self._selector.register(descriptor, selectors.EVENT_WRITE if writable else selectors.EVENT_READ, callback)

    def ask_for_room(self, descriptor: int, *, wanted: bool) -> None:
        """Have one that was added to be read called back when it is writable, too, or no more.  Raises OSError."""
        key = self._selector.get_map().get(descriptor)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if key is not None and key.events != events:
            self._selector.modify(descriptor, events, key.data)

    def remove(self, descriptor: int) -> None:
        """Forget `descriptor`; must come before it is closed.  Idempotent."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await anyio.wait_readable(self._selector)
            members = self._selector.get_map()
            for key, _ in self._selector.select(0):
                # One callback may remove another's descriptor, and its number may already name a new file.
                if members.get(key.fd) is key:
                    self._call(key)

    def _call(self, key: selectors.SelectorKey) -> None:
        try:
            key.data()
        except Exception:
            logger.exception("what a process's descriptor told could not be taken in; it is not asked again")
            self.remove(key.fd)

    def close(self) -> None:
        """Let go of the queue."""
        self._selector.close()
