"""Secrets are cut out whole, wherever they come from, at a cost that grows with the text alone."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_sizes import SIZES

import lastword.notifier._scrubber as scrubber_module
from lastword.notifier import REDACTED, InvalidArgumentError, Scrubber

SECRET = "Sup3rS3cretValue"


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "DB_PASSWORD",
        "password",
        "AWS_SECRET_ACCESS_KEY",
        "MY_SECRET",
        "KEY",
        "DATABASE_DSN",
        "NPM_AUTH",
        "CREDENTIALS",
        "APIKEY",
        "Session-Cookie",
        "SSH_PASSPHRASE",
        "PGPASSWORD",
        "AUTHORIZATION",
        "OAUTH",
        "MY_BEARER",
        "JWT",
        "KEY1",
        "KEYS",
        "PGPASS",
        "DBPASS",
        "SSHKEY",
        "ENCRYPTIONKEY",
        "AccountKey",
        "CONNECTION_STRING",
        "SLACK_WEBHOOK_URL",
    ],
)
def test_values_of_secret_looking_variables_are_cut(name: str) -> None:
    """In any text, next to anything."""
    scrubbed = Scrubber({name: SECRET}).scrub(f"x{SECRET}y and {SECRET}")
    assert scrubbed == f"x{REDACTED}y and {REDACTED}"


@pytest.mark.parametrize("name", ["PATH", "HOME", "PWD", "OLDPWD", "KEYBOARD", "MONKEY", "AUTHOR", "SSH_AUTH_SOCK"])
def test_values_of_other_variables_are_not(name: str) -> None:
    """Names that only begin or end as a secret's do, and names that hold paths."""
    assert SECRET in Scrubber({name: SECRET}).scrub(f"a {SECRET} b")


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        (f"postgres://u:{SECRET}@h/db", SECRET),
        (f"redis://:{SECRET}@h", SECRET),
        (f"a http://u:{SECRET}@h b", SECRET),
        ("amqp://u:p%40ssw%2Frd@h", "p%40ssw%2Frd"),
        ("amqp://u:p%40ssw%2Frd@h", "p@ssw/rd"),
        ("amqp://u:p@ssw:rd@h", "p@ssw:rd"),
    ],
)
def test_the_password_of_a_url_is_a_secret_whatever_the_variable(value: str, secret: str) -> None:
    """On its own too, where nothing announces it, as written and as meant."""
    for name in ("DATABASE_URL", "DB_CONNECTION_STRING"):
        assert Scrubber({name: value}).scrub(f"a {secret} b") == f"a {REDACTED} b"
    assert (
        Scrubber({"DATABASE_URL": "http://user@h http://h/a:b user:passw http://u:short@h"}).scrub("short h")
        == "short h"
    )


def test_one_text_for_values_is_one_value() -> None:
    """Not its letters."""
    assert Scrubber(values="secret").scrub("the secret rest") == f"the {REDACTED} rest"


@pytest.mark.parametrize("values", [b"secret", [1], [None], ["a", b"b"]], ids=repr)
def test_what_is_no_text_is_not_learned(values: Any) -> None:
    """Refused by name, all or nothing."""
    with pytest.raises(InvalidArgumentError, match="values: must all be texts"):
        Scrubber(values=values)


def test_a_value_can_be_learned_while_a_text_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread may: the text is scrubbed by what was known when it came."""
    scrubber = Scrubber(values=["one", "two"])
    occurrences = scrubber_module._occurrences  # pyright: ignore[reportPrivateUsage] # where the other thread comes in

    def learning_meanwhile(text: str, value: str, period: int) -> Any:
        scrubber.register(value + "more")
        return occurrences(text, value, period)

    monkeypatch.setattr(scrubber_module, "_occurrences", learning_meanwhile)
    assert scrubber.scrub("a one b two c") == f"a {REDACTED} b {REDACTED} c"


def test_short_values_of_variables_are_passed_over_and_registered_ones_are_not() -> None:
    """A flag called TOKEN=1 would blot every 1; who registers a value means it."""
    environment = {"USE_TOKEN": "1", "TOKEN": "true", "MY_TOKEN": "12345", "KEY": "", "SECRET": "a     "}
    assert Scrubber(environment).scrub("1 true 12345 a") == "1 true 12345 a"
    scrubber = Scrubber(environment, values=["12345", ""])
    scrubber.register("ab")
    assert scrubber.scrub("1 12345 ab c") == f"1 {REDACTED} {REDACTED} c"


def test_values_that_overlap_leave_no_rest_of_either() -> None:
    """One within the other, one into the other, one into itself."""
    scrubber = Scrubber(values=["abcdef", "defghi", "cd", "xyxyx", "aab"])
    assert scrubber.scrub("1abcdefghi2") == f"1{REDACTED}2"
    assert scrubber.scrub("1xyxyxyxyx2") == f"1{REDACTED}2"
    assert scrubber.scrub("1aabaab2") == f"1{REDACTED}2"
    assert scrubber.scrub("1cd2") == f"1{REDACTED}2"


@given(
    values=st.lists(st.text("ab", min_size=2, max_size=5), min_size=1, max_size=3),
    text=st.text("ab.", max_size=30),
)
def test_exactly_what_a_value_covers_is_cut(values: list[str], text: str) -> None:
    """Against an oracle that marks every character that any occurrence covers."""
    covered = [False] * len(text)
    for value in values:
        for start in range(len(text) - len(value) + 1):
            if text.startswith(value, start):
                covered[start : start + len(value)] = [True] * len(value)
    marked = "".join("#" if hidden else character for hidden, character in zip(covered, text, strict=True))
    assert re.sub("#+", REDACTED, marked) == Scrubber(values=values).scrub(text)


def test_a_value_of_several_lines_is_known_by_each_and_in_one() -> None:
    """As texts that are made one line show it, and as texts that are cut into lines do."""
    scrubber = Scrubber(values=["first line of it\n  second line\nz"])
    for text in ("a first line of it second line z b", "a first line of it\nsecond line\r\nz b"):
        assert scrubber.scrub(text) == f"a {REDACTED} b"
    assert scrubber.scrub("only the second line here") == f"only the {REDACTED} here"


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        (f"password={SECRET} next", f"password={REDACTED} next"),
        (f"PASSWORD:{SECRET}", f"PASSWORD:{REDACTED}"),
        (f"password: {SECRET} next", f"password: {REDACTED} next"),
        (f"password = {SECRET} next", f"password = {REDACTED} next"),
        (f"password ={SECRET} next", f"password ={REDACTED} next"),
        (f"db_password_2={SECRET}", f"db_password_2={REDACTED}"),
        (f"AWS_SECRET_ACCESS_KEY={SECRET}", f"AWS_SECRET_ACCESS_KEY={REDACTED}"),
        (f"STRIPE_KEY={SECRET}", f"STRIPE_KEY={REDACTED}"),
        (f'{{"api_key":"{SECRET}","x":1}}', f'{{"api_key":{REDACTED}'),
        (f'"token": "{SECRET}" next', f'"token": {REDACTED} next'),
        (f"password='{SECRET} and {SECRET}' next", f"password={REDACTED} next"),
        (f'password: "{SECRET} and {SECRET}', f"password: {REDACTED}"),
        (f"password={SECRET},{SECRET};{SECRET}", f"password={REDACTED}"),
        (f"--password {SECRET} next", f"--password {REDACTED} next"),
        (f"--api-key={SECRET}", f"--api-key={REDACTED}"),
        (f"-token {SECRET}", f"-token {REDACTED}"),
        (f"https://user:{SECRET}@host/path", f"https://{REDACTED}@host/path"),
        (f"postgres://user:p@{SECRET}@host/db", f"postgres://{REDACTED}@host/db"),
        (f"https://{SECRET}@host", f"https://{REDACTED}@host"),
        (f"https://host/?token={SECRET}&x=1", f"https://host/?token={REDACTED}"),
        (f"https://host/?key={SECRET}", f"https://host/?key={REDACTED}"),
        (f"Authorization: Bearer {SECRET} next", f"Authorization: {REDACTED}"),
        (f"authorization:bearer {SECRET} next", f"authorization:bearer {REDACTED}"),
        (f"Basic {SECRET}", f"Basic {REDACTED}"),
        (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{SECRET} next", f"{REDACTED} next"),
        (f"ghp_{SECRET}{SECRET}, next", f"{REDACTED} next"),
        (f"sk-proj-{SECRET}", REDACTED),
        ("AKIAIOSFODNN7EXAMPLE", REDACTED),
        (f"(xoxb-{SECRET})", f"({REDACTED}"),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY----- next",
            f"{REDACTED} RSA PRIVATE KEY----- next",
        ),
        (f"-----BEGIN PRIVATE KEY----- {SECRET}", REDACTED),
    ],
)
def test_what_looks_like_a_secret_is_cut(text: str, scrubbed: str) -> None:
    """Whole, and nothing of what stands before it."""
    assert Scrubber().scrub(text) == scrubbed


ANNOUNCEMENTS = [
    "password := X",
    "password:=X",
    "password => X",
    "password=>X",
    "password == X",
    "password ?= X",
    "password?=X",
    "password: | X",
    "token -> X",
    "token->X",
    "token \u21d2 X",
    "password\uff1aX",
    "password is: X",
    "secret: !vault X",
    '<input name="password" value="X">',
    '<add key="ApiKey" value="X"/>',
    "password | X",
    'password = "a X b"',
    "Authorization: AWS4-HMAC-SHA256 Credential=a, Signature=X",
    "Authorization: X",
    "Authorization : Custom a=b, c=X",
    "Proxy-Authorization: NTLM X",
    "Cookie: theme=dark; sid=X",
    "Set-Cookie: sid=a; X",
    'curl -H "authorization: Custom abc X"',
    "(Bearer X)",
    "header=Bearer X",
    "Bearer: X",
    '"Bearer X"',
    "[basic X]",
    "token: Bearer X",
    "token=(Bearer X)",
    "key=X",
    "key: X",
    "auth=X",
    "auth: X",
    "pass=X",
    "sig=X",
    "?sig=X&se=1",
    "AccountKey=X;EndpointSuffix=a",
    "SharedAccessKey=X",
    "accountKey: X",
    "KEY_2=X",
    "STRIPE_KEY_LIVE=X",
    "api key: X",
    "secret key: X",
    "secret key = X",
    "access key => X",
    "curl -u a:X https://h",
    "curl -ua:X https://h",
    "curl --user=a:X",
    "curl --proxy-user a:X",
    "curl -u 'a:b X' https://h",
    "//u:X@h",
    "see //u:X@h/p",
    r"https:\/\/u:X@h",
    r"{\"password\":\"X\"}",
    r"{\"password\": \"a X\"}",
    r'password="a\"b X"',
    "{'password': u'a X'}",
    '{"password":"a b","token":"c X"}',
    "params[password]=X",
    "os.environ['DB_PASSWORD'] = X",
    "<password>X</password>",
    "<password>a X b</password>",
    "<db_password>X",
    "token%3DX",
    "token%3dX",
    "password: token: X",
    "key=abc,Cookie: X",
    "password=x;Authorization: Custom X",
    "jwt=X",
    "bearer=X",
    "client-key: X",
    "PGPASS=X",
    "connection_string=X",
    "SLACK_WEBHOOK_URL=https://h/X",
    *(f"a {prefix}X" for prefix in ("whsec_", "gsk_", "xai-", "r8_", "dckr_pat_", "lin_api_", "figd_", "sntrys_")),
]


@pytest.mark.parametrize("text", ANNOUNCEMENTS)
def test_what_is_announced_is_cut_however_it_is_announced(text: str) -> None:
    """Operators, headers, schemes, flags, quotes, tags: X is the secret."""
    assert SECRET not in Scrubber().scrub(text.replace("X", SECRET))


MARKS = [
    "password",
    "Bearer",
    "@",
    "//",
    ":",
    "=",
    '"',
    "-----BEGIN",
    "-----END",
    "Authorization",
    "token",
    "-u",
    ">",
    " ",
]


@given(
    text=st.lists(st.sampled_from([*MARKS, *ANNOUNCEMENTS, "X", "X", " ", " ", "host", "-----"]), max_size=9).map(
        "".join
    ),
    values=st.lists(st.sampled_from(MARKS) | st.text('Besr:@/="pa -', min_size=1, max_size=4), max_size=4),
    data=st.data(),
)
def test_what_is_cut_without_values_is_cut_with_any(text: str, values: list[str], data: st.DataObject) -> None:
    """A value that is part of what announces a secret does not take the announcement away: all is found, then cut."""
    secret = "\u03a9" * 9
    text = text.replace("X", secret)
    start = data.draw(st.integers(0, len(text)))
    values = [*values, text[start : start + data.draw(st.integers(0, 20))]]
    cut = scrubber_module.one_line(text)
    shown = Scrubber().scrub(text).count("\u03a9")
    assert Scrubber(values=values).scrub(text).count("\u03a9") <= shown <= cut.count("\u03a9")


PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("scrubber", "text"),
    [
        (Scrubber({"DB_PASSWORD": "password"}), "password=X"),
        (Scrubber({"AUTH_TOKEN": "Bearer"}), "Authorization: Bearer X"),
        (Scrubber({"AUTH_TOKEN": "Bearer"}), "Bearer X"),
        (Scrubber({"TLS_KEY": PEM.format("MIIabcdef")}), PEM.format("X")),
        (Scrubber(values=["@hostname"]), "postgres://u:X@hostname/db"),
        (Scrubber(values=["://u"]), "postgres://u:X@hostname/db"),
    ],
)
def test_a_value_takes_no_announcement_away(scrubber: Scrubber, text: str) -> None:
    """Each of these values is a word or mark that another secret is known by."""
    assert SECRET not in scrubber.scrub(text.replace("X", SECRET))


def test_the_frame_of_a_key_is_no_secret() -> None:
    """Of a registered PEM the lines within are; its first and its last are those of every other."""
    assert repr(Scrubber(values=[PEM.format("MIIabcdef")])) == "<Scrubber: 2 values>"


@pytest.mark.parametrize(
    "text",
    [
        "spawn_failed:ENOENT",
        "spawn_failed:not_found:ENOENT",
        "teardown_failed:EPERM",
        "tree_not_proven",
        "auth_failed:EPERM",
        "key_not_found:ENOENT",
        "KeyError: 'x'",
        "author: me",
        "passed: 3, failed: 2",
        "bypass=1 compass: north",
        "signal: 9",
        "docker run -u 1000:1000 image",
        "python -u script.py",
        "see https://host//path and a//b",
        "forgot password? Click here",
        "a <b> c </b> d",
        "teardown_failed:ESRCH",
        "start_cancelled",
        "store_unavailable:ENOSPC tree_not_proven",
        "wrong password for user",
        "basic auth is off",
        "the token was not there",
        "exit 3: a=b c:d",
        "https://host/path?x=1",
        "monkey=banana",
        "risk-free disk-usage",
        "",
    ],
)
def test_what_does_not_is_kept(text: str) -> None:
    """Our own codes above all."""
    assert Scrubber().scrub(text) == text


def test_a_text_is_made_one_line_that_reads_as_it_is() -> None:
    """No control character, no line separator, nothing that turns the direction of writing, valid UTF-8."""
    text = " a\n\tb\x00c\x1b[31md\u2028e\u202ef\u2066g\x85h\ud800i\u00a0j "
    assert Scrubber().scrub(text) == "a b c [31md e f g h?i j"


def test_a_scrubber_shows_how_much_it_knows_and_never_what() -> None:
    """In a traceback or a log."""
    scrubber = Scrubber({"KEY": SECRET}, values=["ab", "cd", "ab"])
    assert repr(scrubber) == "<Scrubber: 3 values>"
    assert repr(Scrubber()) == "<Scrubber: 0 values>"
    assert SECRET not in str(vars(Scrubber)) + str(Scrubber({"KEY": SECRET}))


@given(st.text(st.sampled_from("ab =:\"'-/@\n") | st.characters()), st.text(min_size=8, max_size=20))
def test_whatever_the_text_a_known_value_is_not_in_what_is_left(around: str, value: str) -> None:
    """In front, behind and in between."""
    known = scrubber_module.one_line(value)
    scrubbed = Scrubber(values=[value]).scrub(around + value + around + value)
    assert not known or known in REDACTED or known not in scrubbed.replace(REDACTED, "\x00")


# Before the megabytes, since a pattern that hangs inside the matcher cannot be interrupted.
def test_no_quantifier_is_without_a_bound() -> None:
    """Of any pattern of the module, read as Python's own parser reads it."""
    patterns = [value.pattern for value in vars(scrubber_module).values() if is_pattern(value)]
    assert len(patterns) >= 4
    for pattern in patterns:
        assert _longest(pattern) < 400


def is_pattern(value: object) -> TypeGuard[re.Pattern[str]]:
    return isinstance(value, re.Pattern)


def _longest(pattern: str) -> int:
    parser: ModuleType = getattr(re, "_parser")  # noqa: B009 - typeshed has no name for it
    width: tuple[int, int] = parser.parse(pattern).getwidth()
    return width[1]


HOSTILE = {
    "password": "password",
    "passwords": "password ",
    "assignments": "password=",
    "names": "_key",
    "authorities": "://",
    "at signs": "://@",
    "tokens": "eyJ",
    "prefixes": "sk-",
    "schemes": "bearer ",
    "quotes": '" ',
    "assigned quotes": 'token=" ',
    "blocks": "-----BEGIN ",
    "dashes": "-",
    "flags": "--password ",
    "separators": "=:",
    "one letter": "a",
    "operators": "token>",
    "tags": "<token>x",
    "end tags": "</token>",
    "escaped quotes": 'token=\\"',
    "open quotes": "token='\"",
    "users": "-u ",
    "backslashes": "\\",
    "secrets": SECRET,
    "NULs": "\x00",
}


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("size", SIZES)
def test_anything_is_scrubbed(unit: str, size: int) -> None:
    """Under the suite's own limit against hanging; that the cost is linear is counted below and measured in bench/."""
    text = (HOSTILE[unit] * (size // len(HOSTILE[unit]) + 1))[:size]
    scrubbed = Scrubber({"KEY": SECRET}, values=["a" * 4096, "a" * 9000, "password" * 64, "password" * 4096]).scrub(
        text
    )
    assert SECRET not in scrubbed


class Counted(str):
    """A text that counts what is asked of it."""

    asked = 0

    def find(self, *args: Any) -> int:
        Counted.asked += 1
        return super().find(*args)

    def startswith(self, *args: Any) -> bool:
        Counted.asked += 1
        return super().startswith(*args)


@given(st.text("ab", min_size=1, max_size=12))
def test_a_period_is_the_least_shift_at_which_a_value_agrees_with_itself(value: str) -> None:
    """By its definition."""
    expected = next(shift for shift in range(1, len(value) + 1) if value.startswith(value[shift:]))
    assert expected == scrubber_module._period(value)  # pyright: ignore[reportPrivateUsage] # what is counted by


@pytest.mark.parametrize("value", ["ab" * 500, "a" * 1000, "aab" * 300 + "a", "abcabd" * 100, "ab" * 5000, "a" * 9000])
def test_a_value_that_repeats_itself_costs_no_more_than_the_text_is_long(value: str) -> None:
    """Counted, not timed: one question for each period of the value that the text repeats."""
    period = scrubber_module._period(value)  # pyright: ignore[reportPrivateUsage] # what is counted is inside
    assert period < len(value)
    for length in (20_000, 40_000):
        Counted.asked = 0
        text = Counted((value[:period] * (length // period + 1))[:length])
        spans = list(scrubber_module._occurrences(text, value, period))  # pyright: ignore[reportPrivateUsage] # the same
        assert len(spans) == 1
        assert Counted.asked <= length // period
