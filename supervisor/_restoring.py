"""What an opening finds: ended processes and unsent words are taken over, and what has no last word yet is given one.

Theory of operation
- Whoever kept a process outside the host has outlived it, and wrote into the ring file's header how the leader ended.
  Where that is there, it is the truth, and is told as if the host had been there: exited.
- Else the process is lost: it was killed since its host had died, or nobody was left to see its end.  The header says
  whether the kernel has confirmed that nothing of its tree is left.
- A header is believed only where its file is a sound ring; else there is none, as where the host died before the spawn.

Rules
- Nothing is signalled here: a process id that was recorded is a stranger's by now.
- Who might still write a ring (a keeper that is about to end) has been waited for before.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import attrs

from ..notifier import OutboxUnit, ProcessState, TerminalReason
from ..notifier._crashpoints import CrashPoint, reached
from . import _diagnostics as diagnostics
from ._errors import ErrorCode, SupervisorError, refusing
from ._job import Job
from ._outcome import Outcome
from ._record import ProcessRecord
from ._registry import Registry
from ._store import STORE_ERRORS
from ._units import Unit, last_word_unit, started_unit
from ._works import Works
from .output import SpoolState, read_header
from .shim._header import RingHeader

logger = logging.getLogger(__name__)


async def restore(works: Works, registry: Registry) -> None:
    """Take over what the store holds.  Raises `SupervisorError`: manifest_corrupt, invalid_settings."""
    records, units = works.store.load()
    works.outbox.restore(units)
    for record in records:
        header = _header_of(works, record)
        ended = await _conclude(works, record, header) if record.outcome is None else _still_kept(record, header)
        reservation = works.admission.keep(ended.owner.loop_id, ended.kept_bytes)
        registry.add(Job(works, ended, reservation, registry.note_ended))
    with refusing("the folder for output"):
        _tidy(works.output_folder, {record.handle for record in records})


def _tidy(folder: Path, known: set[str]) -> None:
    """Remove the output whose record is gone, and files that a writer was making when it died.  What is no plain file
    was never ours, and is left alone."""
    for file in folder.iterdir():
        if file.name in known:
            continue
        try:
            if stat.S_ISREG(file.lstat().st_mode):
                file.unlink()
            else:
                logger.warning("something in the folder for output is no file, so not ours; it is left alone")
        except OSError as error:
            logger.warning("output whose record is gone could not be removed (%s)", error.strerror)


def _header_of(works: Works, record: ProcessRecord) -> RingHeader | None:
    try:
        return read_header(works.output_folder / record.handle)
    except SupervisorError:
        logger.warning("the output of a process is damaged, or not ours; it is told as not kept")
        return None


def _still_kept(record: ProcessRecord, header: RingHeader | None) -> ProcessRecord:
    """`record`, which has ended, with what is really there of the output that it had kept."""
    base, end = record.kept
    return attrs.evolve(record, kept=(end, end) if header is None else (min(max(base, header.base), end), end))


async def _conclude(works: Works, record: ProcessRecord, header: RingHeader | None) -> ProcessRecord:
    """Give `record` its last word, durable and told."""
    told: list[OutboxUnit] = []
    if record.state is ProcessState.STARTING and header is not None and _exit_of(header) is not None:
        # The host died between the spawn and its note of it.  It ran, so that is told first.
        record = record.running(record.created_at, backgrounded=False)
        told.append(_unit(works, record, started_unit(record)))
    spool = SpoolState() if header is None else SpoolState.of(header)
    if header is not None and header.rotates:  # one that was not sealed holds up to a segment more
        spool = attrs.evolve(spool, base=max(spool.base, spool.end - header.limit))
    ended = record.ended(_outcome(works, record, header, spool), kept=spool.kept)
    told.append(_unit(works, ended, last_word_unit(ended)))
    try:
        await works.store.save(ended, told)
    except STORE_ERRORS as error:
        raise SupervisorError(
            ErrorCode.MANIFEST_CORRUPT, f"the store cannot be written ({type(error).__name__})"
        ) from None
    reached(CrashPoint.LOST_STORED)
    works.outbox.add(told)
    return ended


def _outcome(works: Works, record: ProcessRecord, header: RingHeader | None, spool: SpoolState) -> Outcome:
    state, reason, diagnostic = ProcessState.LOST_ON_RESTORE, TerminalReason.LOST_ON_RESTORE, ""
    exit_code = signal = None
    proven = header is not None and header.proven
    left = None if header is None else _exit_of(header)
    if left is not None:
        state, reason = ProcessState.EXITED, TerminalReason.EXITED
        exit_code, signal = left
    elif header is None or not header.proven:
        diagnostic = diagnostics.TREE_NOT_PROVEN
    else:
        diagnostic = diagnostics.HOST_DIED if header.ended_by_host_death else diagnostics.EXIT_UNKNOWN
    return Outcome(
        state=state,
        reason=reason,
        exit_code=exit_code,
        signal=signal,
        started_at=record.started_at,
        finished_at=record.not_before(works.clock.now()),
        total_bytes=spool.total,
        output_error=spool.fault,
        containment=works.launcher.containment,
        proven=proven,
        diagnostic=diagnostic,
    )


def _exit_of(header: RingHeader) -> tuple[int | None, int | None] | None:
    """The leader's exit code or signal; None where nobody knows, or where its end was not its own."""
    status = header.status
    if status is None or header.ended_by_host_death:
        return None
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status), None
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None


def _unit(works: Works, record: ProcessRecord, records: Unit) -> OutboxUnit:
    return OutboxUnit(position=works.outbox.next_position(), subject=record.handle, records=records)
