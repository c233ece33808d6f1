"""Twelve ways to get the protocol wrong, each a small change of the real code that must not go unnoticed.

A mutant is a context: inside it the code is wrong.  Beside each stands the promise that it breaks, and that promise
alone is watched: so it is caught for what it does, and not because it fell over.  They are written against names inside
the library, hence the `Any`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from uuid import uuid5

import attrs
from proof_witness import Promise

from lastword.notifier import (
    Appended,
    CommandHeader,
    Courier,
    NewRecord,
    RecordKind,
    SecondTerminal,
    decode_command,
    encode_command,
)
from lastword.session import Session
from lastword.session._commit import CommitHandler
from lastword.session._core import Core
from lastword.session._inbox import Inbox
from lastword.session._keeper import Append, Committed
from lastword.session._records import consumption_record
from lastword.session.journal import (
    MemoryJournal,
    MemoryLedger,
    Record,
    SqliteJournal,
    _judge,  # pyright: ignore[reportPrivateUsage]  # mutants change what is private
    _schema,
)
from lastword.supervisor._outbox import StoreOutbox

_JOURNALS: tuple[Any, ...] = (MemoryJournal, SqliteJournal)


def _never(*_: object) -> None:
    """An answer that is always: there is none."""


def _not_so(*_: object) -> bool:
    """An answer that is always: no."""
    return False


def _original(owner: Any, name: str) -> Any:
    return getattr(owner, name)


@contextmanager
def _mark_before_append() -> Generator[None]:
    """The courier marks a unit as delivered before it hands it over."""
    deliver = _original(Courier, "_deliver")

    async def mutant(courier: Any, unit: Any) -> None:
        courier._outbox.mark_delivered(unit.position)
        await deliver(courier, unit)

    with patch.object(Courier, "_deliver", mutant):
        yield


@contextmanager
def _new_id_on_retry() -> Generator[None]:
    """What is offered again after a restart gets a fresh command id."""
    restore = _original(StoreOutbox, "restore")

    def again(record: NewRecord) -> NewRecord:
        if record.kind is not RecordKind.COMMAND:
            return record
        command = decode_command(record.payload)
        fresh = uuid5(record.record_id, "again")
        notification = attrs.evolve(command.notification, command_id=fresh)
        command = attrs.evolve(command, header=CommandHeader(command_id=fresh), notification=notification)
        return attrs.evolve(record, record_id=fresh, payload=encode_command(command))

    def mutant(outbox: Any, units: Any) -> None:
        restore(outbox, [(attrs.evolve(unit, records=tuple(map(again, unit.records))), why) for unit, why in units])

    with patch.object(StoreOutbox, "restore", mutant):
        yield


@contextmanager
def _dispatch_before_append() -> Generator[None]:
    """Rows are told to loops and subscribers when they are asked for, and appended afterwards."""
    append = _original(Core, "append")

    async def mutant(core: Any, unit: Any) -> Any:
        tip = core.handler.mutant_tip = getattr(core.handler, "mutant_tip", 1_000_000)
        for new in unit:
            tip += 1
            fields = {field.name: getattr(new, field.name) for field in attrs.fields(NewRecord)}
            core.handler._apply(Committed(Record(seq=tip, **fields), pending=True))
        core.handler.mutant_tip = tip
        return await append(core, unit)

    apply = _original(CommitHandler, "_apply")

    def only_once(handler: Any, step: Any) -> None:
        if not isinstance(step, Committed) or step.record.seq >= 1_000_000:
            apply(handler, step)

    with patch.object(CommitHandler, "_apply", only_once), patch.object(Core, "append", mutant):
        yield


@contextmanager
def _no_fence() -> Generator[None]:
    """A journal writes whatever its holder's epoch is."""

    def unfenced(act: Any) -> Any:
        def mutant(journal: Any, *args: Any) -> Any:
            journal._epoch = journal.epoch()
            return act(journal, *args)

        return mutant

    with ExitStack() as stack:
        for journal in _JOURNALS:
            stack.enter_context(patch.object(journal, "append_many", unfenced(journal.append_many)))
        yield


@contextmanager
def _no_unique_terminal() -> Generator[None]:
    """Nobody asks whether the process has had its last word, and no index does."""
    schema = _original(_schema, "CREATE")
    index = "CREATE UNIQUE INDEX last_word"
    assert index in schema
    with (
        patch.object(_judge._Within, "_last_word", _never),  # pyright: ignore[reportPrivateUsage]  # a mutant
        patch.object(_schema, "CREATE", schema.replace(index, "CREATE INDEX last_word")),
    ):
        yield


@contextmanager
def _accept_not_durable() -> Generator[None]:
    """Handing a notice out settles it: only the loop's memory knows of it then."""
    take = _original(Inbox, "take")

    def mutant(inbox: Any, holder: object) -> Any:
        taken = take(inbox, holder)
        if taken is not None:
            core = inbox._desk
            core._writer.post(Append((consumption_record(taken[0].record_id, inbox.owner.loop_id),)))
        return taken

    with patch.object(Inbox, "take", mutant):
        yield


@contextmanager
def _ack_not_durable() -> Generator[None]:
    """An acknowledgement frees the slot, and is not appended."""

    async def mutant(core: Any, command_id: Any, loop_id: Any) -> None:
        core.handler._settle(command_id, loop_id)

    with patch.object(Core, "consume", mutant):
        yield


@contextmanager
def _consumed_look_up_dropped() -> Generator[None]:
    """A notification that comes after its consumption is taken for a fresh one."""
    with (
        patch.object(MemoryLedger, "consumed", _not_so),
        patch("lastword.session.journal._sqlite._SqliteLedger.consumed", _not_so),
    ):
        yield


@contextmanager
def _broadcast_by_the_caller() -> Generator[None]:
    """What follows a commit is done by the task that asked for it, once it has its answer."""
    submit = _original(Core, "_submit")
    init = _original(Core, "__init__")

    def built(core: Any, *args: Any, **options: Any) -> None:
        init(core, *args, **options)
        core._writer._after_batch = None

    async def mutant(core: Any, job: Any) -> Any:
        outcome = await submit(core, job)
        core.handler.follow()
        return outcome

    with patch.object(Core, "__init__", built), patch.object(Core, "_submit", mutant):
        yield


@contextmanager
def _reopen_bumps_the_epoch() -> Generator[None]:
    """Reopening after a fault is an opening: it takes the journal back from whoever has come since."""

    def reopener(journal_class: Any) -> Any:
        def mutant(journal: Any, _epoch: int) -> None:
            session = journal._ledger.session_id if journal_class is MemoryJournal else journal.held_session()
            journal.open(session)

        return mutant

    with ExitStack() as stack:
        for journal in _JOURNALS:
            stack.enter_context(patch.object(journal, "reopen", reopener(journal)))
        yield


@contextmanager
def _two_appends() -> Generator[None]:
    """The terminal event and its notification are appended one after the other."""
    deliver = _original(Session, "deliver")

    async def mutant(session: Any, unit: Any) -> Any:
        return [result for record in unit for result in await deliver(session, [record])]

    with patch.object(Session, "deliver", mutant):
        yield


@contextmanager
def _records_after_the_terminal_one() -> Generator[None]:
    """Only a second terminal record is refused; any other may follow."""
    judge = _original(_judge._Within, "judge")  # pyright: ignore[reportPrivateUsage]  # a mutant

    def mutant(within: Any, record: NewRecord) -> Any:
        result = judge(within, record)
        if not isinstance(result, SecondTerminal) or record.terminal or within._ledger.known(record.record_id):
            return result
        within._accept(record, _judge.fingerprint(record))
        return Appended(within._tip + len(within.new))

    with patch.object(_judge._Within, "judge", mutant):  # pyright: ignore[reportPrivateUsage]  # a mutant
        yield


@attrs.frozen
class Mutant:
    """A wrong protocol, the promise that it breaks, and the smallest search that shows it.

    `scenario` by name; `crashes` and `faults` as in `enumerate_schedules`.
    """

    make: Callable[[], AbstractContextManager[None]]
    breaks: Promise
    scenario: str
    crashes: int = 0
    faults: int = 0


MUTANTS: dict[str, Mutant] = {
    "mark before append": Mutant(_mark_before_append, Promise.OUTBOX_ENDS, "a slow journal", crashes=1),
    "new id on retry": Mutant(_new_id_on_retry, Promise.ONE_OF_EACH, "three ends", crashes=1),
    "dispatch before append": Mutant(
        _dispatch_before_append, Promise.SAME_PAYLOAD, "a stranger at an open loop", crashes=1
    ),
    "no fence": Mutant(_no_fence, Promise.FENCED, "a zombie"),
    "no unique terminal": Mutant(_no_unique_terminal, Promise.ONE_OF_EACH, "a stranger", crashes=1),
    "accept not durable": Mutant(_accept_not_durable, Promise.NOT_LOST, "three ends", crashes=1),
    "ack not durable": Mutant(_ack_not_durable, Promise.NOT_AGAIN, "one life", crashes=1),
    "consumed look-up dropped": Mutant(_consumed_look_up_dropped, Promise.NOT_AGAIN, "settled early"),
    "broadcast by the caller": Mutant(_broadcast_by_the_caller, Promise.LIVE, "three ends", faults=1),
    "reopen that bumps the epoch": Mutant(_reopen_bumps_the_epoch, Promise.FENCED, "a zombie", faults=1),
    "event and notification in two appends": Mutant(_two_appends, Promise.TOGETHER, "one life", crashes=1),
    "records after the terminal one": Mutant(_records_after_the_terminal_one, Promise.NOTHING_AFTER, "a stranger"),
}
