"""What is shown of output is bounded as it is shown, begins and ends well, and never stands still."""

from __future__ import annotations

import base64

from hypothesis import given, settings
from hypothesis import strategies as st

from lastword.adapters.tools._excerpt import as_base64, as_text, end_as_text
from lastword.supervisor.output import view_text

PIECES = st.lists(
    st.sampled_from([b"line\n", b"\x1b[31mred\x1b[0m", "é€😀".encode(), b"\xff\x00\x01", b"a\rb", b"x" * 50, b"\n"]),
    max_size=60,
)
DATA = PIECES.map(b"".join) | st.binary(max_size=400)
LIMITS = st.integers(1, 300)


@settings(max_examples=200)
@given(DATA, LIMITS, st.booleans())
def test_a_beginning_fits_and_gets_on(data: bytes, limit: int, cut: bool) -> None:
    shown = as_text(data, limit, cut=cut)
    assert shown.output == view_text(data[: shown.taken]).text
    assert 0 < shown.taken <= len(data) or not data
    assert len(shown.output.encode()) <= limit or shown.taken <= 4
    if not cut and len(data) <= limit and len(view_text(data).text.encode()) <= limit:
        assert shown.taken == len(data)


@settings(max_examples=200)
@given(DATA, LIMITS)
def test_an_end_fits_and_is_the_end(data: bytes, limit: int) -> None:
    shown = end_as_text(data, limit)
    assert shown.output == view_text(data[len(data) - shown.taken :]).text
    assert 0 < shown.taken <= len(data) or not data
    assert len(shown.output.encode()) <= limit or shown.taken <= 4


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), min_size=1), st.integers(4, 40))
def test_no_character_is_split(text: str, limit: int) -> None:
    data = text.encode()
    assert "\ufffd" not in as_text(data, limit, cut=True).output.replace("\ufffd", "") or "\ufffd" in text
    begun = as_text(data, limit, cut=True)
    assert data[: begun.taken].decode() == text[: len(data[: begun.taken].decode())]
    ended = end_as_text(data, limit)
    assert text.endswith(data[len(data) - ended.taken :].decode())


def test_a_cut_is_at_a_lines_end_where_there_is_one_near() -> None:
    data = b"0123456789\n" * 10
    assert as_text(data, 40, cut=True).output == "0123456789\n" * 3
    assert end_as_text(data, 40).output == "0123456789\n" * 3
    assert as_text(b"x" * 100, 40, cut=True).output == "x" * 40


@settings(max_examples=100)
@given(st.binary(max_size=200), LIMITS)
def test_base64_is_exact_and_bounded_by_what_is_shown(data: bytes, limit: int) -> None:
    shown = as_base64(data, limit)
    assert base64.b64decode(shown.output) == data[: shown.taken]
    assert len(shown.output) <= max(4, limit)
    assert shown.taken > 0 or not data
