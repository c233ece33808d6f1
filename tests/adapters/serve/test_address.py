"""The socket is private, in its directory whatever that is called, and replaced only where nobody listens."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from serve_ground import served, socket_of
from supervising import nothing_left

import lastword
from lastword.adapters.serve import AddressError, NotServedError, connect, serve
from lastword.adapters.serve import _address as address
from lastword.adapters.serve._address import connect_socket, listening


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_the_socket_is_private_and_gone_with_its_server(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with served(tmp_path):
            assert mode_of(socket_of(tmp_path)) == 0o600
            assert mode_of(tmp_path) == 0o700
    finally:
        os.umask(before)
    assert not socket_of(tmp_path).exists()


def test_nobody_gets_in_before_it_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    chmod = os.chmod

    def knock(path: str, mode: int) -> None:
        with socket.socket(socket.AF_UNIX) as stranger, pytest.raises(ConnectionRefusedError):
            stranger.connect(path)
        asked.append(mode)
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", knock)
    with listening(tmp_path):
        assert asked == [0o600]


@pytest.mark.parametrize("descriptors", [True, False])
def test_a_path_that_is_too_long_is_reached_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: bool
) -> None:
    if not descriptors:  # as where there is no /proc
        monkeypatch.setattr(address, "_DESCRIPTORS", tmp_path / "nowhere")
    here = Path.cwd()
    for length in (107, 108, 200, 255):
        folder = tmp_path / "x"
        folder = folder.with_name("x" * max(1, length - len(str(socket_of(folder))) + 1))
        folder.mkdir()
        with nothing_left(), listening(folder) as listener, connect_socket(folder) as client:
            assert mode_of(socket_of(folder)) == 0o600
            accepted, _ = listener.accept()
            with accepted:
                client.send(b"x")
                assert accepted.recv(1) == b"x"
        assert not socket_of(folder).exists()
    assert Path.cwd() == here


async def test_a_socket_that_nobody_listens_on_any_more_is_replaced(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(socket_of(tmp_path)))
    stale.close()
    with pytest.raises(NotServedError):
        await connect(tmp_path).__aenter__()
    async with served(tmp_path), connect(tmp_path) as client:
        await client.ping()


async def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path):
        socket_of(tmp_path).write_text("mine")
    with nothing_left(), pytest.raises(AddressError, match="no socket"):
        await serve(tmp_path)
    assert socket_of(tmp_path).read_text() == "mine"


def test_a_socket_that_somebody_has_put_in_its_place_is_left_alone(tmp_path: Path) -> None:
    with listening(tmp_path):
        socket_of(tmp_path).unlink()
        socket_of(tmp_path).write_text("mine")
    assert socket_of(tmp_path).read_text() == "mine"


async def test_a_second_server_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        with pytest.raises(lastword.DirectoryInUseError):
            await serve(tmp_path)
        await client.ping()
        async with connect(tmp_path) as another:
            await another.ping()


@pytest.mark.parametrize("name", ["", "missing/deeper"])
async def test_where_nobody_serves_that_is_said(tmp_path: Path, name: str) -> None:
    with nothing_left(), pytest.raises(NotServedError, match="lastword serve"):
        await connect(tmp_path / name).__aenter__()


async def test_no_message_shows_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AddressError) as caught:
        await connect(tmp_path / "file").__aenter__()
    assert str(tmp_path) not in f"{caught.value} {caught.value!r}"
    assert caught.value.__cause__ is None
