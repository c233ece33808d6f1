"""One message taken by who expects no descriptors: what comes with it, and every way in which the other side ends."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Generator

import pytest

from lastword.supervisor.shim import _messages as messages

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Generator[Pair]:
    """Two ends, as of a host and a shim."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- a count


def test_a_message_and_none_now(pair: Pair) -> None:
    ours, theirs = pair
    with pytest.raises(BlockingIOError):
        messages.take(ours)
    messages.send(theirs, messages.encode(messages.GREW, 7, None))
    assert messages.take(ours) == (messages.GREW, 7, None)
    with pytest.raises(BlockingIOError):
        messages.take(ours)


def test_descriptors_that_nobody_asked_for_are_closed(pair: Pair) -> None:
    ours, theirs = pair
    messages.send(theirs, messages.encode(messages.EMPTIED), [0, 1, 2])
    before = _descriptors()
    assert messages.take(ours) == (messages.EMPTIED,)
    assert _descriptors() == before


def test_the_end_after_the_last_message(pair: Pair) -> None:
    ours, theirs = pair
    messages.send(theirs, messages.encode(messages.EMPTIED))
    theirs.close()
    assert messages.take(ours) == (messages.EMPTIED,)
    assert messages.take(ours) is None
    assert messages.take(ours) is None


def test_an_end_that_has_not_read_all(pair: Pair) -> None:
    """That is told first, and hides nothing."""
    ours, theirs = pair
    messages.send(ours, messages.encode(messages.SEAL))
    messages.send(theirs, messages.encode(messages.EMPTIED))
    theirs.close()
    assert messages.take(ours) == (messages.EMPTIED,)
    assert messages.take(ours) is None


def test_what_cannot_be_taken_is_the_end(pair: Pair) -> None:
    """No descriptor is left for those that come with a message: there is no knowing what it was."""
    ours, theirs = pair
    messages.send(theirs, messages.encode(messages.EMPTIED), [0, 1, 2])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        assert messages.take(ours) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
