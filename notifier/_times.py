"""Times: aware `datetime` in values, RFC 3339 on the wire.

Rules
- A time of a subclass of `datetime`, or of a zone that is neither a `timezone` nor a `ZoneInfo`, is asked once what it
  is, when a value is made, and becomes a plain one of that offset: foreign code can answer otherwise the next time.
- Compared as instants, never by wall clock: two times of one zone, across its change to winter time, are told apart.
- The zero instant, 0001-01-01T00:00:00Z in whatever offset, means "absent" and is None in a value.
- Written with the value's own offset ("Z" only for offset 0) and a fraction without trailing zeros.  There is no
  turning into UTC: one instant in two offsets is two byte strings.  The seconds of an offset are not written (RFC 3339
  has no place for them), so such a time comes back up to a minute off; offsets of whole minutes come back as they were.
  Hence order and zero are judged twice, of the times as they are and as they are written: what is written can be read.
- Read strictly: two digits a part, a dot and one to nine digits of fraction, a zone.  What is finer than a microsecond
  is cut, not rounded; but a time that is not zero never becomes "absent" so: it stays the first microsecond.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeGuard, cast
from zoneinfo import ZoneInfo

# Naive on purpose: `instant` takes the offset off by itself.  Its type is what "plain" means below: the name `datetime`
# can be another class for a while, where a test freezes time.
_YEAR_ONE = datetime(1, 1, 1)
_ZERO = timedelta(0)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_WHOLE_SECOND = re.compile(r":00(?:\.0{1,9})?(?:Z|[+-]..:..)$")


def is_time(value: object) -> TypeGuard[datetime]:
    """Whether `value` is a `datetime` that knows its offset."""
    return type(value) is type(_YEAR_ONE) and _is_known(value.tzinfo)


def _is_known(zone: object) -> bool:
    return type(zone) is timezone or type(zone) is ZoneInfo


def _plain_time(value: object) -> datetime | None:
    """`value` as a time that `is_time`; None where it is none."""
    if not issubclass(type(value), type(_YEAR_ONE)):
        return None
    given = cast("datetime", value)
    try:
        zone = given.tzinfo
        if not _is_known(zone):
            offset = given.utcoffset()
            zone = None if offset is None else timezone(offset)
        if zone is None:
            return None
        return type(_YEAR_ONE)(
            given.year,
            given.month,
            given.day,
            given.hour,
            given.minute,
            given.second,
            given.microsecond,
            zone,
            fold=given.fold,
        )
    except Exception:
        # Foreign code, of a subclass or of a zone: one that cannot answer makes the time invalid, and never escapes.
        return None


def instant(value: datetime) -> timedelta:
    """The time from the zero instant to `value`, which must be aware; exact over all of `datetime`'s range."""
    offset = value.utcoffset()
    assert offset is not None  # noqa: S101 - the callers have asked `is_time`
    return value.replace(tzinfo=None) - _YEAR_ONE - offset


def _written_instant(value: datetime) -> timedelta:
    """As `instant`, of the time that is read where `value` was written: the offset without its seconds."""
    offset = cast("timedelta", value.utcoffset())
    seconds = abs(offset) % _MINUTE
    return instant(value) + (-seconds if offset < _ZERO else seconds)


def in_order(earlier: datetime, later: datetime) -> bool:
    """Whether `later` is no earlier an instant than `earlier`, as they are and as written; both must be aware."""
    if earlier.tzinfo is UTC and later.tzinfo is UTC:
        return earlier <= later
    # Not by Python's comparison: within one zone it compares wall clocks, which go back once a year.
    return instant(earlier) <= instant(later) and _written_instant(earlier) <= _written_instant(later)


def _is_zero(value: datetime) -> bool:
    return value.year == 1 and _ZERO in (instant(value), _written_instant(value))


def set_time(value: datetime | None) -> datetime | None:
    """`value`, or None for the zero instant.  A converter: it refuses nothing."""
    if value is not None and type(value) is type(_YEAR_ONE) and type(value.tzinfo) is timezone and value.year > 1:
        return value
    time = None if value is None else _plain_time(value)
    if time is None:
        return value
    return None if _is_zero(time) else time


def required_time(value: datetime | None) -> datetime:
    """As `set_time`, for a field that validation wants set: until validated it may hold None all the same."""
    if value is not None and type(value) is type(_YEAR_ONE) and type(value.tzinfo) is timezone and value.year > 1:
        return value
    return cast("datetime", set_time(value))


def write_time(value: datetime) -> str:
    """RFC 3339, as the rules above say; `value` must be aware."""
    if value.tzinfo is UTC:
        text, zone = value.isoformat()[: -len("+00:00")], "Z"
    else:
        text, zone = value.replace(tzinfo=None).isoformat(), _write_offset(cast("timedelta", value.utcoffset()))
    return (text.rstrip("0") if value.microsecond else text) + zone


def _write_offset(offset: timedelta) -> str:
    """The offset, its seconds cut towards zero, as the reference does; only one that is nothing at all is "Z"."""
    if abs(offset) < _SECOND:
        return "Z"
    minutes = abs(offset) // _MINUTE
    sign = "-" if offset < _ZERO and minutes else "+"
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"


def read_time(text: str) -> datetime | None:
    """The time that `text` writes; None where it writes none of the form above, or a day that does not exist."""
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.year == 1 and instant(time) == _ZERO and not _WHOLE_SECOND.search(text):
        return time.replace(microsecond=1)
    return time
