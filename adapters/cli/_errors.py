"""What a command refuses or cannot do: one line, and an exit code."""

from __future__ import annotations

import errno
from typing import Final, final

from .._causes import root_of
from .._ending import OURS as OURS

NOT_DONE: Final = 1
"""What was asked for could not be done."""


@final
class CommandFailedError(Exception):
    """One line on stderr, and the program's exit code."""

    def __init__(self, message: str, code: int = NOT_DONE) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code

    @classmethod
    def of(cls, error: BaseException, code: int = NOT_DONE) -> CommandFailedError:
        """What `error` says, in the words of whoever raised it; of one that nobody foresaw, only its type."""
        from ...notifier import LastwordError

        error = root_of(error)
        if isinstance(error, CommandFailedError):
            return error
        if isinstance(error, LastwordError):
            # Of an error with a code only the words: the code is for programs, and they have the exit code.
            return cls(str(getattr(error, "message", error)), code)
        if isinstance(error, OSError) and error.errno is not None:
            return cls(f"the system refused ({errno.errorcode.get(error.errno, error.errno)}: {error.strerror})", code)
        return cls(
            f"a fault of lastword itself ({type(error).__name__}); LASTWORD_DEBUG=1 shows where, please report it", code
        )


@final
class CtrlCError(Exception):
    """A Ctrl-C, on its way to the edge of the program: click would write an empty line for it."""


@final
class StdoutClosedError(Exception):
    """Nobody reads standard output any more."""


def one_line(text: str) -> str:
    """`text` without line breaks, and nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
