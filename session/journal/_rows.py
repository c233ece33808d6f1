"""What is stored, read back.  Every value is judged as it is decoded: any hand may have been in the file.

What cannot be right is `DamageError`, which names the place and the column and never what was found there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from ...notifier import RecordKind
from ._faults import DamageError
from ._judge import FINGERPRINT_BYTES, Known
from ._port import Record

Row: TypeAlias = Sequence[object]

# SQLite's greatest integer is 2**63 - 1, and one more than what is stored must still be one.
_HIGHEST = 2**63 - 2


def text(raw: bytes) -> str | bytes:
    """A connection's `text_factory`: bytes that are no text stay bytes, and are told by whoever decodes the row."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def decode_session(rows: Sequence[Row]) -> tuple[UUID, int] | None:
    """Whose the journal is, and its epoch, by the rows of `session`; None where there is none yet."""
    if not rows:
        return None
    if len(rows) > 1:
        raise DamageError("it names more than one session")
    session_id, epoch = rows[0]
    try:
        return _id("id", session_id), _number("epoch", epoch, 1)
    except DamageError as damage:
        raise damage.at("its session") from None


def decode_record(row: Row) -> Record:
    """A record, by the columns that `_schema` reads for one."""
    seq, record_id, kind, payload, loop_id, subject, terminal, consumes, public = row
    place = decode_sequence(seq)
    try:
        return Record(
            seq=place,
            record_id=_id("record_id", record_id),
            kind=_kind(kind),
            payload=_bytes("payload", payload),
            loop_id=_id_or_none("loop_id", loop_id),
            subject=_text_or_none("subject", subject),
            terminal=_flag("terminal", terminal),
            consumes=_id_or_none("consumes", consumes),
            public=_flag("public", public),
        )
    except DamageError as damage:
        raise damage.at(f"sequence {place}") from None


def decode_known(row: Row) -> Known:
    """What is known of an id: its sequence, its fingerprint, its loop."""
    seq, fingerprint, loop_id = row
    place = decode_sequence(seq)
    try:
        return Known(place, decode_fingerprint(fingerprint), _id_or_none("loop_id", loop_id))
    except DamageError as damage:
        raise damage.at(f"sequence {place}") from None


def decode_count(row: Row) -> tuple[UUID, int]:
    """A loop, and how many notifications wait for it."""
    loop_id, count = row
    try:
        return _id("loop_id", loop_id), _number("count", count, 1)
    except DamageError as damage:
        raise damage.at("a pending notification") from None


def decode_sequence(value: object) -> int:
    """A record's place."""
    return _number("seq", value, 1)


def decode_fingerprint(value: object) -> bytes:
    """A record's fingerprint."""
    found = _bytes("fingerprint", value)
    if len(found) != FINGERPRINT_BYTES:
        raise DamageError(f"fingerprint is not {FINGERPRINT_BYTES} bytes")
    return found


def decode_mark(column: str, value: object) -> bool:
    """A mark that is set (1) or cleared (NULL)."""
    if value is not None and (type(value) is not int or value != 1):
        raise DamageError(f"{column} is neither 1 nor NULL")
    return value is not None


def _number(column: str, value: object, lowest: int) -> int:
    if type(value) is not int or not lowest <= value <= _HIGHEST:
        raise DamageError(f"{column} is not a number from {lowest} on")
    return value


def _id(column: str, value: object) -> UUID:
    if type(value) is not bytes or len(value) != 16:
        raise DamageError(f"{column} is not an id of 16 bytes")
    return UUID(bytes=value)


def _id_or_none(column: str, value: object) -> UUID | None:
    return None if value is None else _id(column, value)


def _kind(value: object) -> RecordKind:
    if type(value) is int:
        try:
            return RecordKind(value)
        except ValueError:
            pass
    raise DamageError("kind is none that this version knows")


def _bytes(column: str, value: object) -> bytes:
    if type(value) is not bytes:
        raise DamageError(f"{column} is not bytes")
    return value


def _text_or_none(column: str, value: object) -> str | None:
    if value is not None and type(value) is not str:
        raise DamageError(f"{column} is not text")
    return value


def _flag(column: str, value: object) -> bool:
    if type(value) is not int or value not in {0, 1}:
        raise DamageError(f"{column} is neither 0 nor 1")
    return value == 1
