"""The host's line to a shim that is stopped, whose socket is full: what is said then is heard once it goes on."""

from __future__ import annotations

import socket

import anyio
import pytest
from shim_ground import is_stopped, pids_of, shim_of, stopped, zygote_of
from supervising import OWNER, output_of, supervising, until, wait_for_output

from lastword.supervisor import Process
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch._child import ContainedChild
from lastword.supervisor.launch._line import ShimLine
from lastword.supervisor.shim import _messages as messages

FILLER = ("of a newer host",)
"""A shim does not know it, and passes it over."""


def fill(channel: socket.socket) -> None:
    """Until it takes nothing more."""
    data = messages.encode(*FILLER)
    with pytest.raises(BlockingIOError):
        while True:
            messages.send(channel, data)


def channel_of(process: Process) -> socket.socket:
    """The host's end of the line to its shim."""
    child = process._job._child  # pyright: ignore[reportPrivateUsage]
    assert isinstance(child, ContainedChild)
    return child._line._channel  # pyright: ignore[reportPrivateUsage]


def heard(channel: socket.socket) -> list[tuple[object, ...]]:
    """What has come by now that was not there to fill it."""
    found: list[tuple[object, ...]] = []
    while True:
        try:
            message = messages.take(channel)
        except BlockingIOError:
            return found
        assert message is not None
        if message != FILLER:
            found.append(message)


@pytest.mark.usefixtures("each_contained_tier")
async def test_the_end_of_input_is_heard_by_a_shim_that_was_stopped() -> None:
    """It holds the other writing end: without it the process would read for ever."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; cat; echo end", owner=OWNER, stdin="pipe")
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        with stopped(zygote_of(shim)), stopped(shim):  # a zygote has its shims go on
            await until(lambda: is_stopped(shim))
            fill(channel_of(process))
            await process.send_input(b"all\n")
            await process.close_input()
        with anyio.fail_after(30):
            assert (await process.wait()).exit_code == 0
        assert (await output_of(process)).splitlines()[1:] == [b"all", b"end"]


@pytest.mark.usefixtures("each_contained_tier")
async def test_who_waits_for_output_is_woken_by_a_shim_that_was_stopped() -> None:
    """He is armed for once, and would not be told of anything before the end."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; read x; echo more; exec sleep 60", owner=OWNER, stdin="pipe")
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                with stopped(zygote_of(shim)), stopped(shim):  # a zygote has its shims go on
                    await until(lambda: is_stopped(shim))
                    fill(channel_of(process))
                    tasks.start_soon(wait_for_output, process, b"more\n")
                    await anyio.wait_all_tasks_blocked()
                await process.send_input(b"\n")
        await process.stop()


async def test_what_waits_is_bounded_in_order_and_asks_for_room_no_longer_than_it_waits() -> None:
    """Of each kind the newest, of stops the newest of each mode; and a socket with room is not told of for ever."""
    reactor = Reactor()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    told = anyio.Event()
    line = ShimLine(reactor, ours, told.set)
    events = reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    quiet = events[ours.fileno()].events
    try:
        fill(ours)
        line.send(messages.STOP, "interrupt", 0.0)
        for total in range(1000):
            line.send(messages.ARM, total)
            line.send(messages.END_INPUT)
        for mode, grace in (("terminate", 9.0), ("kill", 0.0), ("terminate", 1.0)):
            line.send(messages.STOP, mode, grace)
        assert events[ours.fileno()].events != quiet
        assert heard(theirs) == []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reactor.run)
            with anyio.fail_after(30):
                await told.wait()
            tasks.cancel_scope.cancel()
        assert heard(theirs) == [
            (messages.STOP, "interrupt", 0.0),
            (messages.ARM, 999),
            (messages.END_INPUT,),
            (messages.STOP, "kill", 0.0),
            (messages.STOP, "terminate", 1.0),
        ]
        assert events[ours.fileno()].events == quiet
        line.send(messages.SEAL)
        assert heard(theirs) == [(messages.SEAL,)]
    finally:
        line.close()
        theirs.close()
        reactor.close()


def test_nothing_waits_for_a_shim_that_is_dead() -> None:
    """Its end is told, and nobody asks for room."""
    reactor = Reactor()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line = ShimLine(reactor, ours, lambda: None)
    fill(ours)
    line.send(messages.END_INPUT)
    theirs.close()
    line.send(messages.ARM, 1)
    assert not line._unsent  # pyright: ignore[reportPrivateUsage]
    line.close()
    line.send(messages.ARM, 1)
    assert not line._unsent  # pyright: ignore[reportPrivateUsage]
    assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    reactor.close()
