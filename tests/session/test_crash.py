"""Kill the host at any moment: nothing that was promised is lost, and nothing that was settled is told again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from session_values import MAIN, SESSION

from lastword.notifier import RecordKind
from lastword.session import open_session
from lastword.session.journal import Record, SqliteJournal, verify

SUPPORT = Path(__file__).parent.parent / "support"


class Witness:
    """What the killed hosts had said, over all their lives."""

    def __init__(self) -> None:
        self.delivered: set[UUID] = set()
        self.acked: set[UUID] = set()
        self.told_again: list[UUID] = []

    def hear(self, line: str) -> None:
        word, command = line.split()
        command_id = UUID(command)
        if word == "delivered":
            self.delivered.add(command_id)
        elif word == "acked":
            self.acked.add(command_id)
        elif command_id in self.acked:
            self.told_again.append(command_id)


def _live_and_die(path: Path, backend: str, witness: Witness, lines: int) -> None:
    """One life of the host: killed when it has said so many lines."""
    command = [sys.executable, str(SUPPORT / "crash_child.py"), str(path), backend]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as host:
        assert host.stdout is not None
        for _ in range(lines):
            line = host.stdout.readline()
            assert line, "the host ended by itself"
            witness.hear(line)
        host.kill()
        for line in host.stdout:  # what it had said before it died
            if line.endswith("\n"):
                witness.hear(line)


def _lives(path: Path, kills: int, seed: int) -> None:
    witness, rng = Witness(), random.Random(seed)
    for life in range(kills):
        _live_and_die(path, ("asyncio", "trio")[life % 2], witness, rng.randint(1, 150))
        found = verify(path)
        assert found.problems == ()
        assert found.epoch == life + 1
    journal = SqliteJournal(path)
    journal.open(SESSION)
    records: list[Record] = []
    while page := journal.read(records[-1].seq if records else 0, 1000):
        records += page
    pending = {record.record_id for record in journal.pending(MAIN, 0, 1_000_000)}
    commands = [record.record_id for record in records if record.kind is RecordKind.COMMAND]
    last_words = [record.subject for record in records if record.terminal]
    journal.close()
    assert witness.told_again == []
    assert len(set(commands)) == len(commands)
    assert len(set(last_words)) == len(last_words) == len(commands)
    assert witness.delivered <= set(commands)
    assert witness.acked <= set(commands) - pending
    assert witness.acked

    async def drain() -> int:
        count = 0
        async with open_session(SqliteJournal(path)) as session:
            loop = session.open_loop()
            with anyio.fail_after(90):
                while await session.loops():
                    notice = await loop.receive()
                    assert notice.redelivered
                    assert notice.notification.command_id in pending
                    await notice.ack()
                    count += 1
        return count

    assert anyio.run(drain) == len(pending)


def test_a_killed_host_loses_nothing(tmp_path: Path) -> None:
    """A few lives, ended by SIGKILL at random moments under load."""
    _lives(tmp_path / "journal.db", kills=4, seed=20261129)


@pytest.mark.prove
def test_a_hundred_killed_hosts_lose_nothing(tmp_path: Path) -> None:
    """The same at full size."""
    _lives(tmp_path / "journal.db", kills=100, seed=0)
