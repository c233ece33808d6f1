"""A ring file that somebody cuts short while it is written, as who needs room on the disk does: never a wrong byte."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ring_ground import everything, in_blocks, written
from supervising import OWNER, output_of, supervising

from lastword.supervisor import Containment, ErrorCode, SupervisorError
from lastword.supervisor.output import find_cursor
from lastword.supervisor.shim._header import segment_of
from lastword.supervisor.shim._ring import RingWriter

LIMIT = 1000
BLOCK = 100
whose = in_blocks(BLOCK)

# Of a file: nothing, a torn header, half a header's room, the header, a part of the index or of the bytes, all of it.
SIZES = (0, 50, 2048, 4096, 4500, 8192, 9000, 30_000, 1 << 20)


def _append(writer: RingWriter, upto: int, *, split: bool) -> None:
    at = writer.total
    while at < upto:
        end = min(upto, (at // BLOCK + 1) * BLOCK) if split else upto
        writer.append(memoryview(written(at, end)), whose(at) if split else 0)
        at = end


def _check(path: Path, *, split: bool) -> int:
    """All that can be read is right, of both streams and of each; how much there is, whichever way it is asked for."""
    kept = [sum(len(chunk.data) for chunk in everything(path, None, terminal=False))]
    if split:
        each = [everything(path, None, terminal=False, whose=whose, stream=stream) for stream in (0, 1)]
        kept.append(sum(len(chunk.data) for chunks in each for chunk in chunks))
    return min(kept)


@pytest.mark.parametrize("split", [False, True], ids=["one stream", "two streams"])
@pytest.mark.parametrize("rotate", [False, True], ids=["stop", "rotate"])
@given(
    acts=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, segment_of(LIMIT) + 2 * LIMIT)),
            st.tuples(st.just("append"), st.integers(1, LIMIT // 3)),
            st.tuples(st.just("cut"), st.sampled_from(SIZES)),
        ),
        max_size=12,
    )
)
def test_no_wrong_byte_is_read(rotate: bool, split: bool, acts: list[tuple[str, int]]) -> None:
    """What is gone is omitted as soon as more is written, or at the end; what comes after it is kept as ever."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ring"
        writer = RingWriter(str(path), LIMIT, rotate=rotate, split=split)
        cut_at = 0
        for act, size in acts:
            if act == "append":
                _append(writer, writer.total + size, split=split)
                writer.publish()
                wanted = min(writer.total, LIMIT) - cut_at if not rotate else min(writer.total - cut_at, LIMIT)
                assert _check(path, split=split) >= wanted
            elif path.exists() and size < path.stat().st_size:
                os.truncate(path, size)
                cut_at = writer.total
                try:
                    _check(path, split=split)
                except SupervisorError as error:
                    assert error.code is ErrorCode.SPOOL_CORRUPT  # noqa: PT017 -- it need not be raised
        writer.seal(proven=True)
        if path.exists():
            _check(path, split=split)
        writer.close()


@pytest.mark.parametrize("split", [False, True], ids=["one stream", "two streams"])
async def test_the_output_of_a_job_is_cut(split: bool, gate: Path, tmp_path: Path, each_tier: Containment) -> None:
    """The job is not the worse for it, what is gone is told as omitted, also after another opening."""
    size = 100_000
    script = f"head -c {size} /dev/zero | tr '\\0' x; read go <{gate}; head -c {size} /dev/zero | tr '\\0' y; exit 3"
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start(script, owner=OWNER, split_streams=split)
        await process.wait_output(size - 1)
        os.truncate(tmp_path / "output" / process.handle, 0)
        with pytest.raises(SupervisorError) as caught:
            await process.read_output()
        assert caught.value.code is ErrorCode.SPOOL_CORRUPT
        gate.write_text("\n")
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.total_bytes, outcome.output_error) == (3, 2 * size, None)
        assert (await process.read_output()).omitted == (0, size)
        assert await output_of(process) == b"y" * size
        handle = process.handle
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(handle, OWNER)
        assert (await process.read_output()).omitted == (0, size)
        assert await output_of(process) == b"y" * size


def test_what_comes_behind_the_cut_is_found_by_its_time(tmp_path: Path) -> None:
    """When it came is noted anew, though it came in the second of what is gone."""
    writer = RingWriter(str(tmp_path / "ring"), LIMIT, now=lambda: 1000.5)
    _append(writer, 300, split=False)
    writer.publish()
    os.truncate(tmp_path / "ring", 0)
    _append(writer, 400, split=False)
    writer.publish()
    assert find_cursor(tmp_path / "ring", None, 1000.5, terminal=False) == 300
    writer.close()
