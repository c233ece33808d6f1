"""Commands beside a server that is stuck: how long they wait for it, whatever it is stuck in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from cli_ground import HANG_SECONDS, Ground

from lastword.adapters.cli import _holder, _logs_follow, _wait
from lastword.adapters.cli._holder import wait_until_gone
from lastword.adapters.cli._look import look
from lastword.adapters.serve import SilentServerError, _calls
from lastword.adapters.serve._address import listening
from lastword.adapters.serve._turn import turn_of
from lastword.notifier import SystemClock
from lastword.supervisor import DirectoryView, hold_directory

WELCOME = {"id": 0, "ok": {"version": 1, "session_id": "0192f0c1-2345-7abc-8def-0123456789ab"}}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """A directory in which the job "long" has no last word: its server was killed."""
    ground = Ground(tmp_path_factory.mktemp("left") / "state")
    with ground.start("serve") as server:
        assert server.stderr is not None
        assert b"ready" in server.stderr.readline()
        ground.out("run", "-d", "--name", "long", "--", "sleep", "600")
        server.kill()
    return ground


@pytest.fixture
def held(left: Ground) -> Generator[Ground]:
    """As `left`, and this program holds it, as a server would."""
    with hold_directory(left.state, session_id=None, new_id=uuid4):
        yield left


@contextmanager
def greeting(
    state: Path, then: Callable[[socket.socket], object], hurry: Callable[[], None] = lambda: None
) -> Generator[None]:
    """A server that greets its only client, and does nothing more than `then`; `hurry` comes before the welcome."""

    def greet() -> None:
        listener.settimeout(HANG_SECONDS)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(HANG_SECONDS)
            connection.recv(65536)
            hurry()
            connection.sendall(json.dumps(WELCOME).encode() + b"\n")
            then(connection)

    with listening(state) as listener:
        thread = threading.Thread(target=greet)
        thread.start()
        yield
        thread.join()


def never_accept(state: Path, stack: ExitStack) -> None:
    """As one that is stopped: the kernel takes the connection."""
    stack.enter_context(listening(state))


def say_nothing(state: Path, stack: ExitStack) -> None:
    stack.enter_context(greeting(state, read_on))


def hang_up(state: Path, stack: ExitStack) -> None:
    """And keep the directory."""
    stack.enter_context(greeting(state, lambda connection: connection.recv(65536)))


def be_about_to_serve(state: Path, stack: ExitStack) -> None:
    anyio.run(stack.enter_context(turn_of(state, SystemClock())).take)


def read_on(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


@pytest.mark.parametrize("stuck", [never_accept, say_nothing, hang_up, be_about_to_serve])
def test_a_wait_keeps_to_its_time(
    held: Ground, monkeypatch: pytest.MonkeyPatch, stuck: Callable[[Path, ExitStack], None]
) -> None:
    waits: list[float] = []
    lost: list[str] = []

    class NotedError(SilentServerError):
        """That comes when patience is at its end, which is far longer than the time."""

        def __init__(self, why: str) -> None:
            lost.append(why)
            super().__init__(why)

    def noted(state: Path, server: int | None, patience: float) -> None:
        waits.append(patience)
        wait_until_gone(state, server, patience)

    monkeypatch.setattr(_wait, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(_calls, "_PATIENCE_SECONDS", HANG_SECONDS)
    monkeypatch.setattr(_calls, "SilentServerError", NotedError)
    monkeypatch.setattr(_holder, "wait_until_gone", noted)
    with ExitStack() as stack:
        stuck(held.state, stack)
        told = b"lastword: the server has not answered; 1 of them had not ended when it was last heard of\n"
        assert held.here("wait", "--timeout", "0.1", "long") == (124, b"", told)
    assert all(patience <= 0.1 + 0.2 for patience in waits)
    assert lost == []


@pytest.mark.parametrize("line", [("wait", "long"), ("logs", "-f", "long"), ("events", "-f"), ("stop", "long")])
def test_the_end_of_a_server_that_says_nothing_is_not_waited_for(
    held: Ground, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    """It is no server that is about to end."""
    waits: list[float] = []
    looks: list[Path] = []

    def noted(state: Path, server: int | None, patience: float) -> None:
        waits.append(patience)

    def counted(state: Path) -> DirectoryView | None:
        looks.append(state)
        return look(state)

    monkeypatch.setattr(_holder, "wait_until_gone", noted)
    monkeypatch.setattr(_logs_follow, "look", counted)
    with greeting(held.state, read_on, hurry=lambda: monkeypatch.setattr(_calls, "_PATIENCE_SECONDS", 0.1)):
        code, _, notes = held.here(*line)
    assert (code, b"does not answer" in notes) == (1, True), notes
    assert (sum(waits), len(looks)) == (0, 1 if line[0] == "logs" else 0)
