"""From a test to its hosts: what one lives through, in which pen and as which user, and what it has told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
from crash_hosts import SUPPORT, support_environment
from crash_tools import without
from hostile_pens import CgroupPen, NamespacePen, Pen, cgroup_pen, cgroups_lack, uid_pen
from strangers import fresh_uid

from lastword.supervisor import Containment

DIARY = "diary"

# From the SIGKILL of a host until nobody is left of its jobs: the tree's own death takes milliseconds, if others leave
# it the processor.
HOST_DEATH_SECONDS = 45.0


@attrs.frozen(kw_only=True)
class Life:
    """What a host does, and where.

    - `program`: "module:function", which is called with this in the host; `script` is its own matter.
    - `ordinary`: the host is of an ordinary user; else of whoever runs the tests.
    - `apart`: it makes a process namespace of its own, as root, and so is one's pen where there is no other.
    - `promotes`: its folder has a program `setpriv` that runs as root, as `sudo` does.
    - `by_uid`: its pen is that user, also where a control group could be made.
    - `processes`: how many fit into its pen, where that can be bounded.
    - `seconds`: it is killed then; `empty_seconds`: how long after its end its pen is waited for to be empty.
    - `folder`, `pen` and `uid` are filled in when it begins.
    """

    program: str
    tier: str
    backend: str
    script: dict[str, Any] = attrs.field(factory=dict[str, Any])
    ordinary: bool = False
    by_uid: bool = False
    apart: bool = False
    promotes: bool = False
    processes: int | None = None
    seconds: float = 150.0
    empty_seconds: float = HOST_DEATH_SECONDS
    folder: str = ""
    pen: dict[str, Any] = attrs.field(factory=dict[str, Any])
    uid: int | None = None

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Life:
        """From `to_json`."""
        return cls(**json.loads(line))

    @property
    def containment(self) -> Containment:
        """The tier."""
        return Containment[self.tier]

    def say(self, word: str, **facts: object) -> None:
        """In the host: a line that is out entirely or not at all, and then outlives it."""
        descriptor = os.open(Path(self.folder, DIARY), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(descriptor, (json.dumps({"said": word, **facts}) + "\n").encode())
        os.close(descriptor)


@attrs.frozen(kw_only=True)
class Told:
    """What came of a life: the host's exit code, what it said, who was in its pen when its time was over; `temporaries`
    and `groups` are files and control groups of ours that it has left."""

    life: Life
    code: int
    lines: list[dict[str, Any]]
    left: list[str]
    temporaries: list[str]
    groups: list[str]
    errors: str

    def said(self, word: str) -> list[dict[str, Any]]:
        """The lines of one kind."""
        return [line for line in self.lines if line["said"] == word]

    def check(self, code: int) -> None:
        """It must have ended with `code`."""
        assert self.code == code, f"{self.life.backend}: ended with {self.code}: {self.errors[-4000:]}"


class _Lane:
    """One server, and so one host at a time."""

    def __init__(self, server: subprocess.Popen[str], errors: Path) -> None:
        self.errors = errors
        assert server.stdin is not None
        assert server.stdout is not None
        self.lines: IO[str] = server.stdin
        self._answers: IO[str] = server.stdout
        self._lack = self._answers.readline().strip() or None

    def live(self, life: Life) -> int:
        if life.uid is not None:
            without("a Python that every user can run", "what jobs do to a host of an ordinary user", self._lack)
        print(life.to_json(), file=self.lines, flush=True)
        return int(self._answers.readline())


class Hosts:
    """Lives, as many at once as there are lanes, each in a pen of its own."""

    def __init__(self, lanes: list[_Lane], pool: ThreadPoolExecutor) -> None:
        self._free = deque(lanes)
        self._pool = pool

    def begin(self, life: Life) -> Future[Told]:
        """Have it lived as soon as there is a lane for it."""
        return self._pool.submit(self._live, life)

    def _live(self, life: Life) -> Told:
        lane = self._free.popleft()
        try:
            return _live(lane, life)
        finally:
            self._free.append(lane)


def _live(lane: _Lane, life: Life) -> Told:
    with _penned(life) as (pen, uid), _folder(uid) as folder:
        if life.promotes:
            _promote(folder)
        before = lane.errors.stat().st_size
        life = attrs.evolve(life, folder=str(folder), pen=pen.facts(), uid=uid)
        code = lane.live(life)
        left = (
            []
            if pen.wait_empty(life.empty_seconds)
            else [str(seen) for seen in pen.members()] or ["too fast to be seen"]
        )
        diary = folder / DIARY
        return Told(
            life=life,
            code=code,
            lines=[json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else [],
            left=left,
            temporaries=sorted(path.name for path in folder.glob("lastword-*")),
            groups=sorted(path.name for path in pen.path.glob("lastword-*")) if isinstance(pen, CgroupPen) else [],
            errors=lane.errors.read_bytes()[before:].decode(errors="replace"),
        )


@contextmanager
def _penned(life: Life) -> Generator[tuple[Pen, int | None]]:
    """A pen, and the user to become: None is to stay.  Where no group can be made, the user itself is the pen."""
    lack = "it is not wanted" if life.by_uid else cgroups_lack()
    may_change = os.geteuid() == 0
    if life.promotes and not may_change:
        lack = "this is another user"
    if life.promotes:
        without("root and a control group", "what root's processes do in an ordinary user's job", lack)
    if life.apart:
        without("root", "what takes a process namespace of one's own", None if may_change else "this is another user")
    uid = fresh_uid() if may_change and (life.ordinary or lack is not None) else None
    if lack is None:
        with cgroup_pen(processes=life.processes) as pen:
            if uid is not None:
                pen.give_to(uid)
            yield pen, uid
        return
    if life.apart:
        yield NamespacePen(), None
        return
    without(
        "a pen (as root, or in a control group of one's own: systemd-run --user --scope)",
        "what hostile jobs do to a host",
        None if may_change else lack,
    )
    assert uid is not None
    with uid_pen(uid) as user:
        yield user, uid


def _promote(folder: Path) -> None:
    found = shutil.which("setpriv")
    without("setpriv", "what root's processes do in an ordinary user's job", None if found else "it is not installed")
    assert found is not None
    Path(shutil.copy(found, folder / "setpriv")).chmod(0o4755)


@contextmanager
def _folder(uid: int | None) -> Generator[Path]:
    """A host's own: for temporary files, and its diary."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir="/tmp"))
    try:
        if uid is not None:
            os.chown(folder, uid, uid)
        yield folder
    finally:
        for _ in range(10):  # who is still in the pen may take some of it away meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        assert not folder.exists()


@contextmanager
def serving(folder: Path, lanes: int) -> Generator[Hosts]:
    """Hosts; what they print on stderr goes into `folder`."""
    with ExitStack() as stack:
        opened: list[_Lane] = []
        for number in range(lanes):
            errors = folder / f"stderr-{number}"
            server = subprocess.Popen(
                [sys.executable, str(SUPPORT / "hostile_server.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(errors.open("w")),
                text=True,
                env=support_environment(),
                start_new_session=True,  # what a job signals by group or terminal must not be the tests
            )
            stack.enter_context(server)
            opened.append(_Lane(server, errors))
        with ThreadPoolExecutor(lanes) as pool:
            yield Hosts(opened, pool)
            pool.shutdown(cancel_futures=True)
        for lane in opened:
            lane.lines.close()
