"""The group of all commands.  A command's module is imported when it runs or is asked for its help.

Rules
- A module of a command imports click alone at its head, and of the core only what it needs, when it runs.
- A command is a line in `_COMMANDS`, in the order in which `--help` shows them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, final

import click

from ._errors import CtrlCError, StdoutClosedError
from ._state import STATE_HELP

# name: (module, attribute)
_COMMANDS = {
    "run": ("_run", "run"),
    "ps": ("_ps", "ps"),
    "logs": ("_logs", "logs"),
    "send": ("_send", "send"),
    "stop": ("_stop", "stop"),
    "wait": ("_wait", "wait"),
    "events": ("_events", "events"),
    "pending": ("_pending", "pending"),
    "ack": ("_ack", "ack"),
    "replay": ("_replay", "replay"),
    "verify": ("_verify", "verify"),
    "doctor": ("_doctor", "doctor"),
    "mcp": ("_mcp", "mcp"),
    "serve": ("_serve", "serve"),
    "demo": ("_demo", "demo"),
}


@final
class LazyGroup(click.Group):
    """Knows its commands by name, and imports one when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command = getattr(import_module(f".{module}", __package__), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 -- the table is ours
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the line, which may show the help."""
        with _unseen_by_click():
            return super().make_context(info_name, args, parent, **extra)
        raise AssertionError("it swallows nothing")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _unseen_by_click():
            return super().invoke(ctx)


@contextmanager
def _unseen_by_click() -> Generator[None]:
    """What click would make something of its own of: an exit code, or an empty line."""
    try:
        yield
    except BrokenPipeError:
        raise StdoutClosedError from None
    except KeyboardInterrupt:
        raise CtrlCError from None


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Completion: eval "$(_LASTWORD_COMPLETE=bash_source lastword)", or zsh_source, or fish_source.',
)
@click.option("--state", metavar="DIR", envvar="LASTWORD_STATE", help=STATE_HELP)
@click.version_option(package_name="lastword")
def app(state: str | None) -> None:
    """Background shell jobs, and every job's last word gets home.

    \b
      lastword run -- make test            in the foreground: its output, its exit code
      lastword run -d --name api -- ./api  in the background; `serve` is started for it
      lastword ps                          what runs; -a: what has run
      lastword logs -f api                 what it writes
      lastword wait api; lastword pending  how it ended; who has not been told yet
    """
