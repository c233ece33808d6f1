"""What a client is told where there is no server for it, or none any more: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from anyio.abc import ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCError

from ...notifier import JournalFencedError, LastwordError
from ...supervisor import DirectoryInUseError, SupervisorError
from ._transport import Outgoing


def explained(error: LastwordError) -> str:
    """What a person reads who has configured the server."""
    match error:
        case DirectoryInUseError():
            return (
                "another server has this client's state directory; end it, or give this one a directory of its own "
                "with --state"
            )
        case JournalFencedError():
            return (
                "another process has taken this server's state directory, so this server has ended, and its jobs with "
                "it; end that process or give this server a directory of its own with --state, and start it again"
            )
        case SupervisorError():
            return error.message
        case _:
            return str(error)


@final
class Explaining(ObjectSendStream[SessionMessage]):
    """Goes before a stream to the client: who waits for an answer when the connection ends is told why, if that is
    known by then.  (The SDK says that it is closed.)"""

    def __init__(self, outgoing: Outgoing, failure: Callable[[], LastwordError | None]) -> None:
        self._outgoing = outgoing
        self._failure = failure

    async def send(self, item: SessionMessage) -> None:
        """As the stream behind it."""
        answer, failure = item.message, self._failure()
        if isinstance(answer, JSONRPCError) and answer.error.code == CONNECTION_CLOSED and failure is not None:
            error = answer.error.model_copy(update={"message": explained(failure)})
            item = SessionMessage(answer.model_copy(update={"error": error}))
        await self._outgoing.send(item)

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._outgoing.aclose()
