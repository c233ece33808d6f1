"""Telling a client that listens: this process has ended, this list has changed.  A hint to look, and no more.

Rules
- Both generations of the protocol: until 2025-11-25 a client subscribes to resources, since 2026-07-28 it keeps a
  `subscriptions/listen` open.  One connection speaks one of them.
- What has ended and is not acknowledged is told at once to whoever begins to listen: between a job's end and the
  subscription nothing is missed.
- Nothing waits for a client that does not read: hints of the same thing become one.
- A hint may be lost with the connection, so nothing rests on it; the notices on the tool results are what counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..._runtime import Runtime
from ._uris import output_uri, own_process, process_uri

Context = ServerRequestContext[Any, Any]


@final
class Hints:
    """Who listens, and what it has not been told yet."""

    def __init__(self, runtime: Runtime, unsettled: Callable[[], list[str]]) -> None:
        self._runtime = runtime
        self._unsettled = unsettled
        self._bus = _Bus(lambda: [event for handle in unsettled() for event in _end_of(handle)])
        self._subscribed: set[str] = set()
        self._has_list = False
        self._session: ServerSession | None = None  # of a client of the older protocol that listens to anything
        self._due: dict[ServerEvent, None] = {}
        self._wake = anyio.Event()
        self.listen: ListenHandler = ListenHandler(self._bus)

    def ended(self, handle: str) -> None:
        """A process has its last word in the journal."""
        for event in _end_of(handle):
            self._add(event)

    def listed(self) -> None:
        """There is a process more."""
        self._add(ResourcesListChanged())

    def has_list(self, context: Context) -> None:
        """A client of the older protocol that was given the list wants to know when it changes."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._session = context.session
            self._has_list = True

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """`resources/subscribe` of the older protocol.  Raises `MCPError` for what is none of the client's."""
        process, _ = own_process(self._runtime, params.uri)
        self._session = context.session
        self._subscribed.add(params.uri)
        if process.handle in self._unsettled():
            self.ended(process.handle)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """`resources/unsubscribe` of the older protocol."""
        del context
        self._subscribed.discard(params.uri)
        return EmptyResult()

    async def run(self) -> None:
        """Tell what is due, for ever."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._due:
                event = next(iter(self._due))
                del self._due[event]
                await self._tell(event)

    def _add(self, event: ServerEvent) -> None:
        self._due[event] = None
        self._wake.set()

    async def _tell(self, event: ServerEvent) -> None:
        await self._bus.publish(event)
        if self._session is None:
            return
        if isinstance(event, ResourceUpdated):
            if event.uri in self._subscribed:
                self._subscribed.discard(event.uri)  # a process ends once
                await self._session.send_resource_updated(event.uri)
        elif self._has_list:
            await self._session.send_resource_list_changed()


def _end_of(handle: str) -> list[ServerEvent]:
    return [ResourceUpdated(uri=process_uri(handle)), ResourceUpdated(uri=output_uri(handle))]


@final
class _Bus:
    """The SDK's own, but who begins to listen is first told what it may have missed."""

    def __init__(self, missed: Callable[[], list[ServerEvent]]) -> None:
        self._missed = missed
        self._inner = InMemorySubscriptionBus()

    async def publish(self, event: ServerEvent) -> None:
        await self._inner.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        for event in self._missed():
            listener(event)
        return self._inner.subscribe(listener)
