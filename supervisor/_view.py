"""Looking into a state directory that somebody else holds, or nobody: what is known of its processes, and their output.

Theory of operation
- Nothing is opened in the supervisor's sense, so nothing is restored, told, locked or written: the store is read as it
  is at one moment, output is read from the ring files.  Neither the folder nor its files need be writable.
- A process that the store says is running does run only where somebody holds the directory (`DirectoryView.held`).
  Else its host has died, and the next opening gives it its last word.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import final
from uuid import UUID

import attrs

from .._readonly import OpenedMeanwhileError, reading
from ..notifier import Owner, PendingDelivery, ProcessState
from ..notifier._lifecycle import is_handle
from ._directory import OUTPUT, STORE, is_held, session_in, state_path
from ._errors import ErrorCode, SupervisorError
from ._outbox import undelivered_record
from ._outcome import Outcome
from ._process import DEFAULT_READ_BYTES, check_count, seconds_of
from ._record import ProcessRecord
from ._rows import SELECT_PROCESSES, SELECT_RECORDS, SELECT_UNITS, VERSION, to_process, to_record
from .output import OutputChunk, Streams, find_cursor, read_ring

# Somebody opens the store in the very moment in which it is read alone; twice in a row is no coincidence.
_TRIES = 3


@final
class ProcessView:
    """A process as the store knew it when the directory was looked into; its output is read as it is now."""

    def __init__(self, record: ProcessRecord, output: Path) -> None:
        self._record = record
        self._output = output

    def __repr__(self) -> str:
        return f"<ProcessView {self.handle} {self.state.name.lower()}>"

    @property
    def handle(self) -> str:
        """See `Process.handle`."""
        return self._record.handle

    @property
    def command_id(self) -> UUID:
        """See `Process.command_id`."""
        return self._record.ids.command

    @property
    def owner(self) -> Owner:
        """See `Process.owner`."""
        return self._record.owner

    @property
    def name(self) -> str:
        """See `Process.name`."""
        return self._record.name

    @property
    def program(self) -> str:
        """The base name of the program, for people."""
        return self._record.program

    @property
    def state(self) -> ProcessState:
        """The state that is durable; see the module on what `RUNNING` means where nobody holds the directory."""
        return self._record.state

    @property
    def created_at(self) -> datetime:
        """When it was asked for."""
        return self._record.created_at

    @property
    def started_at(self) -> datetime | None:
        """See `Process.started_at`."""
        return self._record.started_at

    @property
    def backgrounded(self) -> bool:
        """See `Process.backgrounded`."""
        return self._record.backgrounded

    @property
    def outcome(self) -> Outcome | None:
        """See `Process.outcome`."""
        return self._record.outcome

    def read_output(
        self, cursor: int = 0, max_bytes: int = DEFAULT_READ_BYTES, *, streams: Streams = "both"
    ) -> OutputChunk:
        """As `Process.read_output`, from the file, as far as it is written by now.

        Of a process without a last word `ended` is never set: look into the directory again.  Raises `SupervisorError`:
        cursor_ahead, invalid_arguments, spool_corrupt (also where it was evicted meanwhile).
        """
        check_count("cursor", cursor, 0)
        check_count("max_bytes", max_bytes, 1)
        ended = self._record.outcome is not None
        known = self._record.spool if ended else None
        stream = self._record.stream(streams)
        return read_ring(self._output, known, cursor, max_bytes, terminal=ended, stream=stream)

    def cursor_at(self, moment: datetime) -> int | None:
        """As `Process.cursor_at`, from the file."""
        ended = self._record.outcome is not None
        known = self._record.spool if ended else None
        return find_cursor(self._output, known, seconds_of(moment), terminal=ended)


@final
@attrs.frozen(kw_only=True)
class DirectoryView:
    """A state directory as it was at one moment.

    - `held`: somebody alive had it open.
    - `processes`: oldest first.
    - `undelivered`: what was not known to be in the journal; how often it was tried only its holder knows.
    """

    session_id: UUID
    held: bool
    processes: tuple[ProcessView, ...]
    undelivered: tuple[PendingDelivery, ...]


def view_directory(path: str | os.PathLike[str]) -> DirectoryView:
    """Look into the state directory at `path`, without changing anything, whoever holds it; blocks for as long as it
    takes to read the store.

    Raises `SupervisorError`: invalid_settings where there is no state directory, or it cannot be read;
    manifest_corrupt.
    """
    folder = state_path(path)
    with _reported():
        session_id = session_in(folder)
        if session_id is None:
            raise SupervisorError(
                ErrorCode.INVALID_SETTINGS, "there is no state directory there; it is made when a first process is run"
            )
        held = is_held(folder)
        store = folder / STORE
        records, undelivered = _read(store, session_id) if store.exists() else ([], [])
    views = tuple(ProcessView(record, folder / OUTPUT / record.handle) for record in records)
    return DirectoryView(session_id=session_id, held=held, processes=views, undelivered=tuple(undelivered))


def _read(store: Path, session_id: UUID) -> tuple[list[ProcessRecord], list[PendingDelivery]]:
    for _ in range(_TRIES):
        try:
            with reading(store) as connection:
                return _load(connection, session_id)
        except OpenedMeanwhileError:
            continue
    raise SupervisorError(ErrorCode.INVALID_SETTINGS, "the store is being opened at this moment; try again")


def _load(connection: sqlite3.Connection, session_id: UUID) -> tuple[list[ProcessRecord], list[PendingDelivery]]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:  # its holder is about to make it
        return [], []
    if version != VERSION:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS,
            "the store was written by a newer version of this library; use that one"
            if version > VERSION
            else "the store was written by an older version of this library; it is brought forward when it is opened",
        )
    (known,) = connection.execute("SELECT id FROM session").fetchone()
    if known != session_id.bytes:
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the store belongs to another session than the directory")
    records = [to_process(row) for row in connection.execute(SELECT_PROCESSES)]
    if not all(is_handle(record.handle) for record in records):
        # It names a file below the folder, which may be somebody's whom the reader does not trust.
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the store cannot be read (a handle is none)")
    units = {position: (handle, error) for position, handle, error in connection.execute(SELECT_UNITS)}
    undelivered: list[PendingDelivery] = []
    for position, *row in connection.execute(SELECT_RECORDS):
        if position in units:
            handle, error = units[position]
            undelivered.append(undelivered_record(to_record(row), handle, quarantined=error is not None, error=error))
    return records, undelivered


@contextmanager
def _reported() -> Generator[None]:
    """What the system or the store raises, in words."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, f"the store cannot be read ({name})") from None
    except OSError as error:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS,
            f"the state directory cannot be looked into ({error.strerror or type(error).__name__})",
        ) from None
    except (ValueError, TypeError, KeyError) as error:
        raise SupervisorError(
            ErrorCode.MANIFEST_CORRUPT, f"the store cannot be read ({type(error).__name__})"
        ) from None
