"""What the text view costs: in proportion to its input, whatever the input; counted, not timed."""

from __future__ import annotations

import pytest
from text_ground import HOSTILE_UNITS, Work

from lastword.supervisor import TextRenderer
from lastword.supervisor.output import _row, view_text

# Both within one row: what is quadratic in a row shows.
SMALL, LARGE = 4 * 1024, 16 * 1024

# Work for each byte: a dozen lines of Python, and each character looked at a few times.
WORK_PER_BYTE = 60


@pytest.mark.parametrize("unit", HOSTILE_UNITS, ids=lambda unit: repr(unit[:12]))
@pytest.mark.parametrize("before", [b"", b"a" * SMALL, "漢\u0301".encode() * (SMALL // 5)], ids=["", "row", "wide"])
def test_work_is_linear(unit: bytes, before: bytes) -> None:
    """Four times as much costs four times as much, and no byte more than a little; also behind a long row."""

    def view(size: int) -> None:
        view_text(before * (size // SMALL) + unit * (size // len(unit)))

    small, large = Work().of(view, SMALL), Work().of(view, LARGE)
    assert large <= 5 * small
    assert large <= WORK_PER_BYTE * (LARGE + len(before) * (LARGE // SMALL))


@pytest.mark.parametrize("unit", HOSTILE_UNITS, ids=lambda unit: repr(unit[:12]))
def test_work_in_pieces_is_linear(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where a process writes it in small pieces, and rows end often."""
    monkeypatch.setattr(_row, "ROW_CELLS", 1024)

    def render(size: int) -> None:
        renderer = TextRenderer()
        data = unit * (size // len(unit))
        for start in range(0, len(data), 512):
            renderer.feed(data[start : start + 512])
        renderer.finish()

    small, large = Work().of(render, SMALL), Work().of(render, LARGE)
    assert large <= 5 * small
    assert large <= WORK_PER_BYTE * LARGE


def test_the_counter_counts() -> None:
    """What would be quadratic is seen as such: a row that is joined again for each of its characters."""

    def quadratic(size: int) -> None:
        row = _row.Row()
        for _ in range(size):
            row.write("a")
            assert row.text

    small, large = Work().of(quadratic, 500), Work().of(quadratic, 2000)
    assert large > 10 * small
