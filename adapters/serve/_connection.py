"""One client at the server: reads its lines, works on its requests, and cleans up after it.

Rules
- A fault of the client's is answered, or ends its connection; never more.
- Requests are worked on at the same time, at most MAX_IN_FLIGHT of them.  A reply is made when it is its turn to be
  sent, by the task that sends it: so a client that does not read keeps these tasks waiting, each with its request and
  nothing else, and then is not read itself.
- Hanging up ends what only waits for the client, and stops the processes that were started `attached`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, final

import anyio
from anyio.abc import TaskGroup

from ...notifier import LastwordError
from ...notifier._first import first_of
from ._bounds import HELLO_SECONDS, MAX_IN_FLIGHT, MAX_LINE_BYTES, VERSION
from ._lines import Lines, LineTooLongError
from ._replies import CancelReply, Fault, FaultCode, Welcome
from ._requests import Cancel, Hello, Request, Shutdown
from ._service import Answer, RefusedError, Service
from ._views import fault_of
from ._wire import WireError, decode_request, encode_fault, encode_reply

logger = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@final
class Connection:
    """A client, from its hello to its end."""

    def __init__(self, lines: Lines, service: Service, shut_down: Callable[[], None]) -> None:
        self._lines = lines
        self._service = service
        self._shut_down = shut_down
        self._requests: dict[int, anyio.CancelScope] = {}

    async def serve(self) -> None:
        """Until the client hangs up, or says what cannot be understood."""
        with contextlib.suppress(*_GONE):
            if not await self._greet():
                return
            async with anyio.create_task_group() as tasks:
                with contextlib.suppress(*_GONE):
                    await self._receive(tasks)
                tasks.cancel_scope.cancel()

    async def _greet(self) -> bool:
        """Whether a client of this version has said hello in time."""
        greeted = False

        async def greet() -> None:
            nonlocal greeted
            greeted = await self._is_greeted()

        await first_of(greet, partial(self._service.clock.sleep, HELLO_SECONDS))
        return greeted

    async def _is_greeted(self) -> bool:
        try:
            line = await self._lines.receive()
            if line is None:
                return False
            request_id, request = decode_request(line)
        except LineTooLongError:
            await self._lines.send(encode_fault(None, _TOO_LONG))
            return False
        except WireError as error:
            await self._lines.send(encode_fault(error.request_id, error.fault))
            return False
        if not isinstance(request, Hello):
            fault = Fault(code=FaultCode.HELLO_EXPECTED, message="say hello first, with the version that you speak")
        elif request.version != VERSION:
            message = f"this server speaks version {VERSION}; use the client of the same release"
            fault = Fault(code=FaultCode.UNSUPPORTED_VERSION, message=message, field="version")
        else:
            welcome = Welcome(version=VERSION, session_id=self._service.session_id)
            await self._lines.send(encode_reply(request_id, welcome))
            return True
        await self._lines.send(encode_fault(request_id, fault))
        return False

    async def _receive(self, tasks: TaskGroup) -> None:
        while True:
            try:
                line = await self._lines.receive()
            except LineTooLongError:
                await self._lines.send(encode_fault(None, _TOO_LONG))
                return
            if line is None:
                return
            try:
                request_id, request = decode_request(line)
            except WireError as error:
                await self._lines.send(encode_fault(error.request_id, error.fault))
                continue
            if isinstance(request, Cancel):
                scope = self._requests.get(request.request)
                if scope is not None:
                    scope.cancel()
                await self._lines.send(encode_reply(request_id, CancelReply(found=scope is not None)))
            elif request_id in self._requests:
                fault = Fault(code=FaultCode.INVALID_REQUEST, message="id: is that of another request", field="id")
                await self._lines.send(encode_fault(None, fault))
            elif len(self._requests) >= MAX_IN_FLIGHT:
                message = f"{MAX_IN_FLIGHT} requests are not answered yet; wait for one of them"
                fault = Fault(code=FaultCode.TOO_MANY_REQUESTS, message=message)
                await self._lines.send(encode_fault(request_id, fault))
            else:
                scope = self._requests[request_id] = anyio.CancelScope()
                tasks.start_soon(self._work, request_id, request, scope, tasks.cancel_scope)

    async def _work(
        self, request_id: int, request: Request, scope: anyio.CancelScope, connection: anyio.CancelScope
    ) -> None:
        done = False
        try:
            worked = await self._attempted(request, scope, partial(self._service.answer, request, self))
            async with self._lines.sending():
                line = (
                    worked
                    if isinstance(worked, Fault)
                    else await self._attempted(request, anyio.CancelScope(), partial(_line_of, request_id, worked))
                )
                done = not isinstance(line, Fault)
                # Outside of the scope: a line that has begun must be finished, or nothing can follow it.
                await self._lines.send_now(encode_fault(request_id, line) if isinstance(line, Fault) else line)
        except _GONE:
            connection.cancel()
        finally:
            del self._requests[request_id]
            if done and isinstance(request, Shutdown):
                self._shut_down()

    async def _attempted(
        self, request: Request, scope: anyio.CancelScope, work: Callable[[], Awaitable[ValueT]]
    ) -> ValueT | Fault:
        """What `work` returns, or why it does not, whatever that is; it ends with the scope."""
        with scope:
            try:
                return await work()
            except (RefusedError, WireError) as error:
                return error.fault
            except LastwordError as error:
                return fault_of(error)
            except Exception:
                logger.exception("a %s request has failed", request.op)
                return Fault(code=FaultCode.FAILED, message="it has failed here; the server's log says why")
        return Fault(code=FaultCode.CANCELLED, message="the request was given up")


async def _line_of(request_id: int, answer: Answer) -> bytes:
    return encode_reply(request_id, await answer() if callable(answer) else answer)


_TOO_LONG = Fault(code=FaultCode.LINE_TOO_LONG, message=f"a line has at most {MAX_LINE_BYTES} bytes")
