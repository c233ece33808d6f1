"""What callers give, judged before anything is done with it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from uuid import UUID

from ..notifier import InvalidArgumentError


def check_type(field: str, value: object, kind: type) -> None:
    """Raise `InvalidArgumentError` unless `value` is a `kind`."""
    if not isinstance(value, kind):
        raise InvalidArgumentError(field, f"must be {kind.__name__}, not {type(value).__name__}")


def check_sequence(field: str, value: object) -> None:
    """Raise `InvalidArgumentError` unless `value` can be a place in the journal, or 0 for its beginning."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise InvalidArgumentError(field, "must be a sequence of the journal: 0 for all of it, or Delivery.journal_seq")


def check_id(field: str, value: object) -> None:
    """Raise `InvalidArgumentError` unless `value` is a UUID, and not the zero one, which means "absent"."""
    if not isinstance(value, UUID) or value.int == 0:
        raise InvalidArgumentError(field, "must be a UUID, and not the zero one")


def check_path(field: str, value: object) -> Path:
    """The path that `value` is, or `InvalidArgumentError`; nothing is looked up."""
    if isinstance(value, str | os.PathLike):
        # TypeError: a path of bytes; UnicodeError: characters that no file system has.
        with contextlib.suppress(TypeError, UnicodeError):
            path = Path(value)  # pyright: ignore[reportUnknownArgumentType]  # of what kind it is, is told here
            if b"\0" not in os.fsencode(path):
                return path
    raise InvalidArgumentError(field, "must be a path: a str or an os.PathLike of str, without NUL")
