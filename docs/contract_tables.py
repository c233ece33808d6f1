"""Prints the contract's tables from the code that goes by them.

    python docs/contract_tables.py      writes docs/_generated/*.inc

docs/contract.md includes them; a test compares the files with what the code gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path

from lastword.notifier import (
    LIFECYCLE_SHAPES,
    TRANSITIONS,
    LifecycleKind,
    Presence,
    ProcessState,
    TerminalReason,
    Visibility,
)

TARGET = Path(__file__).parent / "_generated"

PRESENCE = {Presence.REQUIRED: "set", Presence.FORBIDDEN: "not set", Presence.OPTIONAL: "either"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def named(member: IntEnum) -> str:
    """A member as the docs show it: its number on the wire and its name."""
    return f"{member.value} {member.name.lower()}"


def lifecycle_shapes() -> str:
    """Which kind goes with which state, reasons and fields."""
    rows = (
        [
            named(kind),
            named(state),
            ", ".join(named(reason) for reason in sorted(shape.reasons)),
            PRESENCE[shape.started],
            PRESENCE[shape.finished],
            PRESENCE[shape.exit_code],
        ]
        for (kind, state), shape in LIFECYCLE_SHAPES.items()
    )
    return table(["kind", "state", "reason", "started at", "finished at", "exit code"], rows)


def numbers() -> str:
    """What the numbers on the wire mean."""
    domains = {"kind": LifecycleKind, "state": ProcessState, "reason": TerminalReason, "visibility": Visibility}
    rows = ([name, ", ".join(named(member) for member in domain)] for name, domain in domains.items())
    return table(["field", "numbers"], rows)


def transitions() -> str:
    """What can follow what."""
    rows = (
        [state.name.lower(), ", ".join(to.name.lower() for to in sorted(following)) or "nothing: a last word"]
        for state in ProcessState
        for following in [TRANSITIONS.get(state, frozenset[ProcessState]())]
    )
    return table(["state", "can become"], rows)


def files() -> dict[Path, str]:
    """Each file with what belongs in it."""
    return {
        TARGET / "lifecycle_shapes.inc": lifecycle_shapes(),
        TARGET / "numbers.inc": numbers(),
        TARGET / "transitions.inc": transitions(),
    }


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
