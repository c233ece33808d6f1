"""Takes secrets out of a text that is about to leave the house.

The text is made one line first.  Then two layers find, both on that same line, the spans that are secret; their union
is cut.  (Were one cut before the other, it would take away the words and marks that the other goes by.)
- Values: of environment variables with a secret-looking name, and those that a caller registered.  All occurrences of
  all of them, also where they overlap.
- Words, for secrets that nobody told us of.  The line is read once, word by word.  A word that gives itself away (a
  vendor's prefix, a JWT, a URL with a password) is cut; one that announces a secret (`password=`, `Bearer`, `--token`)
  has its rest cut, or the word after it, or all up to the closing quote; what follows `Authorization:` or `Cookie:` is
  cut to the end, and a PEM block up to its own.

What is cut is cut up to the next blank, never up to a length: half a secret is a secret.  So it rather cuts too much;
it is meant for a line of diagnosis, not for a job's output.

The cost is in proportion to the text.  Every quantifier below is bounded and gives nothing back, so that no character
is looked at more often than the bounds say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, final
from urllib.parse import unquote

from ._errors import InvalidArgumentError

REDACTED = "[redacted]"
"""What stands where a secret stood."""

_SHORTEST_ENVIRONMENT_VALUE = 6
"""Shorter values of secret-looking variables ("1", "true", "none") are no secrets; cutting them would blot the text."""

# The name of something secret, alone or with more around it: `db_password_2`, `X-Api-Key`, `AWS_SECRET_ACCESS_KEY`.
_STRONG = (
    r"passw|passphrase|pwd|secret|token|credential|signature|authorization|cookie|oauth|bearer|jwt|webhook"
    r"|connection[_-]?string|(?:api|access|private|account|storage|shared|service|client|server|session|host|deploy"
    r"|master|encrypt|encryption|sign|signing|license|ssh|ssl|tls|gpg|rsa|aes|hmac|app|auth|db)[_-]?key"
    r"|(?:pg|db|my|sql|ssh|smtp|ldap|user|root|admin)pass"
)
"""Whatever stands around one of these, it is the name of something secret."""

_WEAK = "key|auth|pass|pw|sig|pat|dsn"
"""Parts of many a harmless word: these are names on their own, or as a part of a name that has parts."""

_WEAK_PART = rf"(?:(?<![a-z])(?:{_WEAK})|(?-i:(?<=[a-z])(?:Key|Pass|Auth|Sig)))"

_SECRET_NAME = re.compile(rf"{_STRONG}|private|{_WEAK_PART}s?+[0-9]{{0,4}}+(?![a-z0-9])", re.IGNORECASE)
_PUBLIC_NAMES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
"""Names that look secret and hold paths."""

_OPERATORS = "?:=>|\uff1a\uff1d"
# Where it is a word of its own, or begins one: `:=`, `->`, `is:`, `value=`.
_OPERATOR = re.compile("(?:is|was|value)?+(?:\\??[:=>|\uff1a\uff1d]|->|\u21d2|\u2192)", re.IGNORECASE)
_ANNOUNCED = re.compile(
    # The whole of a header is secret, whatever its scheme.
    r"(?:(?P<header>(?:authorization|cookies?)(?![\w.-]))"
    rf"|(?:{_STRONG})[\w.-]{{0,64}}+"
    # Not `auth_failed:`, but `KEY_2=` and `STRIPE_KEY_LIVE=`.
    rf"|{_WEAK_PART}(?:[_.-]?[0-9]{{1,4}}+)?+(?-i:(?:_[A-Z0-9]{{1,24}}+){{0,3}}+)(?![a-z0-9_])-{{0,2}}+)"
    # As in `"password":`, `\"password\":`, `params[password]=`; then what gives it a value, or the end of the word.
    r"[\\\"'`\])]{0,4}+(?:(?P<operator>\??[:=>|\uff1a\uff1d]|%3[ad])|\Z)",
    re.IGNORECASE,
)
_GIVES_ITSELF_AWAY = re.compile(
    r"(?<![A-Za-z0-9])(?:eyJ[\w-]{8}|sk-[\w-]{8}|[spr]k_(?:live|test)_|gh[opsur]_\w{8}|github_pat_|glpat-|xox[a-z]-|xapp-"
    r"|hf_\w{8}|npm_\w{8}|pypi-\w{8}|(?:AKIA|ASIA)\w{12}|AIza[\w-]{20}|ya29\.|SG\.[\w-]{8}|dop_v1_|shpat_"
    r"|whsec_\w{8}|gsk_\w{8}|xai-\w{8}|r8_\w{8}|dckr_pat_|lin_api_|figd_|sntrys_)"
)
_SCHEME = r"(?:bearer|basic|digest|negotiate|token)[\"'`:=,]{0,4}+\Z"
_IS_SCHEME = re.compile(r"[\\\"'`(\[{<]{0,8}+" + _SCHEME, re.IGNORECASE)
_ENDS_IN_SCHEME = re.compile("(?<![a-z0-9_.-])" + _SCHEME, re.IGNORECASE)
_SHORTEST_CREDENTIAL = 8
"""What follows a scheme and is shorter is a word of the sentence: "basic auth"."""

_USER_AND_PASSWORD = re.compile(r"--(?:proxy-)?user(?:=|\Z)|-u", re.IGNORECASE)
_AUTHORITY = re.compile(r"(:?)\\?/\\?/")
_PEM_BEGIN, _PEM_END = "-----BEGIN", re.compile("-----END")
_TAG_END = re.compile("</")
_LONGEST_TAG = 80
"""How far before a secret's name its tag is looked for."""


_OPENING = re.compile(r"(\\{0,4}+)[(\[{]{0,4}+[bru]{0,2}+([\"'`])", re.IGNORECASE)
_CLOSING = {quote: re.compile(rf"(?<!\\){quote}") for quote in "\"'`"}
_CLOSING_ESCAPED = {quote: re.compile(quote) for quote in "\"'`"}

_Span: TypeAlias = tuple[int, int]


# Controls, line separators and what turns the direction of writing: a diagnostic is one line, and reads as it is.
_UNPRINTABLE = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)), " "
)


@final
class Scrubber:
    """Knows what is secret, and cuts it out of texts.  Its `repr` shows how much it knows, and never what."""

    def __init__(self, environment: Mapping[str, str] | None = None, *, values: Iterable[str] = ()) -> None:
        """Learn `values`, and what is secret in `environment`.

        That is, of six characters or more, the values of variables with a secret-looking name and the passwords in
        URLs, whatever the name.  One text for `values` is one value.
        """
        self._periods: dict[str, int] = {}
        for name, value in (environment or {}).items():
            secrets = ([value] if _is_secret_name(name) else []) + _passwords_in_urls(value)
            self.register(*(secret for secret in secrets if len(one_line(secret)) >= _SHORTEST_ENVIRONMENT_VALUE))
        self.register(*((values,) if isinstance(values, str) else values))

    def __repr__(self) -> str:
        return f"<Scrubber: {len(self._periods)} values>"

    def register(self, *values: str) -> None:
        """Learn `values`, however short; blank ones are passed over.  Of several lines, each is a value too.

        Raises `InvalidArgumentError`, and learns nothing, where one of them is no text.
        """
        if not all(isinstance(value, str) for value in values):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise InvalidArgumentError("values", "must all be texts")
        for value in values:
            lines = [one_line(line) for line in value.splitlines()]
            for line in (one_line(value), *filter(_is_telling, lines)):
                if line:
                    self._periods[line] = _period(line)

    def scrub(self, text: str) -> str:
        """`text` on one line, without what is secret."""
        line = one_line(text)
        # A copy, since another thread may register meanwhile.
        known = self._periods.copy()
        spans = [
            *(span for value, period in known.items() for span in _occurrences(line, value, period)),
            *_Reader().spans(line),
        ]
        return _cut(line, sorted(spans))


def _cut(line: str, spans: Iterable[_Span]) -> str:
    kept: list[str] = []
    end = 0
    for start, stop in spans:
        # One that begins within the last, or right behind it, is part of the same cut.
        if start > end or not kept:
            kept += (line[end:start], REDACTED)
        end = max(end, stop)
    return "".join((*kept, line[end:]))


def one_line(text: str) -> str:
    """`text` with single blanks for whatever blanks and unprintable characters it has, and in valid UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().translate(_UNPRINTABLE).split())


def _is_telling(line: str) -> bool:
    """Whether one line of a value is secret on its own; the frame of a PEM block is that of every other."""
    return len(line) >= _SHORTEST_ENVIRONMENT_VALUE and not line.startswith(("-----BEGIN", "-----END"))


def _is_secret_name(name: str) -> bool:
    return name.upper() not in _PUBLIC_NAMES and _SECRET_NAME.search(name) is not None


def _passwords_in_urls(value: str) -> list[str]:
    """The passwords in the URLs of `value`, as written and unquoted; up to the first @ and up to the last."""
    found: list[str] = []
    for word in value.split():
        authority = word.partition("://")[2]
        for end in {authority.find("@"), authority.rfind("@")}:
            password = authority[: max(end, 0)].partition(":")[2]
            found += (password, unquote(password))
    return found


def _period(value: str) -> int:
    """By how much a copy of `value` can be shifted and still agree with it where the two overlap; at least 1.

    By the failure function of Knuth, Morris and Pratt: in proportion to the length.
    """
    borders = [0] * len(value)
    border = 0
    for at in range(1, len(value)):
        while border and value[at] != value[border]:
            border = borders[border - 1]
        if value[at] == value[border]:
            border += 1
        borders[at] = border
    return len(value) - border


def _occurrences(text: str, value: str, period: int) -> Iterator[_Span]:
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
class _Reader:
    """Reads a line word by word, and remembers what the words so far have announced."""

    def __init__(self) -> None:
        self._named: re.Match[str] | None = None
        """The last word ended in a secret's name: if an operator comes next, its value follows."""
        self._due = False
        """The next word is a secret."""
        self._scheme = False
        """The last word was the name of a scheme: the next is a secret if it is long enough for one."""
        self._user = False
        """The next word is a user and a password."""
        self._until: re.Pattern[str] | None = None
        """Everything is a secret until this is seen."""
        self._to_the_end = False
        """Everything is a secret."""

    def spans(self, line: str) -> Iterator[_Span]:
        """What is secret in `line`."""
        at = 0
        for word in line.split(" "):
            for start, stop in self._word(word):
                # Where several words are one secret, so are the blanks between them.
                yield at + start, at + stop
            at += len(word) + 1
            if self._to_the_end:
                yield min(at, len(line)), len(line)
                return

    def _word(self, word: str) -> Iterator[_Span]:
        if self._until is None:
            yield from self._visible(word, 0)
            return
        yield -1, len(word)
        closing = self._until.search(word)
        if closing is not None:
            escaped_block = self._until is _PEM_END
            self._until = None
            if not escaped_block:
                yield from self._visible(word, closing.end())

    def _visible(self, word: str, begin: int) -> Iterator[_Span]:
        """Of `word` from `begin` on."""
        named, self._named = self._named, None
        scheme, self._scheme = self._scheme, False
        user, self._user = self._user, False
        block = word.find(_PEM_BEGIN, begin)
        if block >= 0:
            yield begin, len(word)
            if _PEM_END.search(word, block) is None:
                self._until = _PEM_END
            return
        if named is not None and _OPERATOR.match(word, begin):
            self._announce(named)
        if self._due:
            yield from self._secret(word, begin)
        elif scheme and len(word) - begin >= _SHORTEST_CREDENTIAL:
            yield begin, len(word)
        elif user:
            yield from self._password_of_user(word, begin)
        yield from self._ordinary(word, begin)

    def _announce(self, name: re.Match[str]) -> None:
        self._due = True
        self._to_the_end = self._to_the_end or name["header"] is not None

    def _secret(self, word: str, begin: int) -> Iterator[_Span]:
        """A word that was announced, unless it is but an operator, or only announces the next."""
        start = _behind_operators(word, begin)
        if start == len(word) or _IS_SCHEME.match(word, start):
            self._due = True
            return
        # A tag of YAML tells what the secret is, and does not hold it.
        self._due = word[start] == "!" and word[start + 1 :].isalpha()
        yield start, len(word)
        self._open_quote(word, start)

    def _open_quote(self, word: str, start: int) -> None:
        opening = _OPENING.match(word, start)
        if opening is not None and self._until is None:
            closing = (_CLOSING_ESCAPED if opening[1] else _CLOSING)[opening[2]]
            if closing.search(word, opening.end()) is None:
                self._until = closing

    def _password_of_user(self, word: str, begin: int) -> Iterator[_Span]:
        colon = word.find(":", begin)
        # Not of numbers, as in `docker run -u 1000:1000`.
        if colon >= 0 and not word[colon + 1 :].isdecimal():
            yield colon + 1, len(word)
            self._open_quote(word, begin)

    def _ordinary(self, word: str, begin: int) -> Iterator[_Span]:
        authority = _AUTHORITY.search(word, begin)
        if authority is not None:
            # Up to the last @: a password may hold one, unescaped against the rules.
            last = word.rfind("@", authority.end())
            if last >= 0 and (authority[1] or word.find(":", authority.end(), last) >= 0):
                yield authority.end(), last
        found = _GIVES_ITSELF_AWAY.search(word, begin)
        if found is not None:
            yield found.start(), len(word)
        last_end_tag = word.rfind("</")
        for name in _ANNOUNCED.finditer(word, begin):
            if name["operator"] is None:
                self._named = name
                self._due = self._due or word.startswith("-")
                continue
            tag = word.rfind("<", max(begin, name.start() - _LONGEST_TAG), name.start())
            if name["operator"] != ">":
                tag = -1
            if tag >= 0 and word.startswith("</", tag):
                continue
            self._announce(name)
            yield from self._secret(word, name.end())
            if tag >= 0 and self._until is None and not self._due and name.end() > last_end_tag:
                self._until = _TAG_END
        self._scheme = _ENDS_IN_SCHEME.search(word, begin) is not None
        user = _USER_AND_PASSWORD.match(word, begin)
        if user is not None:
            self._user = user.end() == len(word)
            yield from self._password_of_user(word, user.end())


def _behind_operators(word: str, start: int) -> int:
    operator = _OPERATOR.match(word, start)
    start = start if operator is None else operator.end()
    while start < len(word) and word[start] in _OPERATORS:
        start += 1
    return start
