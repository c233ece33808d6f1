"""What the system has answered, by its name: all that is shown of it, since its own text may show a path."""

from __future__ import annotations

import errno


def errno_name(number: object) -> str:
    """Its name, as in errno.h; its number where it has none here, and words where the system has told none."""
    if not isinstance(number, int) or number == 0:
        return "no error number"
    return errno.errorcode.get(number, f"error {number}")
