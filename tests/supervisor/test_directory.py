"""The state directory: one live owner, one session for ever, private."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from lastword.supervisor import DirectoryInUseError, ErrorCode, SupervisorError, hold_directory, view_directory

HOLDER = """
import sys
from uuid import uuid4
from lastword.supervisor import hold_directory
with hold_directory(sys.argv[1], session_id=None, new_id=uuid4) as held:
    print(held.session_id, flush=True)
    sys.stdin.read()
"""


def _session(path: Path, session_id: UUID | None = None) -> UUID:
    with hold_directory(path, session_id=session_id, new_id=uuid4) as held:
        return held.session_id


def test_a_new_directory_is_private_and_names_its_session_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    first = _session(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
    assert _session(path) == first


def test_a_new_directory_takes_the_session_id_it_is_given(tmp_path: Path) -> None:
    wanted = uuid4()
    assert _session(tmp_path / "state", wanted) == wanted
    assert _session(tmp_path / "state", wanted) == wanted


def test_another_session_id_is_refused_and_the_directory_is_let_go(tmp_path: Path) -> None:
    known = _session(tmp_path / "state")
    with pytest.raises(SupervisorError, match=str(known)) as caught:
        _session(tmp_path / "state", uuid4())
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert _session(tmp_path / "state") == known


def test_a_second_holder_in_the_same_process_is_refused_also_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "state")
    with hold_directory(tmp_path / "state", session_id=None, new_id=uuid4) as held:
        for name in ("state", "link"):
            with pytest.raises(DirectoryInUseError, match="this process"):
                _session(tmp_path / name)
    assert _session(tmp_path / "link") == held.session_id


def test_a_holder_in_another_process_excludes_us_until_it_dies(tmp_path: Path) -> None:
    """Killed, not closed: the kernel lets go of the lock."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        known = UUID(holder.stdout.readline().strip())
        with pytest.raises(DirectoryInUseError, match="another process"):
            _session(tmp_path / "state")
        holder.kill()
        holder.wait()
    assert _session(tmp_path / "state") == known


def test_a_failed_attempt_does_not_drop_the_lock_of_the_one_that_holds(tmp_path: Path) -> None:
    """Closing any descriptor of the lock file would: the registry refuses before one is opened."""
    path = tmp_path / "state"
    with hold_directory(path, session_id=None, new_id=uuid4):
        with pytest.raises(DirectoryInUseError, match="this process"):
            _session(path)
        asked = subprocess.run(
            [sys.executable, "-c", HOLDER, str(path)], input="", capture_output=True, text=True, check=False
        )
    assert "DirectoryInUseError" in asked.stderr


def test_a_shared_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir(mode=0o755)
    (path / "somebody's.txt").touch()
    with pytest.raises(SupervisorError, match="0700") as caught:
        _session(path)
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [file.name for file in path.iterdir()] == ["somebody's.txt"]


def test_an_empty_shared_folder_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir(mode=0o755)
    _session(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"not an id", b"\xff\xfe", b""], ids=["words", "not text", "empty"])
def test_a_spoiled_session_id_is_told_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    _session(tmp_path / "state")
    file = tmp_path / "state" / "session.id"
    file.write_bytes(content)
    with pytest.raises(SupervisorError) as caught:
        _session(tmp_path / "state")
    assert caught.value.code is ErrorCode.MANIFEST_CORRUPT
    assert file.read_bytes() == content


def test_a_lost_session_id_is_told_and_never_replaced_by_a_fresh_one(tmp_path: Path) -> None:
    """The store and the journal know whose they are, and would not open for another."""
    known = _session(tmp_path / "state")
    (tmp_path / "state" / "supervisor.db").touch()
    (tmp_path / "state" / "session.id").unlink()
    with pytest.raises(SupervisorError, match="has lost its") as caught:
        _session(tmp_path / "state")
    assert caught.value.code is ErrorCode.MANIFEST_CORRUPT
    assert not (tmp_path / "state" / "session.id").exists()
    assert _session(tmp_path / "state", known) == known
    assert _session(tmp_path / "state") == known


def test_a_path_that_is_a_file_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SupervisorError) as caught:
        _session(tmp_path / "file")
    assert caught.value.code is ErrorCode.INVALID_SETTINGS


def test_a_relative_path_means_the_folder_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with hold_directory("state", session_id=None, new_id=uuid4) as held:
        os.chdir("/")
        assert held.path == tmp_path / "state"


def _block_lock(path: Path) -> None:
    (path / "lock").mkdir()


def _block_draft(path: Path) -> None:
    (path / "session.new").mkdir()


def _block_id(path: Path) -> None:
    (path / "session.id").mkdir()


@pytest.mark.parametrize("block", [_block_lock, _block_draft, _block_id])
def test_what_the_system_refuses_is_a_typed_error_that_shows_no_path(
    tmp_path: Path, block: Callable[[Path], None]
) -> None:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    block(path)
    with pytest.raises(SupervisorError) as caught:
        _session(path)
    assert caught.value.code in (ErrorCode.INVALID_SETTINGS, ErrorCode.MANIFEST_CORRUPT)
    assert str(tmp_path) not in "".join(traceback.format_exception(caught.value)[-1:])
    assert caught.value.__suppress_context__
    assert not isinstance(caught.value.__cause__, OSError)
    # It is let go: whoever makes room for it can open it.
    for file in path.iterdir():
        if file.is_dir():
            file.rmdir()
    _session(path)


@pytest.mark.parametrize("act", [_session, view_directory])
@pytest.mark.parametrize("path", ["a\0b", "\ud800", b"bytes", 7, None])
def test_what_is_no_path_is_a_typed_error(path: Any, act: Callable[[Any], object]) -> None:
    """The same for who opens it and who looks into it."""
    with pytest.raises(SupervisorError, match="the state directory") as caught:
        act(path)
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
