"""A job as the command line shows it, wherever it was heard of: from the directory's files, or from who holds it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from .._ending import Ending

if TYPE_CHECKING:
    from ...supervisor import ProcessView

UNSETTLED: Final = "unsettled"
"""The state of a job whose host has died before its last word: the next opening of the directory tells how it ended."""


@final
@attrs.frozen(kw_only=True)
class JobInfo:
    """`reason` and what follows it are None, 0 or empty until it has ended."""

    handle: str
    command_id: str
    name: str
    program: str
    state: str
    created_at: datetime
    started_at: datetime | None
    backgrounded: bool
    total_bytes: int
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    shell_code: int | None = None
    finished_at: datetime | None = None
    survivors: int = 0
    containment: str | None = None
    proven: bool | None = None
    output_open: bool = False
    output_error: bool = False
    diagnostic: str = ""

    @classmethod
    def of_view(cls, view: ProcessView, *, held: bool) -> JobInfo:
        """What the directory's files say; `held`: somebody alive holds it."""
        outcome = view.outcome
        known: dict[str, Any] = {
            "handle": view.handle,
            "command_id": str(view.command_id),
            "name": view.name,
            "program": view.program,
            "created_at": view.created_at,
            "started_at": view.started_at,
            "backgrounded": view.backgrounded,
        }
        if outcome is None:
            state = view.state.name.lower() if held else UNSETTLED
            return cls(state=state, total_bytes=_written(view), **known)
        return cls(
            state=outcome.state.name.lower(),
            reason=outcome.reason.name.lower(),
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            shell_code=outcome.shell_code,
            finished_at=outcome.finished_at,
            survivors=outcome.survivors,
            containment=outcome.containment.name.lower(),
            proven=outcome.proven,
            output_open=outcome.output_open,
            output_error=outcome.output_error is not None,
            diagnostic=outcome.diagnostic,
            total_bytes=outcome.total_bytes,
            **known,
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has had its last word."""
        return self.finished_at is not None

    @property
    def ending(self) -> Ending:
        """How it ended; of one that has not, its state alone."""
        return Ending(
            state=self.state,
            reason=self.reason or "",
            exit_code=self.exit_code,
            signal=self.signal,
            shell_code=self.shell_code,
            diagnostic=self.diagnostic,
        )

    @property
    def how(self) -> str:
        """Its state in words, and how it ended: `running`, `exited 0`, ..."""
        return self.ending.words

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints; docs/cli.md lists the keys, and they are stable."""
        return {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in attrs.asdict(self).items()
        }


def _written(view: ProcessView) -> int:
    from ...supervisor import SupervisorError

    try:
        return view.read_output(0, 1).total
    except SupervisorError:
        return 0  # damaged, or evicted in this moment: the job is there all the same
