"""The one free text that leaves the house: why a process failed, in one line.

It is made of our own codes and the names of errnos; what else is added comes last.  The whole is scrubbed before it is
cut, so that no cut can leave half a secret, and it is cut between characters.
"""

from __future__ import annotations

from errno import errorcode

from ._fields import MAX_PROCESS_DIAGNOSTIC_BYTES
from ._scrubber import Scrubber

_ELLIPSIS = "\u2026"


def build_diagnostic(code: str, *, errno: int | None = None, detail: str = "", scrubber: Scrubber | None = None) -> str:
    """`code`, with the name of `errno` behind a colon and `detail` behind a blank, where there are any.

    At most 512 bytes of UTF-8 on one line, without what `scrubber` knows or takes for a secret; one that is too long
    ends in an ellipsis.  Without a `scrubber` only what looks like a secret is taken out.  Raises nothing.

        build_diagnostic("teardown_failed", errno=ESRCH) == "teardown_failed:ESRCH"
    """
    named = code if errno is None else f"{code}:{_name_of(errno)}"
    return _cut((scrubber or Scrubber()).scrub(f"{named} {detail}"))


def _name_of(errno: object) -> str:
    """Its name, or its number where it has none; "?" for what no system call can have answered."""
    if type(errno) is not int or not -(2**31) <= errno < 2**31:
        return "?"
    return errorcode.get(errno, str(errno))


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_PROCESS_DIAGNOSTIC_BYTES:
        return text
    room = MAX_PROCESS_DIAGNOSTIC_BYTES - len(_ELLIPSIS.encode())
    # What is left of a character that the cut goes through is not UTF-8, and ignored.
    return data[:room].decode(errors="ignore") + _ELLIPSIS
