"""What a process is given to read from while it runs: opened before it is admitted.

So a system that cannot give it leaves no record behind, and never another thing in its stead.
"""

from __future__ import annotations

from ._command import Order
from ._errno import errno_name
from ._errors import ErrorCode, SupervisorError
from ._works import Works
from .launch import Input, open_pipe, open_terminal


def open_input(works: Works, order: Order) -> Input | None:
    """Its terminal, or its pipe for input; None where it is given all that there is.

    Raises `SupervisorError`: pty_unavailable, process_setup_failed.
    """
    limit = works.limits.pending_input_bytes
    if order.wishes.terminal is not None:
        return open_terminal(works.reactor, works.timers, order.wishes.terminal, limit)
    if not order.wishes.input_pipe:
        return None
    try:
        return open_pipe(works.reactor, limit)
    except OSError as error:
        code = errno_name(error.errno)
        raise SupervisorError(
            ErrorCode.PROCESS_SETUP_FAILED,
            f"the system has no descriptor left for its input ({code}); try again when others have ended",
        ) from None
