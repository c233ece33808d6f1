"""Takes secrets out of a text that is about to leave the house.

The text is made one line first.  Then two layers, in this order:
1. Values: of environment variables with a secret-looking name, and those that a caller registered.  All occurrences of
   all of them are found first and cut together, so that two that overlap leave no rest of either.
2. Words, for secrets that nobody told us of.  The text is read once, word by word.  A word that gives itself away (a
   vendor's prefix, a JWT, a URL with a password) is cut; one that announces a secret (`password=`, `Bearer`, `--token`)
   has its rest cut, or the word after it, or all up to the closing quote; a PEM block is cut up to its end.

What is cut is cut up to the next blank, never up to a length: half a secret is a secret.  So it rather cuts too much;
it is meant for a line of diagnosis, not for a job's output.

The cost is in proportion to the text.  Every quantifier below is bounded and gives nothing back, so that no character
is looked at more often than the bounds say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import final

REDACTED = "[redacted]"
"""What stands where a secret stood."""

_SHORTEST_ENVIRONMENT_VALUE = 6
"""Shorter values of secret-looking variables ("1", "true", "none") are no secrets; cutting them would blot the text."""

_LONGEST_PERIODIC_VALUE = 4096
"""Up to here a value is searched for overlapping copies of itself; longer ones do not repeat themselves by chance."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|API_?KEY|ACCESS_?KEY|PRIVATE"
    r"|(?:^|[_.-])(?:KEY|KEYS|AUTH|PWD|PASS|DSN|PAT|SIGNATURE)(?:$|[_.-])",
    re.IGNORECASE,
)
_PUBLIC_NAMES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
"""Names that look secret and hold paths."""

# Controls, line separators and what turns the direction of writing: a diagnostic is one line, and reads as it is.
_UNPRINTABLE = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)), " "
)

# The name of something secret, alone or with more around it: `db_password_2`, `X-Api-Key`, `AWS_SECRET_ACCESS_KEY`.
_NAME = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|[_?&-]key"
    r"|signature|authorization|cookie)[\w.-]{0,64}+[\"']?+"
)
_ASSIGNED = re.compile(_NAME + r"[=:]", re.IGNORECASE)
_NAMED_LAST = re.compile(_NAME + r"\Z", re.IGNORECASE)
_GIVES_ITSELF_AWAY = re.compile(
    r"(?<![A-Za-z0-9])(?:eyJ[\w-]{8}|sk-[\w-]{8}|[spr]k_(?:live|test)_|gh[opsur]_\w{8}|github_pat_|glpat-|xox[a-z]-|xapp-"
    r"|hf_\w{8}|npm_\w{8}|pypi-\w{8}|(?:AKIA|ASIA)\w{12}|AIza[\w-]{20}|ya29\.|SG\.[\w-]{8}|dop_v1_|shpat_)"
)
_SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate", "token"})
_SHORTEST_CREDENTIAL = 8
"""What follows a scheme and is shorter is a word of the sentence: "basic auth"."""

_QUOTES = "\"'`"


@final
class Scrubber:
    """Knows what is secret, and cuts it out of texts.  Its `repr` shows how much it knows, and never what."""

    def __init__(self, environment: Mapping[str, str] | None = None, *, values: Iterable[str] = ()) -> None:
        """Learn `values`, and those of `environment` that have six characters or more and a secret-looking name."""
        self._periods: dict[str, int] = {}
        for name, value in (environment or {}).items():
            if len(value) >= _SHORTEST_ENVIRONMENT_VALUE and _is_secret_name(name):
                self.register(value)
        self.register(*values)

    def __repr__(self) -> str:
        return f"<Scrubber: {len(self._periods)} values>"

    def register(self, *values: str) -> None:
        """Learn `values`, however short; blank ones are passed over.  Of several lines, each is a value too."""
        for value in values:
            lines = [one_line(line) for line in value.splitlines()]
            for line in (one_line(value), *(line for line in lines if len(line) >= _SHORTEST_ENVIRONMENT_VALUE)):
                if line:
                    self._periods[line] = _period(line)

    def scrub(self, text: str) -> str:
        """`text` on one line, without what is secret."""
        words = _WordScrubber()
        return " ".join(word for part in self._cut_values(one_line(text)).split(" ") for word in words.scrub(part))

    def _cut_values(self, text: str) -> str:
        spans = sorted(span for value, period in self._periods.items() for span in _occurrences(text, value, period))
        kept: list[str] = []
        end = 0
        for start, stop in spans:
            # One that begins within the last, or right behind it, is part of the same cut.
            if start > end or not kept:
                kept += (text[end:start], REDACTED)
            end = max(end, stop)
        return "".join((*kept, text[end:]))


def one_line(text: str) -> str:
    """`text` with single blanks for whatever blanks and unprintable characters it has, and in valid UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().translate(_UNPRINTABLE).split())


def _is_secret_name(name: str) -> bool:
    return name.upper() not in _PUBLIC_NAMES and _SECRET_NAME.search(name) is not None


def _period(value: str) -> int:
    """By how much a copy of `value` can be shifted and still agree with it where the two overlap; at least 1."""
    length = len(value)
    if length > _LONGEST_PERIODIC_VALUE:
        return length
    return next(shift for shift in range(1, length + 1) if value.startswith(value[shift:]))


def _occurrences(text: str, value: str, period: int) -> Iterator[tuple[int, int]]:
    """Where `value` stands in `text`; a run of overlapping copies is one place."""
    length, tail = len(value), value[-period:]
    start = text.find(value)
    while start >= 0:
        end = start + length
        # The next copy of the run agrees with this one but for its last `period` characters: asking only for those
        # keeps the cost of a run in proportion to its length.
        while text.startswith(tail, end):
            end += period
        yield start, end
        start = text.find(value, end - length + 1)


@final
class _WordScrubber:
    """Reads a text word by word, and remembers what the words so far have announced."""

    def __init__(self) -> None:
        self._named = False
        """The last word ended in a secret's name: if `=` or `:` comes next, its value follows."""
        self._due = False
        """The next word is a secret."""
        self._scheme = False
        """The last word was the name of a scheme: the next is a secret if it is long enough for one."""
        self._until = ""
        """Everything is a secret until this is seen."""

    def scrub(self, word: str) -> Iterator[str]:
        """What is left of `word`: one word or none."""
        named, self._named = self._named, False
        scheme, self._scheme = self._scheme, False
        if self._until:
            if self._until in word:
                self._until = ""
            return
        if "-----BEGIN" in word:
            self._until = "-----END"
            yield REDACTED
            return
        if named and word[0:1] in ("=", ":"):
            self._due = True
            if word == word[0]:
                yield word
                return
        if self._due or (scheme and len(word) >= _SHORTEST_CREDENTIAL):
            yield self._secret(word)
            return
        yield self._ordinary(word)

    def _secret(self, word: str) -> str:
        """A word that was announced, unless it only announces the next."""
        self._due = False
        if word.strip(_QUOTES).lower() in _SCHEMES:
            self._due = True
            return word
        self._open_quote(word.lstrip("=:"))
        return REDACTED

    def _open_quote(self, word: str) -> None:
        if word[0:1] and word[0] in _QUOTES and word[0] not in word[1:]:
            self._until = word[0]

    def _ordinary(self, word: str) -> str:
        scheme, separator, authority = word.partition("://")
        if "@" in authority:
            # Up to the last @: a password may hold one, unescaped against the rules.
            word = scheme + separator + REDACTED + authority[authority.rindex("@") :]
        found = _GIVES_ITSELF_AWAY.search(word)
        if found:
            word = word[: found.start()] + REDACTED
        assigned = _ASSIGNED.search(word)
        if assigned:
            name, value = word[: assigned.end()], word[assigned.end() :]
            if not value:
                self._due = True
                return name
            return name + self._secret(value)
        self._named = _NAMED_LAST.search(word) is not None
        self._due = self._named and word.startswith("-")
        self._scheme = word.strip(_QUOTES + ":").lower() in _SCHEMES
        return word
