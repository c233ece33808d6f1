"""The name of what the system has answered."""

from __future__ import annotations

import errno

import pytest

from lastword.supervisor._errno import errno_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (errno.ENOENT, "ENOENT"),
        (errno.EIO, "EIO"),
        (99_999, "error 99999"),
        (0, "no error number"),
        (None, "no error number"),
        ("unsupported operation", "no error number"),
    ],
)
def test_each_has_a_name(number: object, name: str) -> None:
    """Never a text of the system's, which may show a path."""
    assert errno_name(number) == name
