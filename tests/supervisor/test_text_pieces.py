"""Output as text while it is written: whatever the pieces, the text is that of the whole."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from supervising import OWNER, supervising
from text_ground import cells_of, cut, odd_bytes, slow_terminal, small_bounds

from lastword.supervisor import TextRenderer
from lastword.supervisor.output import view_text
from lastword.supervisor.output._renderer import SEQUENCE_CHARACTERS
from lastword.supervisor.output._row import ROW_CELLS, Row


def in_pieces(pieces: list[bytes]) -> str:
    """The text of the pieces, joined."""
    renderer = TextRenderer()
    return "".join([renderer.feed(piece) for piece in pieces]) + renderer.finish()


@given(odd_bytes, st.lists(st.integers(min_value=0), max_size=5), st.booleans())
@example(b"\x1b(\x1b(\x1b(", [2], False)
@example(b"\x1b]0;t\x1b\\x", [6], False)
@example(b"a\xed\xa0b\n", [2], False)
@example(b"\x1b]0;toolong\x1b\\x\n", [3], True)
@example(b"\x1b]0;toolong\x1b\\x\n", [12], True)
@example(b"\x1b[0\n1\n", [3], False)
@example(b"\x1b(((\x1b( 0\n", [4], True)
@example(b"abcdefghijklmno\xe6\xbc\xa2\rx\n", [3], True)
def test_pieces_make_up_the_whole(data: bytes, places: list[int], small: bool) -> None:
    """Cut anywhere, and byte by byte; the same with bounds so small that all of them are reached."""
    with small_bounds() if small else nullcontext():
        whole = view_text(data).text
        assert in_pieces(cut(data, places)) == whole
        assert in_pieces([data[index : index + 1] for index in range(len(data))]) == whole


@given(st.lists(st.sampled_from("ab漢\r\b\t"), max_size=40).map("".join))
def test_a_line_is_what_a_slow_terminal_shows(line: str) -> None:
    """Drawing over, cell by cell, with tabs and wide characters."""
    assert cells_of(view_text(line.encode()).text) == slow_terminal(line)


@given(st.lists(st.sampled_from("ab漢\u0301\u200d\r\b"), max_size=40).map("".join))
@example("漢\u0301\b\u200d")
def test_marks_go_with_their_character(line: str) -> None:
    """Drawing over, with what has no cell of its own."""
    assert cells_of(view_text(line.encode()).text) == slow_terminal(line)


def test_a_line_is_returned_once_it_has_ended() -> None:
    """Until then it can be looked at, and drawn over; no character is split."""
    renderer = TextRenderer()
    assert renderer.feed(b"one\ntwo 10%") == "one\n"
    assert renderer.line == "two 10%"
    assert renderer.feed(b"\rtwo 20%\xe2\x82") == ""
    assert renderer.line == "two 20%"
    assert renderer.feed(b"\xac\x1b[3") == ""
    assert renderer.line == "two 20%€"
    assert renderer.feed(b"1m\x07\nthree") == "two 20%€\u2407\n"
    assert renderer.finish() == "three"
    assert (renderer.line, renderer.finish()) == ("", "")
    assert renderer.feed(b"as new\n") == "as new\n"


def test_what_never_ends_is_not_kept() -> None:
    """A line, a sequence and a heap of marks are given out beyond their bounds; nothing is lost."""
    renderer = TextRenderer()
    data = b"x" * (ROW_CELLS + 10)
    assert renderer.feed(data) == "x" * ROW_CELLS
    assert renderer.feed(b"\r" + b"y" * 3) == ""
    assert renderer.finish() == "yyy" + "x" * 7

    assert renderer.feed(b"\x1b]0;" + b"t" * (SEQUENCE_CHARACTERS - 4)) == ""
    assert renderer.line == ""
    assert renderer.feed(b"t") == ""
    assert renderer.line == "0;" + "t" * (SEQUENCE_CHARACTERS - 3)
    assert renderer.finish() == "0;" + "t" * (SEQUENCE_CHARACTERS - 3)

    assert renderer.feed(b"a" + "\u0301".encode() * (ROW_CELLS + 1)) == "a" + "\u0301" * ROW_CELLS
    assert renderer.finish() == "\u0301"


@pytest.mark.parametrize("size", [SEQUENCE_CHARACTERS, SEQUENCE_CHARACTERS + 1, SEQUENCE_CHARACTERS + 2])
@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
@pytest.mark.parametrize("moves", ["", "\r"])
def test_a_sequence_is_bounded(size: int, end: str, moves: str) -> None:
    """The same one is dropped, or shown, on a line where things move and on one where they do not, and in pieces."""
    title = "\x1b]0;".ljust(size - len(end), "t") + end
    data = f"a{moves}{title}\n".encode()
    text = view_text(data).text
    assert in_pieces([data[index : index + 1000] for index in range(0, len(data), 1000)]) == text
    assert ("ttt" in text) == (size > SEQUENCE_CHARACTERS + 1)


def test_a_rows_weight_is_that_of_its_marks() -> None:
    """Marks that are drawn over no longer count, so a line can be drawn over for ever."""
    row = Row()
    for _ in range(ROW_CELLS):
        row.write("a\u0301b\u0301\r")
    row.erase_right()
    row.write("a\u0301")
    assert row.take() == ""
    assert row.text == "a\u0301"


@pytest.mark.usefixtures("each_tier")
async def test_following_a_process() -> None:
    """Chunk by chunk, each cut where the process paused: within a line, a character and a sequence."""
    command = r"""for part in 'one\rtwo \342' '\202\254 \033[3' '1mred\033[m\nthree 10%%\r' 'three 20%%\n'; do
        printf "$part"; sleep 0.05; done"""
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER)
        renderer = TextRenderer()
        texts = [renderer.feed(chunk.data) async for chunk in process.follow()]
        assert "".join(texts) + renderer.finish() == "two € red\nthree 20%\n"
        whole = await process.read_output()
        assert whole.text.text == "two € red\nthree 20%\n"
