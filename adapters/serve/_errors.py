"""What a client meets, each named after its situation.  Messages show no host path, process id or argument."""

from __future__ import annotations

from ...notifier import LastwordError


class ServeError(LastwordError):
    """The root of what is raised here."""


class NotServedError(ServeError):
    """Nobody serves the directory: no socket, or one that nobody listens on any more."""

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return "nobody serves this state directory; start a server for it with `lastword serve`"


class ForeignPeerError(ServeError):
    """Who is at the other end runs as another user; nothing was asked of it, and nothing told to it."""

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return "the socket of this state directory is another user's; use a directory of your own"


class AddressError(ServeError):
    """The socket cannot be made or reached in this directory; `why` says it in words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the socket of the state directory cannot be used ({self.why}); put that right, or give another one"


class ConnectionLostError(ServeError):
    """The server has gone away, or what it said is no reply of ours; whether the request was done is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the connection to the server is lost ({self.why}); connect again, and look before you ask again"


class SilentServerError(ConnectionLostError):
    """The server is there, and neither answers nor reads: it is stopped, or stuck.  It was left, not waited for."""


class ServeStartError(ServeError):
    """A server was to be started and was not; `code` is as in a reply, "directory_in_use" among them.

    `detail` is what it said on stderr before it ended, for a log: it may show paths.
    """

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(code, message, detail)
        self.code = code
        self.message = message
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class RequestError(ServeError):
    """The server has refused a request, or could not do it; nothing else is wrong with the connection.

    `code` is an `ErrorCode` of the supervisor or a `FaultCode` of the protocol; `field` names what is wrong in the
    request; `kind`, `errno` and `handle` are those of a `SpawnFailedError`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        field: str | None = None,
        kind: str | None = None,
        errno: int | None = None,
        handle: str | None = None,
    ) -> None:
        super().__init__(code, message, field, kind, errno, handle)
        self.code = code
        self.message = message
        self.field = field
        self.kind = kind
        self.errno = errno
        self.handle = handle

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
