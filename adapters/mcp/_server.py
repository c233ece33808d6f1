"""The server of one client: tools, resources and hints, bound to one runtime.

Failure at each step
- A request is cancelled, or the client's connection ends: its process goes on; at the connection's end the runtime is
  left, which stops every process and journals their last words.
- The journal fails: what was not acknowledged is told again; what has ended is told when it is back.
- The session is taken by somebody else (`JournalFencedError`): nothing can be promised any more, and the server ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.lowlevel import NotificationOptions, Server

from ..._runtime import Runtime
from ...notifier import JournalUnavailableError, LastwordError, ProcessBackgrounded, ProcessStarted
from ...session import EventFilter, LoopScope, SubscriptionLostError
from .._desk import Desk
from ._arrivals import Arrivals
from ._explained import Explaining
from ._opening import Replayed
from ._push import Hints
from ._resources import ProcessResources
from ._tools import CURSOR, Tools
from ._transport import Outgoing

# What an earlier life has left is told by the first result already, if it can be read in this time.
_CATCH_UP_SECONDS = 2.0

INSTRUCTIONS = f"""\
Background shell jobs whose end is never lost. Bash runs a command; one that takes longer than its yield_time_ms goes on
in the background under its process_id, and you can do other things meanwhile.
When a process has ended, the results of your calls carry it under "notices", with a "{CURSOR}", until you have
confirmed it: give that {CURSOR} to your next call, whichever tool it is."""


async def serve(runtime: Runtime, incoming: Replayed, outgoing: Outgoing) -> None:
    """Serve one client with the runtime's main loop, until it leaves.

    Raises `JournalFencedError`: whoever waits for an answer is told of it.  Cancelled: whoever waits is told that the
    connection is closed.
    """
    desk = Desk(runtime, runtime.loop)
    arrivals = Arrivals(runtime, desk)
    hints = Hints(runtime, lambda: [notice.notification.process_handle for notice in desk.held])
    failure: LastwordError | None = None

    async def watch(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
        # Kept, not raised: a task group would wrap it, and whoever loses the session loses it in both at once.
        nonlocal failure
        try:
            await work()
        except LastwordError as error:
            failure = failure or error
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope, partial(arrivals.run, hints.ended))
        tasks.start_soon(watch, tasks.cancel_scope, partial(_watch_starts, runtime, hints))
        tasks.start_soon(hints.run)
        await _catch_up(runtime, arrivals)
        server = build_server(runtime, Tools(runtime, desk, arrivals), hints)
        options = server.create_initialization_options(NotificationOptions(resources_changed=True))
        await server.run(incoming, Explaining(outgoing, lambda: failure), options)
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def build_server(runtime: Runtime, tools: Tools, hints: Hints) -> Server[Any]:
    """The SDK's server with everything of ours registered."""
    resources = ProcessResources(runtime, tools.specs["ProcessOutput"], hints)
    return Server(
        "lastword",
        version=version("lastword"),
        title="lastword",
        instructions=INSTRUCTIONS,
        on_list_tools=tools.list_all,
        on_call_tool=tools.call,
        on_list_resources=resources.list_all,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscribe_resource=hints.subscribe,
        on_unsubscribe_resource=hints.unsubscribe,
        on_subscriptions_listen=hints.listen,
    )


async def _catch_up(runtime: Runtime, arrivals: Arrivals) -> None:
    # What cannot be read now is told by a later result.
    with anyio.move_on_after(_CATCH_UP_SECONDS), suppress(JournalUnavailableError):
        await runtime.supervisor.outbox.wait_empty()
        waiting = dict(await runtime.session.loops()).get(runtime.loop.loop_id, 0)
        await arrivals.wait_held(min(waiting, runtime.loop.capacity))


async def _watch_starts(runtime: Runtime, hints: Hints) -> None:
    """Tell that there is a process more, for ever; what was missed is one hint, too."""
    mine = EventFilter(enduring=LoopScope.of(runtime.loop.loop_id))
    while True:
        async with runtime.session.subscribe(mine) as events:
            try:
                async for delivery in events:
                    if isinstance(delivery.event, ProcessStarted | ProcessBackgrounded):
                        hints.listed()
            except SubscriptionLostError:
                hints.listed()
