"""The one free text of an event: short, on one line, and without secrets."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_values import shaped

from lastword.notifier import MAX_PROCESS_DIAGNOSTIC_BYTES, Scrubber, build_diagnostic

SECRET = "Sup3rS3cretValue"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(None, "spawn_failed"), (errno.ENOENT, "spawn_failed:ENOENT"), (0, "spawn_failed:0"), (9999, "spawn_failed:9999")],
)
def test_a_code_is_joined_by_the_name_of_its_errno(number: int | None, expected: str) -> None:
    """By its number where it has no name."""
    assert build_diagnostic("spawn_failed", errno=number) == expected
    assert build_diagnostic("spawn_failed", errno=number, detail=" at\nexec ") == f"{expected} at exec"


@pytest.mark.parametrize(
    "number", [10**5000, -(10**5000), 2**31, [], "2", 2.0, True], ids=lambda number: type(number).__name__
)
def test_an_errno_that_is_none_raises_nothing(number: Any) -> None:
    """A diagnostic is made where something has already gone wrong."""
    assert build_diagnostic("spawn_failed", errno=number) == "spawn_failed:?"


@given(st.text(), st.text(), st.none() | st.integers())
def test_whatever_it_is_made_of_it_is_a_valid_diagnostic(code: str, detail: str, number: int | None) -> None:
    """At most 512 bytes of UTF-8, on one line."""
    made = build_diagnostic(code, errno=number, detail=detail * 50)
    assert len(made.encode()) <= MAX_PROCESS_DIAGNOSTIC_BYTES
    assert len(made.splitlines()) <= 1
    shaped(kind=5, state=9, reason=9, started=False, finished=True, exit_code=None, diagnostic=made).validate()


@pytest.mark.parametrize("character", ["a", "\xe9", "\u8a9e", "\U0001f600"])
def test_it_is_cut_between_characters(character: str) -> None:
    """As late as can be, and the cut is shown."""
    for filling in range(4):
        made = build_diagnostic("x" * (1 + filling), detail=character * 600)
        assert len(made.encode()) > MAX_PROCESS_DIAGNOSTIC_BYTES - len(character.encode())
        assert made.rstrip("\u2026").rstrip(character) == "x" * (1 + filling) + " "
        assert made.endswith("\u2026")
    whole = build_diagnostic("x" * MAX_PROCESS_DIAGNOSTIC_BYTES)
    assert whole == "x" * MAX_PROCESS_DIAGNOSTIC_BYTES


@pytest.mark.parametrize("before", range(480, 520))
def test_no_cut_leaves_half_a_secret(before: int) -> None:
    """Wherever the secret stands: it is taken out before the text is cut."""
    scrubber = Scrubber({"API_KEY": SECRET})
    for detail in (SECRET, f"token={SECRET * 3}", f"https://u:{SECRET}@h"):
        made = build_diagnostic("x" * before, detail=detail, scrubber=scrubber)
        assert not any(SECRET[:length] in made for length in range(3, len(SECRET) + 1))


def test_without_a_scrubber_what_looks_like_a_secret_is_still_taken_out() -> None:
    """Nothing is left to whoever forgets."""
    assert SECRET not in build_diagnostic("spawn_failed", detail=f"--password {SECRET}")
