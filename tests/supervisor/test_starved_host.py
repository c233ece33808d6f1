"""A host that has no descriptor left, at every step of a launch: resources, nothing left, and the next start works."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from supervising import OWNER, nothing_left, pids_without_spares, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import SpawnFailedError, Supervisor
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch import _zygote
from lastword.supervisor.shim import _messages

pytestmark = pytest.mark.usefixtures("each_contained_tier")

# Where the system can refuse: an object, and the name of its call.
_CALLS: dict[str, tuple[Any, str]] = {
    "socketpair": (socket, "socketpair"),
    "open": (os, "open"),
    "pidfd_open": (os, "pidfd_open"),
    "memfd_create": (os, "memfd_create"),
    "write": (os, "write"),
    "send": (_messages, "send"),
    "above stdio": (_zygote, "_above_stdio"),
    "Popen": (subprocess, "Popen"),
    "the reactor": (Reactor, "add"),
}


class Refusal:
    """Refuses the call of that number, and counts them all."""

    def __init__(self, act: Callable[..., Any], at: int, number: int) -> None:
        self._act = act
        self._at = at
        self._number = number
        self.calls = 0

    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """As the system's."""
        self.calls += 1
        if self.calls == self._at:
            raise OSError(self._number, os.strerror(self._number))
        return self._act(*arguments, **named)


async def _starts(supervisor: Supervisor) -> None:
    assert (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code == 4


@pytest.mark.parametrize("call", _CALLS)
async def test_each_call_of_a_launch_is_refused(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one that is made, the second, and so on until a start has made fewer than that."""
    async with supervising() as supervisor:
        await _starts(supervisor)
        at = 1
        while await _refuses(supervisor, call, at, monkeypatch):
            at += 1
    assert at > 1 or call in ("Popen", "above stdio", "pidfd_open"), "it was never called"


@pytest.mark.parametrize("call", _CALLS)
async def test_each_call_of_a_first_launch_is_refused(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, of one that brings the zygote."""
    at, refuses = 0, True
    while refuses:
        at += 1
        async with supervising() as supervisor:
            refuses = await _refuses(supervisor, call, at, monkeypatch)
            await _starts(supervisor)
    assert at > 1, "it was never called"


async def _refuses(supervisor: Supervisor, call: str, at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Start with the call of that number refused; False where there was none."""
    thing, name = _CALLS[call]
    with monkeypatch.context() as patch:
        refusal = Refusal(getattr(thing, name), at, errno.EMFILE)
        patch.setattr(thing, name, refusal)
        try:
            process = await supervisor.start("exit 4", owner=OWNER, stdin=b"x", env={"A": "x" * 100_000})
        except SpawnFailedError as error:
            failed = error
        else:
            patch.undo()
            assert (await process.wait()).exit_code == 4  # it could do without
            return refusal.calls >= at
    assert (failed.kind, failed.errno) == ("resources", errno.EMFILE)
    outcome = supervisor.get(failed.handle, OWNER).outcome
    assert outcome is not None
    assert outcome.state is ProcessState.FAILED
    return True


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS])
async def test_all_of_them_are_refused(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a limit that is reached; whatever came to be is gone at once, and not only at the end."""
    others = pids_without_spares()  # of other tests, that serve many
    async with supervising() as supervisor:
        await _starts(supervisor)
        await until(lambda: len(pids_without_spares() - others) == 1)
        for call in ("socketpair", "open", "memfd_create", "send"):
            thing, name = _CALLS[call]
            with nothing_left():
                with monkeypatch.context() as patch:

                    def refuse(*_: object, **__: object) -> None:
                        raise OSError(number, os.strerror(number))

                    patch.setattr(thing, name, refuse)
                    with pytest.raises(SpawnFailedError) as caught:
                        await supervisor.start("true", owner=OWNER, stdin=b"x", env={"A": "x" * 100_000})
                assert (caught.value.kind, caught.value.errno) == ("resources", number)
        await _starts(supervisor)
