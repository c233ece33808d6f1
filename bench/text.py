"""What the text view costs: a mebibyte against a quarter of it, and against plainly decoding it.

Run it with `make bench`.  Paired: each round views both sizes and decodes once, in turn; figures are medians of the
rounds, in CPU time of this process.  Four times the data should take four times as long, whatever the data: the
column says how many times it did.  It exits 0 whatever they are: figures are for reading.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from lastword.supervisor import TextRenderer
from lastword.supervisor.output import view_text

ROUNDS = 9
SMALL, LARGE = 256 * 1024, 1024 * 1024
CHUNK = 32 * 1024  # what a reader gets at once by default

KINDS: dict[str, bytes] = {
    "plain log": b"2026-03-14 15:09:26 INFO something was done in 12 ms\n",
    "plain, no ASCII": "2026-03-14 приложение сделало что-то за 12 мс\n".encode(),
    "CR LF": b"2026-03-14 15:09:26 INFO something was done in 12 ms\r\n",
    "colours": b"\x1b[32m2026-03-14\x1b[0m INFO \x1b[1msomething\x1b[0m was done in 12 ms\n",
    "progress": b"\r\x1b[K 42% [=========>          ] 12.5 MB/s",
    "escape": b"\x1b",
    "openers": b"\x1b[",
    "unfinished OSC": b"\x1b]0;",
    "unfinished DCS": b"\x1bP",
    "one long OSC": b"\x1b]0;" + b"t" * (LARGE // 128),
    "combining": "\u0301".encode(),
    "CR": b"a\r",
    "backspace": b"a\b",
    "wide, drawn over": "漢\ba".encode(),
    "erasing": b"x\x1b[2K",
    "no UTF-8": b"\xff",
}


def cpu_seconds(run: Callable[[bytes], object], data: bytes) -> float:
    """How long it computes."""
    start = time.process_time()
    run(data)
    return time.process_time() - start


def plainly(data: bytes) -> str:
    """What is compared with."""
    return data.decode("utf-8", "replace")


def in_chunks(data: bytes) -> None:
    """As a follower renders it."""
    renderer = TextRenderer()
    for start in range(0, len(data), CHUNK):
        renderer.feed(data[start : start + CHUNK])
    renderer.finish()


def main() -> None:
    """Print a line for each kind of output."""
    print(f"{'':18} {'1 MiB':>9} {'vs 256 KiB':>11} {'vs decode':>10} {'in chunks':>10}")
    for name, unit in KINDS.items():
        small, large = (unit * (size // len(unit)) for size in (SMALL, LARGE))
        rounds = [
            (
                cpu_seconds(view_text, small),
                cpu_seconds(view_text, large),
                cpu_seconds(plainly, large),
                cpu_seconds(in_chunks, large),
            )
            for _ in range(ROUNDS)
        ]
        whole = statistics.median(each[1] for each in rounds)
        growth = statistics.median(each[1] / each[0] for each in rounds)
        plain = statistics.median(each[1] / each[2] for each in rounds)
        chunks = statistics.median(each[3] for each in rounds)
        print(f"{name:18} {whole * 1e3:6.1f} ms {growth:10.1f}x {plain:9.1f}x {chunks * 1e3:7.1f} ms")


if __name__ == "__main__":
    main()
