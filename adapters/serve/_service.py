"""What each request does with the runtime.  One method a request; connections call them, at the same time.

Rules
- Nothing is guessed: a word that may mean two processes is refused.
- What is begun for a client that vanishes is finished (a start, a stop, an acknowledgement); what only waits is not.
- A reply is a page that is far below a line, whatever there is.  One that may be long is not made before there is room
  for it at its client: what is returned then is how to make it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Literal, TypeAlias, assert_never, final
from uuid import UUID

import anyio
import attrs
from anyio.lowlevel import checkpoint

from ..._runtime import Runtime
from ...notifier import Clock, InvalidArgumentError, PendingDelivery
from ...notifier._first import first_of
from ...session import EventFilter, LoopScope, Watch
from ...supervisor import OutputChunk, Process, ResourceLimits, StopMode, SupervisorError, TerminalSize
from ...supervisor.output import awaits_rest
from . import _requests as requests
from ._attachments import Attachments
from ._bounds import MAX_CHUNK_BYTES, PAGE_ITEMS
from ._keys import key_bytes
from ._replies import (
    AcknowledgeReply,
    Done,
    EventsReply,
    Fault,
    FaultCode,
    ListReply,
    PendingReply,
    ProcessReply,
    ReadReply,
    Reply,
    StatusReply,
    StopReply,
    WaitReply,
)
from ._resolve import Candidate, NoSuchProcessError, resolve
from ._values import EventInfo
from ._views import candidate, show_chunk, show_event, show_pending, show_process

# A page of events ends here, though it has fewer than PAGE_ITEMS.
_PAGE_BYTES = 512 * 1024

# A character of UTF-8 has four.
_PEEKED_BYTES = 4

_MODES = {"interrupt": StopMode.INTERRUPT, "terminate": StopMode.TERMINATE, "kill": StopMode.KILL}

_EVERYTHING = EventFilter(enduring=LoopScope.all())


Answer: TypeAlias = Reply | Callable[[], Awaitable[Reply]]
"""A reply, or how to make it."""


class RefusedError(Exception):
    """A request cannot be done; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


@final
class Service:
    """One runtime, served."""

    def __init__(self, runtime: Runtime, *, clock: Clock, idle_seconds: float | None) -> None:
        self._runtime = runtime
        self._idle_seconds = idle_seconds
        self._started_at = clock.now()
        self.clock = clock
        self.attachments = Attachments()
        self.connections = 0

    @property
    def session_id(self) -> UUID:
        """Whose it is."""
        return self._runtime.session.session_id

    @property
    def busy(self) -> bool:
        """Whether something lives, or is on its way to the journal: what would be lost, or late, if the server ended.

        A notice that nobody has acknowledged is neither: it waits in the journal, for the next server as for this one.
        """
        return self._runtime.supervisor.holding > 0 or any(
            record.status == "waiting" for record in self._runtime.supervisor.pending()
        )

    async def answer(self, request: requests.Request, client: object) -> Answer:
        """Do what the client asks for.  Raises `RefusedError`, and whatever the runtime raises."""
        match request:
            case requests.Hello():
                raise RefusedError(Fault(code=FaultCode.INVALID_REQUEST, message="hello was said before", field="op"))
            case requests.Ping() | requests.Cancel():  # a cancel is the connection's own affair
                await checkpoint()
                return Done()
            case requests.Status():
                await checkpoint()
                return self._status()
            case requests.Start():
                return await self._start(request, client)
            case requests.List():
                return partial(self._list, request.after)
            case requests.Get():
                await checkpoint()
                return ProcessReply(process=show_process(self._find(request.process)))
            case requests.Read():
                return await _read(self._find(request.process), request)
            case requests.Wait():
                return await self._wait(request)
            case requests.Stop():
                process = self._find(request.process)
                outcome = await process.stop(_MODES[request.mode], grace=request.grace)
                return StopReply(process=show_process(process), running=outcome is None)
            case requests.Input():
                return await _input(self._find(request.process), request)
            case requests.Resize():
                await self._find(request.process).resize(request.rows, request.cols)
                return Done()
            case requests.Background():
                process = self._find(request.process)
                self.attachments.detach(process.handle)
                await process.background()
                return ProcessReply(process=show_process(process))
            case requests.Events():
                return await self._events(request)
            case requests.Pending():
                return partial(self._pending, request.skip)
            case requests.Acknowledge():
                return await self._acknowledge(request)
            case requests.Shutdown():
                await checkpoint()
                return self._shut_down(request)
            case _:
                assert_never(request)

    def _status(self) -> StatusReply:
        supervisor = self._runtime.supervisor
        return StatusReply(
            session_id=self.session_id,
            release=version("lastword"),
            started_at=self._started_at,
            idle_seconds=self._idle_seconds,
            connections=self.connections,
            running=supervisor.holding,
            undelivered=len(supervisor.pending()),
            containment=supervisor.containment.name.lower(),
        )

    # --- processes

    def _known(self) -> list[Process]:
        supervisor = self._runtime.supervisor
        found = [process for owner in supervisor.owners() for process in supervisor.list(owner)]
        return sorted(found, key=lambda process: process.command_id)

    def _find(self, word: str) -> Process:
        known = self._known()
        handle = resolve(word, map(candidate, known))
        owner = next(process.owner for process in known if process.handle == handle)
        return self._runtime.supervisor.get(handle, owner)

    async def _start(self, request: requests.Start, client: object) -> Reply:
        if request.stdin is not None and request.stdin_pipe:
            raise InvalidArgumentError("stdin_pipe", "and stdin exclude each other; leave one out")
        with _naming("pty"):
            size = None if request.pty is None else TerminalSize(rows=request.pty.rows, cols=request.pty.cols)
        with _naming("resources"):
            resources = (
                None if request.resources is None else ResourceLimits(**attrs.asdict(request.resources, recurse=False))
            )
        stdin: bytes | Literal["pipe"] | None = "pipe" if request.stdin_pipe else request.stdin
        # Whole, though the client is gone meanwhile: once it is spawned it runs, and who is attached must be known.
        with anyio.CancelScope(shield=True):
            process = await self._runtime.start(
                request.command if isinstance(request.command, str) else list(request.command),
                name=request.name,
                cwd=request.cwd,
                env=request.env,
                env_policy=request.env_policy,
                stdin=stdin,
                pty=False if size is None else size,
                timeout=request.timeout,
                background=request.background,
                survivors=request.survivors,
                split_streams=request.split_streams,
                output_limit=request.output_limit,
                on_output_limit=request.on_output_limit,
                resources=resources,
                origin_execution_id=request.origin_execution_id,
            )
            if request.attached:
                self.attachments.attach(process, client, {known.handle for known in self._known()})
            return ProcessReply(process=show_process(process))
        raise AssertionError("nobody cancels that scope")

    async def _list(self, after: UUID | None) -> ListReply:
        await checkpoint()
        # Ids are ordered by time, so a page begins at the right place though its first ones were evicted meanwhile.
        rest = [process for process in self._known() if after is None or process.command_id > after]
        page = tuple(map(show_process, rest[:PAGE_ITEMS]))
        return ListReply(processes=page, more=len(rest) > PAGE_ITEMS)

    async def _wait(self, request: requests.Wait) -> Answer:
        processes = [self._find(word) for word in request.processes]
        timeout = request.timeout
        if timeout is not None and timeout < 0:
            raise InvalidArgumentError("timeout", "must be a number of seconds, 0 or more")
        supervisor = self._runtime.supervisor
        waits: list[Callable[[], Awaitable[object]]] = [
            partial(supervisor.wait_any if request.any else supervisor.wait_all, processes)
        ]
        if timeout is not None:
            waits.append(partial(self.clock.sleep, timeout))
        await first_of(*waits)
        ended = [process.outcome is not None for process in processes]
        enough = not ended or (any(ended) if request.any else all(ended))

        async def show() -> WaitReply:
            await checkpoint()
            return WaitReply(processes=tuple(map(show_process, processes)), timed_out=not enough)

        return show

    def _shut_down(self, request: requests.Shutdown) -> Done:
        if self._runtime.supervisor.holding and not request.stop_running:
            raise RefusedError(
                Fault(code=FaultCode.BUSY, message="processes are running; stop them first, or say stop_running")
            )
        return Done()

    # --- what is told

    async def _events(self, request: requests.Events) -> Answer:
        if request.wait:
            watch = self._runtime.session.watch(_EVERYTHING, request.after)
            try:
                await _first(watch)
            finally:
                with anyio.CancelScope(shield=True):
                    await watch.aclose()
        return partial(self._page_of_events, request.after)

    async def _page_of_events(self, after: int) -> EventsReply:
        events: list[EventInfo] = []
        size = 0
        async for delivery in self._runtime.session.replay(after):
            event, length = show_event(delivery)
            events.append(event)
            size += length
            if len(events) == PAGE_ITEMS or size >= _PAGE_BYTES:
                return EventsReply(events=tuple(events), after=event.seq, more=True)
        return EventsReply(events=tuple(events), after=events[-1].seq if events else after, more=False)

    async def _pending(self, skip: int) -> PendingReply:
        page = (await self._runtime.pending())[max(skip, 0) :]
        return PendingReply(pending=tuple(map(show_pending, page[:PAGE_ITEMS])), more=len(page) > PAGE_ITEMS)

    async def _acknowledge(self, request: requests.Acknowledge) -> AcknowledgeReply:
        # Whole, though the client is gone meanwhile.
        with anyio.CancelScope(shield=True):
            waiting = [record for record in await self._runtime.pending() if record.status == "unacknowledged"]
            if not request.all:
                wanted = {self._meant(word, waiting) for word in request.processes}
                waiting = [record for record in waiting if record.process_handle in wanted]
            for record in waiting:
                await self._runtime.session.acknowledge(record.record_id)
            handles = tuple(record.process_handle for record in waiting[:PAGE_ITEMS])
            return AcknowledgeReply(acknowledged=len(waiting), handles=handles)
        raise AssertionError("nobody cancels that scope")

    def _meant(self, word: str, pending: Sequence[PendingDelivery]) -> str:
        """A process that was evicted can still have a notice: its handle is known by that."""
        try:
            return resolve(word, map(candidate, self._known()))
        except NoSuchProcessError:
            return resolve(word, [Candidate(record.process_handle, "", False) for record in pending])


async def _read(process: Process, request: requests.Read) -> Answer:
    if not 1 <= request.max_bytes <= MAX_CHUNK_BYTES:
        raise InvalidArgumentError("max_bytes", f"must be from 1 to {MAX_CHUNK_BYTES}")

    async def read() -> ReadReply:
        return ReadReply(chunk=show_chunk(await _chunk(process, request, request.max_bytes)))

    while request.wait:
        # Enough to see that there is some; it is read when it can be sent.
        chunk = await _chunk(process, request, min(request.max_bytes, _PEEKED_BYTES))
        if chunk.ended or chunk.gap or (chunk.data and not awaits_rest(chunk)):
            break
        if chunk.next_cursor < chunk.total:
            break  # nothing of one stream of two up to there; what is behind it, or is missing, the next read tells
        await process.wait_output(chunk.total)
    return read


async def _chunk(process: Process, request: requests.Read, size: int) -> OutputChunk:
    return await process.read_output(request.cursor, size, streams=request.streams)


async def _input(process: Process, request: requests.Input) -> Done:
    if len(request.data) > MAX_CHUNK_BYTES:
        raise InvalidArgumentError("data", f"must be at most {MAX_CHUNK_BYTES} bytes at once")
    data = request.data if request.key is None else request.data + key_bytes(request.key)
    if data:
        await process.send_input(data)
    if request.eof:
        await process.close_input()
    await checkpoint()
    return Done()


async def _first(watch: Watch) -> None:
    """Wait until it has something."""
    try:
        await anext(watch)
    except StopAsyncIteration:
        raise RefusedError(
            Fault(code=FaultCode.SHUTTING_DOWN, message="the server is ending; start it again")
        ) from None


@contextmanager
def _naming(field: str) -> Generator[None]:
    """What the core refuses in the block is wrong with that field."""
    try:
        yield
    except SupervisorError as error:
        raise RefusedError(
            Fault(code=FaultCode.INVALID_REQUEST, message=f"{field}: {error.message}", field=field)
        ) from None
