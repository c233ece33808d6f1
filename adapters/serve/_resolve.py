"""Which process a person means by a word.  Pure, and the same for the server and for who reads a directory by itself.

Rules, the first that finds something decides
1. A handle is that process.
2. A name is the one process of that name that still runs; or, where none does, the last one that was started under it.
3. A beginning of a handle is the only process whose handle begins so.
Where several are left, nothing is guessed: the word may have been meant to stop one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import attrs

from ._errors import ServeError


@final
@attrs.frozen
class Candidate:
    """A process as far as a person can name it."""

    handle: str
    name: str
    running: bool


class NoSuchProcessError(ServeError):
    """No process is meant by `word`."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word

    def __str__(self) -> str:
        return f"no process is called {_shown(self.word)}; `lastword ps -a` shows those that are known"


class AmbiguousProcessError(ServeError):
    """Several processes may be meant by `word`; `handles` are theirs, a few at most."""

    def __init__(self, word: str, handles: Sequence[str]) -> None:
        super().__init__(word, handles)
        self.word = word
        self.handles: tuple[str, ...] = tuple(handles)

    def __str__(self) -> str:
        return f"{_shown(self.word)} may be {', '.join(self.handles)}; write more of the handle"


# As many as fit on a line.
_NAMED_AT_MOST = 4


def resolve(word: str, candidates: Iterable[Candidate]) -> str:
    """The handle of the process that `word` means, of `candidates` (oldest first).

    Raises `NoSuchProcessError`, `AmbiguousProcessError`.
    """
    known = list(candidates)
    if any(each.handle == word for each in known):
        return word
    if not word:
        raise NoSuchProcessError(word)
    named = [each for each in known if each.name == word]
    found = [each for each in named if each.running] or named[-1:]
    found = found or [each for each in known if each.handle.startswith(word)]
    if len(found) == 1:
        return found[0].handle
    if found:
        raise AmbiguousProcessError(word, [each.handle for each in found[:_NAMED_AT_MOST]])
    raise NoSuchProcessError(word)


def _shown(word: str) -> str:
    return ascii(word if len(word) <= 40 else word[:40] + "...")
