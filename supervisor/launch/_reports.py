"""What is reported of a job: what its keeper saw, or, where that is dead, what the ring file says."""

from __future__ import annotations

from pathlib import Path
from signal import Signals

from .._errors import SupervisorError
from ..output import SpoolState, read_header
from ..shim._facts import Facts
from ..shim._header import RingHeader
from ._launcher import Report, to_exit_status


def report_of(facts: Facts, spool: SpoolState) -> Report:
    """What its keeper saw."""
    return Report(
        status=to_exit_status(facts.status),
        signalled=frozenset(map(Signals, facts.signalled)),
        in_time=facts.in_time,
        survivors=facts.survivors,
        output_open=facts.output_open,
        spool=spool,
        proven=facts.proven,
    )


def report_without(path: Path, spool: SpoolState, *, proven: bool, lost: bool) -> Report:
    """What can be said where no keeper says it.

    Truth before lost: what a dead keeper (`lost`) had seen end by itself is in the ring at `path`, and told.
    """
    header = _header(path) if lost else None
    status = None if header is None or header.ended_by_host_death else header.status
    return Report(
        status=to_exit_status(status),
        signalled=frozenset(),
        in_time=False,
        survivors=0,
        output_open=False,
        spool=spool,
        proven=proven,
        lost=lost and status is None,
    )


def spool_without(path: Path, told: SpoolState) -> SpoolState:
    """How much output there is by the ring at `path`; what was told last where that says nothing."""
    header = _header(path)
    return told if header is None else SpoolState.of(header)


def _header(path: Path) -> RingHeader | None:
    try:
        return read_header(path)
    except SupervisorError:  # spool_corrupt: it is no ring, or cannot be read, and says nothing
        return None
