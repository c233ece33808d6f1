"""Draws the life of a process from the table that the library itself goes by.

    python docs/state_diagram.py        writes docs/_generated/process_states.svg

A state's column is how many steps lead to it by the longest way; within a column, states that more than one state leads
to stand outermost, so that no line runs through a box.  A test compares the file with what the table gives.
"""

from __future__ import annotations

from pathlib import Path

from lastword.notifier import INITIAL_STATE, TRANSITIONS, ProcessState

TARGET = Path(__file__).parent / "_generated" / "process_states.svg"

WIDTH, HEIGHT = 132, 30  # of a box
ACROSS, DOWN = 240, 44  # from one box to the next
MARGIN = 12


def columns() -> list[list[ProcessState]]:
    """The states, column by column, each from top to bottom."""
    depth = {INITIAL_STATE: 0}
    todo = [INITIAL_STATE]
    while todo:
        state = todo.pop()
        for following in TRANSITIONS.get(state, ()):
            if depth.get(following, -1) <= depth[state]:
                depth[following] = depth[state] + 1
                todo.append(following)
    ordered = [[state for state in ProcessState if depth[state] == column] for column in range(max(depth.values()) + 1)]
    return [_outermost_last(column) for column in ordered]


def _outermost_last(states: list[ProcessState]) -> list[ProcessState]:
    shared = [s for s in states if sum(s in following for following in TRANSITIONS.values()) > 1]
    own = [s for s in states if s not in shared]
    half = len(shared) // 2
    return shared[:half] + own + shared[half:]


def draw() -> str:
    """The diagram, as SVG: boxes for states (round ones are last words), a line for each step of the table."""
    tallest = max(len(column) for column in columns())
    height = 2 * MARGIN + (tallest - 1) * DOWN + HEIGHT
    width = 2 * MARGIN + (len(columns()) - 1) * ACROSS + WIDTH
    at: dict[ProcessState, tuple[int, int]] = {}
    for x, column in enumerate(columns()):
        top = MARGIN + (tallest - len(column)) * DOWN // 2
        for y, state in enumerate(column):
            at[state] = (MARGIN + x * ACROSS, top + y * DOWN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        '     font-family="sans-serif" font-size="13" fill="none" stroke="#7a7a7a" stroke-width="1.2">',
        '  <defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        '    <path d="M0 0 8 4 0 8z" fill="#7a7a7a" stroke="none"/></marker></defs>',
    ]
    for state in ProcessState:
        for following in sorted(TRANSITIONS.get(state, ())):
            parts.append(_line(at[state], at[following]))
    parts += [_box(state, *at[state]) for state in ProcessState]
    return "\n".join([*parts, "</svg>", ""])


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x0, y0, x1, y1 = start[0] + WIDTH, start[1] + HEIGHT // 2, end[0], end[1] + HEIGHT // 2
    gap = ACROSS - WIDTH
    if x1 - x0 == gap:
        bends = f"C{x0 + gap // 2} {y0} {x0 + gap // 2} {y1} {x1} {y1}"
    else:
        # It has to pass a column: first to the height that it ends at, then level.
        bends = f"C{x0 + gap // 3} {y0} {x0 + gap // 3} {y1} {x0 + gap} {y1} L{x1} {y1}"
    return f'  <path d="M{x0} {y0} {bends}" marker-end="url(#to)"/>'


def _box(state: ProcessState, x: int, y: int) -> str:
    round_by = HEIGHT // 2 if state.terminal else 3
    middle = f'x="{x + WIDTH // 2}" y="{y + HEIGHT // 2 + 4}" text-anchor="middle"'
    return (
        f'  <rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{round_by}" fill="#f4f4f4"/>'
        f'<text {middle} fill="#222" stroke="none">{state.name.lower()}</text>'
    )


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(draw(), encoding="utf-8")
