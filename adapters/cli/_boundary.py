"""The edge of the program: whatever a command raises becomes one clear line on stderr and an exit code.

Rules
- A traceback is for whoever mends this program: it is shown where LASTWORD_DEBUG is set, and nowhere else.
- A closed stdout (`| head`) and a Ctrl-C end the program as they end any other: by the signal, so that a shell sees it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from .._causes import root_of
from ._app import app
from ._descriptors import fill_descriptors
from ._errors import NOT_DONE, CommandFailedError, CtrlCError, StdoutClosedError, one_line

PROGRAM = "lastword"


def run_to_exit(arguments: Sequence[str] | None, hear_interrupts: Callable[[], object]) -> NoReturn:
    """Run the command line, and leave the program with its exit code; a Ctrl-C is heard from now on."""
    try:
        hear_interrupts()
        fill_descriptors()
        code = _run(arguments)
        if sys.stdout is not None:  # it was closed when the program started
            sys.stdout.flush()
    except (StdoutClosedError, BrokenPipeError):
        _die_of(signal.SIGPIPE)
    except (click.Abort, CtrlCError, KeyboardInterrupt):
        _die_of(signal.SIGINT)
    except OSError as error:  # the last flush: a full disk, a terminal that is gone
        code = _tell(f"standard output cannot be written ({error.strerror})", NOT_DONE)
        _forget_output()
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result = app.main(args=None if arguments is None else list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError):
            click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        name = PROGRAM if error.ctx is None else error.ctx.command_path
        return _tell(f"{error.format_message().rstrip('.')}; see '{name} --help'", error.exit_code)
    except click.ClickException as error:
        return _tell(error.format_message(), error.exit_code)
    except (StdoutClosedError, BrokenPipeError, CtrlCError, click.Abort):
        raise
    except Exception as error:
        if isinstance(root_of(error), StdoutClosedError | BrokenPipeError):  # a task group has wrapped it
            raise StdoutClosedError from None
        if os.environ.get("LASTWORD_DEBUG"):
            raise
        failure = CommandFailedError.of(error)
        return _tell(failure.message, failure.code)
    return result if isinstance(result, int) else 0


def _tell(message: str, code: int) -> int:
    # stderr, too, may be a pipe that nobody reads any more, or a terminal that is gone.
    with contextlib.suppress(OSError):
        click.echo(f"{PROGRAM}: {one_line(message)}", err=True)
    return code


def _die_of(number: signal.Signals) -> NoReturn:
    _forget_output()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # where the signal is blocked


def _forget_output() -> None:
    """What is still buffered is for nobody; the interpreter must not try to write it on its way out."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in {errno.EPIPE, errno.EIO, errno.ENOSPC}:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)
