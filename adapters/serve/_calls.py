"""Requests over one connection, and their answers: what is below the client's methods.

Theory of operation
- One task receives; each call sends its line and waits for the answer of its id.  Calls may be made at the same time.
- Every reply is one bounded line, and whoever reads output or events asks for the next piece when it wants it: so a
  slow reader holds up nobody but itself, and nothing piles up on either side.
- A call that is cancelled tells the server; what it had begun there (a start, a stop) goes on.
- Who is in the middle of sending a line is not cancelled, but has patience for some seconds only: after half a line
  nothing could follow.
- Many an answer may take for ever, as that to a wait, so no call has a deadline of its own.  But while one waits, the
  server is asked now and then whether it is there (`ping`): one that is stopped or stuck is left, and not waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar, cast, final
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ._address import connect_socket
from ._bounds import MAX_IN_FLIGHT, VERSION
from ._errors import ConnectionLostError, NotServedError, RequestError, SilentServerError
from ._lines import Lines, LineTooLongError
from ._replies import Fault, Reply, Welcome
from ._requests import Cancel, Hello, Ping, Request
from ._stream import SocketStream
from ._wire import Answer, WireError, decode_answer, encode_request

ReplyT = TypeVar("ReplyT", bound=Reply)
ClientT = TypeVar("ClientT")

# A server answers a hello or a ping, and takes a line, at once, or it is stuck.
_PATIENCE_SECONDS = 10.0

# A quarter is left for requests that were given up here and are still being finished there.
_AT_ONCE = MAX_IN_FLIGHT * 3 // 4

_CLOSED = "the server has closed it"
_SILENT = "the server does not answer"
_DEAF = "the server does not read"
_TOO_LONG = "its answer is longer than a line"


@final
class Calls:
    """An open connection, after its hello."""

    def __init__(self, lines: Lines, session_id: UUID) -> None:
        self.session_id = session_id
        self.ended: anyio.Event = anyio.Event()
        self._lines = lines
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Call] = {}
        self._slots = anyio.Semaphore(_AT_ONCE)
        self._ping: _Call | None = None
        self._lost: str | None = None

    async def ask(self, request: Request, kind: type[ReplyT]) -> ReplyT:
        """The reply to `request`, which is of that `kind`.  Raises `RequestError`, `ConnectionLostError`."""
        await checkpoint()
        async with self._slots:
            self._check()
            request_id = next(self._ids)
            line = _encoded(request_id, request)
            call = self._waiting[request_id] = _Call()
            try:
                await self._send(line)
                answer = await self._answered(call)
            except anyio.get_cancelled_exc_class():
                await self._give_up(request_id)
                raise
            finally:
                self._waiting.pop(request_id, None)
        if answer is None:
            raise _left(self._lost or _CLOSED)
        if answer.fault is not None:
            raise _raised(answer.fault)
        try:
            reply = answer.reply(request)
        except WireError as error:
            self._lose(error.fault.message)
            raise ConnectionLostError(error.fault.message) from None
        assert isinstance(reply, kind)  # noqa: S101 -- each request names the kind of its reply
        return reply

    async def listen(self) -> None:
        """Receive until the connection ends; the manager's task."""
        why = _CLOSED
        try:
            while (line := await self._lines.receive()) is not None:
                answer = decode_answer(line)
                if answer.request_id is None:
                    why = answer.fault.message if answer.fault else "it answers what was not asked"
                    break
                # None of that id: it was given up.
                call = self._waiting.pop(answer.request_id, None)
                if call is not None:
                    call.answer(answer)
        except LineTooLongError:
            why = _TOO_LONG
        except WireError as error:
            why = error.fault.message
        self._lose(why)
        self.ended.set()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._lines.aclose()

    async def _answered(self, call: _Call) -> Answer | None:
        while True:
            with anyio.move_on_after(_PATIENCE_SECONDS):
                return await call.answered()
            await self._probe()

    async def _probe(self) -> None:
        """Return when the server has said that it is there; where it does not, the connection is lost."""
        ping = await self._ask_whether_there()
        # Twice, for it may be this program that was stopped for a while: then the answer is there by now.
        for _ in range(2):
            with anyio.move_on_after(_PATIENCE_SECONDS / 2):
                await ping.answered()
                return
        self._lose(_SILENT)

    async def _ask_whether_there(self) -> _Call:
        """One ping is for all who wait: many could take the places of requests at the server."""
        if self._ping is not None and not self._ping.over:
            return self._ping
        request_id = next(self._ids)
        ping = self._ping = self._waiting[request_id] = _Call()
        try:
            await self._send(_encoded(request_id, Ping()))
        except BaseException:
            self._waiting.pop(request_id, None)
            ping.answer(None)  # it may not have been sent: nobody is to wait for it
            raise
        return ping

    async def _send(self, line: bytes) -> None:
        with anyio.move_on_after(_PATIENCE_SECONDS, shield=True) as patience:
            try:
                await self._lines.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._lose(_CLOSED)
        if patience.cancelled_caught:
            self._lose(_DEAF)

    async def _give_up(self, request_id: int) -> None:
        """Have the server not wait for nobody.  Its answers, to that call and to this, are dropped."""
        if self._waiting.pop(request_id, None) is not None and self._lost is None:
            await self._send(_encoded(next(self._ids), Cancel(request=request_id)))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        for call in self._waiting.values():
            call.answer(None)

    def _check(self) -> None:
        if self._lost is not None:
            raise _left(self._lost)


class _Call:
    """One request that waits for its answer; None: there will be none."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._done = anyio.Event()

    def answer(self, answer: Answer | None) -> None:
        self._answer = answer
        self._done.set()

    @property
    def over(self) -> bool:
        return self._done.is_set()

    async def answered(self) -> Answer | None:
        await self._done.wait()
        return self._answer


@final
class Connected(AbstractAsyncContextManager[ClientT, None], Generic[ClientT]):
    """Connects, holds the task that receives, and closes.  What the block raises leaves as it is."""

    def __init__(self, open_calls: Callable[[], Awaitable[Calls]], client: Callable[[Calls], ClientT]) -> None:
        self._open_calls = open_calls
        self._client = client
        self._group: TaskGroup | None = None
        self._calls: Calls | None = None

    async def __aenter__(self) -> ClientT:
        if self._group is not None:
            raise RuntimeError("this connection was opened before; call connect() for another one")
        self._calls = await self._open_calls()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._calls.listen)
        return self._client(self._calls)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None  # noqa: S101 -- it was entered
        assert self._calls is not None  # noqa: S101 -- as above
        self._group.cancel_scope.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup:
            # The group has only wrapped what the block raised, and Python raises that anew.
            if error is None:
                raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._calls.aclose()


async def open_calls(directory: Path) -> Calls:
    """Connect and say hello.  Raises as `connect`; `NotServedError` also where a server that was ending hung up."""
    lines = Lines(SocketStream(connect_socket(directory)))
    try:
        with anyio.fail_after(_PATIENCE_SECONDS):
            return Calls(lines, await _greet(lines))
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await lines.aclose()
        if isinstance(error, TimeoutError):
            raise _left(_SILENT) from None
        raise


async def _greet(lines: Lines) -> UUID:
    hello = Hello(version=VERSION)
    try:
        await lines.send(encode_request(0, hello))
        line = await lines.receive()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # It may have said why before it hung up.
        line = await lines.receive()
    except LineTooLongError:
        raise ConnectionLostError(_TOO_LONG) from None
    if line is None:
        raise NotServedError
    try:
        answer = decode_answer(line)
        if answer.fault is not None:
            raise _raised(answer.fault)
        return cast("Welcome", answer.reply(hello)).session_id
    except WireError as error:
        raise ConnectionLostError(error.fault.message) from None


def _left(why: str) -> ConnectionLostError:
    return (SilentServerError if why in {_SILENT, _DEAF} else ConnectionLostError)(why)


def _encoded(request_id: int, request: Request) -> bytes:
    try:
        return encode_request(request_id, request)
    except WireError as error:
        raise _raised(error.fault) from None


def _raised(fault: Fault) -> RequestError:
    return RequestError(fault.code, fault.message, fault.field, fault.kind, fault.errno, fault.handle)
