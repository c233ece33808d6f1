"""What every journal must do, as functions: a backend passes when each of `CHECKS` returns.

Each check gets a fresh `Opener`: calling it makes another handle on one and the same journal, as another process would.
Only the port is used, so a backend of anybody's can be held to it:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda: MyJournal(tmp_path / "journal"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID, uuid4

import pytest

from lastword.notifier import (
    Appended,
    AppendResult,
    Collision,
    Duplicate,
    JournalFencedError,
    NewRecord,
    RecordKind,
    SecondTerminal,
)
from lastword.session import JournalSessionError
from lastword.session.journal import HoldsOneSession, Journal, Record, fence_record

Opener: TypeAlias = Callable[[], Journal]
Check: TypeAlias = Callable[[Opener], None]

SESSION = UUID("11111111-2222-4333-8444-555555555555")
A = UUID("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
B = UUID("bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee")

CHECKS: list[Check] = []


def _check(check: Check) -> Check:
    CHECKS.append(check)
    return check


def _opened(opener: Opener) -> Journal:
    journal = opener()
    journal.open(SESSION)
    return journal


def _event(
    payload: bytes = b"event",
    *,
    record_id: UUID | None = None,
    subject: str | None = None,
    terminal: bool = False,
    consumes: UUID | None = None,
    loop_id: UUID | None = A,
) -> NewRecord:
    return NewRecord(
        uuid4() if record_id is None else record_id,
        RecordKind.EVENT,
        payload,
        loop_id=loop_id,
        subject=subject,
        terminal=terminal,
        consumes=consumes,
    )


def _command(
    payload: bytes = b"command",
    *,
    record_id: UUID | None = None,
    loop_id: UUID | None = A,
    subject: str | None = None,
    consumes: UUID | None = None,
) -> NewRecord:
    return NewRecord(
        uuid4() if record_id is None else record_id,
        RecordKind.COMMAND,
        payload,
        loop_id=loop_id,
        subject=subject,
        consumes=consumes,
        public=False,
    )


def _consumption(command_id: UUID, loop_id: UUID | None = None) -> NewRecord:
    return NewRecord(
        uuid4(), RecordKind.CONSUMPTION, b"consumption", loop_id=loop_id, consumes=command_id, public=False
    )


def _append(journal: Journal, *unit: NewRecord) -> list[AppendResult]:
    (results,) = journal.append_many([unit])
    return results


def _ids(records: list[Record]) -> list[UUID]:
    return [record.record_id for record in records]


def _all(journal: Journal) -> list[Record]:
    return journal.read(0, 10_000)


def _close(*journals: Journal) -> None:
    for journal in journals:
        journal.close()


# --- opening and the fence --------------------------------------------------------------------------------------------


@_check
def the_first_opening_writes_a_fence_at_sequence_1_of_epoch_1(opener: Opener) -> None:
    journal = opener()
    assert journal.open(SESSION) == 1
    (fence,) = _all(journal)
    assert (fence.seq, fence.kind, fence.public) == (1, RecordKind.FENCE, False)
    assert journal.epoch() == 1
    _close(journal)


@_check
def each_opening_adds_one_to_the_epoch_and_a_fence(opener: Opener) -> None:
    for epoch in (1, 2, 3):
        journal = opener()
        assert journal.open(SESSION) == epoch
        assert [record.kind for record in _all(journal)] == [RecordKind.FENCE] * epoch
        assert len(set(_ids(_all(journal)))) == epoch
        _close(journal)


@_check
def the_fence_of_an_opening_is_the_record_that_the_port_names(opener: Opener) -> None:
    """Appending it once more tells where the opening begins."""
    for epoch in (1, 2):
        journal = opener()
        assert journal.open(SESSION) == epoch
        assert _append(journal, fence_record(SESSION, epoch)) == [Duplicate(epoch, consumed=False)]
        _close(journal)


@_check
def reopening_keeps_the_epoch_and_writes_nothing(opener: Opener) -> None:
    journal = _opened(opener)
    kept = _event()
    _append(journal, kept)
    journal.reopen(1)
    assert journal.epoch() == 1
    assert len(_all(journal)) == 2
    assert _append(journal, kept) == [Duplicate(2, consumed=False)]
    assert _append(journal, _event()) == [Appended(3)]
    _close(journal)


@_check
def a_second_opener_fences_the_first(opener: Opener) -> None:
    first = _opened(opener)
    known = _event()
    _append(first, known)
    second = _opened(opener)
    for unit in ([_event()], [known]):  # what it knows, too: whoever is fenced is told so
        with pytest.raises(JournalFencedError):
            first.append_many([unit])
    assert first.epoch() == 2
    with pytest.raises(JournalFencedError):
        first.reopen(1)
    with pytest.raises(JournalFencedError):
        first.append_many([[_event()]])
    assert len(_all(second)) == 3
    assert _append(second, _event()) == [Appended(4)]
    _close(first, second)


@_check
def another_session_is_refused_and_changes_nothing(opener: Opener) -> None:
    first = _opened(opener)
    _append(first, _event())
    stranger = opener()
    with pytest.raises(JournalSessionError) as caught:
        stranger.open(uuid4())
    assert caught.value.held == SESSION
    assert first.epoch() == 1
    assert _append(first, _event()) == [Appended(3)]
    _close(first, stranger)


@_check
def a_journal_of_one_session_tells_whose_it_is(opener: Opener) -> None:
    journal = opener()
    if isinstance(journal, HoldsOneSession):
        assert journal.held_session() is None
        journal.open(SESSION)
        assert journal.held_session() == SESSION
        another = opener()
        assert isinstance(another, HoldsOneSession)
        assert another.held_session() == SESSION
        assert journal.epoch() == 1
        _close(another)
    _close(journal)


@_check
def closing_is_idempotent_and_loses_nothing(opener: Opener) -> None:
    journal = _opened(opener)
    kept = _event(b"kept")
    _append(journal, kept)
    _close(journal, journal)
    again = _opened(opener)
    assert [(record.record_id, record.payload) for record in _all(again)][1] == (kept.record_id, b"kept")
    assert _append(again, kept) == [Duplicate(2, consumed=False)]
    _close(again)


# --- appending and reading --------------------------------------------------------------------------------------------


@_check
def what_is_read_is_what_was_appended(opener: Opener) -> None:
    journal = _opened(opener)
    consumed = uuid4()
    new = [
        NewRecord(uuid4(), RecordKind.EVENT, b"\x00\xff", loop_id=A, subject="h", terminal=True, consumes=consumed),
        NewRecord(uuid4(), RecordKind.EVENT, b"", public=False),
        NewRecord(uuid4(), RecordKind.COMMAND, b"c", loop_id=B, subject="h", public=False),
        NewRecord(uuid4(), RecordKind.CONSUMPTION, b"d", consumes=consumed, public=False),
        NewRecord(uuid4(), RecordKind.FENCE, b"e"),
    ]
    assert _append(journal, *new) == [Appended(seq) for seq in range(2, 7)]
    expected = [
        Record(
            seq=seq,
            record_id=record.record_id,
            kind=record.kind,
            payload=record.payload,
            loop_id=record.loop_id,
            subject=record.subject,
            terminal=record.terminal,
            consumes=record.consumes,
            public=record.public,
        )
        for seq, record in enumerate(new, start=2)
    ]
    assert journal.read(1, 10) == expected
    _close(journal)


@_check
def reading_is_exclusive_of_after_and_bounded_by_limit(opener: Opener) -> None:
    journal = _opened(opener)
    journal.append_many([[_event()] for _ in range(9)])
    assert [record.seq for record in journal.read(0, 3)] == [1, 2, 3]
    assert [record.seq for record in journal.read(3, 3)] == [4, 5, 6]
    assert [record.seq for record in journal.read(9, 3)] == [10]
    assert journal.read(10, 3) == []
    _close(journal)


@_check
def nothing_to_append_appends_nothing(opener: Opener) -> None:
    journal = _opened(opener)
    assert journal.append_many([]) == []
    assert journal.append_many([[], [_event()], []]) == [[], [Appended(2)], []]
    _close(journal)


# --- idempotency ------------------------------------------------------------------------------------------------------


@_check
def the_same_record_again_is_a_duplicate_of_the_first(opener: Opener) -> None:
    journal = _opened(opener)
    for record in (_event(), _command(), _consumption(uuid4()), _event(subject="h", terminal=True)):
        (first,) = _append(journal, record)
        assert isinstance(first, Appended)
        assert _append(journal, record) == [Duplicate(first.seq, consumed=False)]
    _close(journal)


@_check
def routing_is_no_part_of_what_must_be_equal(opener: Opener) -> None:
    journal = _opened(opener)
    record = _command(b"x", loop_id=A)
    _append(journal, record)
    elsewhere = _command(b"x", record_id=record.record_id, loop_id=B, subject="h")
    assert _append(journal, elsewhere) == [Duplicate(2, consumed=False)]
    assert journal.loops() == [(A, 1)]
    _close(journal)


@_check
def other_bytes_or_another_kind_under_one_id_collide(opener: Opener) -> None:
    journal = _opened(opener)
    record = _event(b"x")
    _append(journal, record)
    assert _append(journal, _event(b"y", record_id=record.record_id)) == [Collision(2)]
    assert _append(journal, _command(b"x", record_id=record.record_id)) == [Collision(2)]
    assert _append(journal, record) == [Duplicate(2, consumed=False)]
    assert [record.payload for record in journal.read(1, 10)] == [b"x"]
    _close(journal)


@_check
def a_fault_in_a_unit_refuses_all_of_it_and_nothing_else(opener: Opener) -> None:
    journal = _opened(opener)
    known = _event(b"x")
    _append(journal, known)
    before, beside, after = _event(), _command(), _event()
    results = journal.append_many([[before], [beside, _event(b"y", record_id=known.record_id), known], [after]])
    # Beside the culprit: what is known is answered as ever, what is refused for the unit's sake as its unit.
    assert results == [[Appended(3)], [Collision(2), Collision(2), Duplicate(2, consumed=False)], [Appended(4)]]
    assert _ids(journal.read(1, 10)) == [known.record_id, before.record_id, after.record_id]
    assert journal.loops() == []
    # The refused one is free to come again.
    assert _append(journal, beside) == [Appended(5)]
    _close(journal)


@_check
def a_unit_is_judged_against_itself(opener: Opener) -> None:
    journal = _opened(opener)
    record = _event(b"x")
    assert _append(journal, record, record) == [Appended(2), Duplicate(2, consumed=False)]
    first, second = _event(b"x"), _event(b"y")
    clash = _event(b"z", record_id=first.record_id)
    assert _append(journal, first, second, clash) == [Collision(0)] * 3
    assert len(_all(journal)) == 2
    _close(journal)


@_check
def a_unit_is_judged_against_the_units_before_it_in_its_batch(opener: Opener) -> None:
    journal = _opened(opener)
    record = _command(b"x")
    results = journal.append_many(
        [
            [record],
            [record],
            [_command(b"y", record_id=record.record_id)],
            [_consumption(record.record_id)],
            [record],
        ]
    )
    assert results == [
        [Appended(2)],
        [Duplicate(2, consumed=False)],
        [Collision(2)],
        [Appended(3)],
        [Duplicate(2, consumed=True)],
    ]
    _close(journal)


@_check
def a_refused_unit_leaves_no_trace_for_the_next_of_its_batch(opener: Opener) -> None:
    journal = _opened(opener)
    known, record, end = _event(b"x"), _event(), _event(subject="h", terminal=True)
    _append(journal, known)
    clash = _event(b"y", record_id=known.record_id)
    results = journal.append_many([[record, end, clash], [record], [_event(subject="h")]])
    assert results == [[Collision(2)] * 3, [Appended(3)], [Appended(4)]]
    _close(journal)


# --- the last word ----------------------------------------------------------------------------------------------------


@_check
def a_process_has_one_last_word(opener: Opener) -> None:
    journal = _opened(opener)
    end = _event(b"end", subject="h", terminal=True)
    assert _append(journal, end) == [Appended(2)]
    assert _append(journal, end) == [Duplicate(2, consumed=False)]
    assert _append(journal, _event(b"lost", subject="h", terminal=True)) == [SecondTerminal(2)]
    assert _append(journal, _event(b"end", subject="other", terminal=True)) == [Appended(3)]
    _close(journal)


@_check
def nothing_of_a_life_follows_its_last_word(opener: Opener) -> None:
    journal = _opened(opener)
    start, end = _event(b"start", subject="h"), _event(b"end", subject="h", terminal=True)
    _append(journal, start)
    _append(journal, end)
    assert _append(journal, start) == [Duplicate(2, consumed=False)]
    assert _append(journal, _event(b"late", subject="h")) == [SecondTerminal(3)]
    for known in (start, end):  # also under an id that is known, with other bytes
        other = _event(b"other", record_id=known.record_id, subject="h")
        assert _append(journal, other) == [SecondTerminal(3)]
    assert len(_all(journal)) == 3
    _close(journal)


@_check
def before_the_last_word_other_bytes_are_a_collision(opener: Opener) -> None:
    journal = _opened(opener)
    start = _event(b"start", subject="h")
    _append(journal, start)
    assert _append(journal, _event(b"other", record_id=start.record_id, subject="h")) == [Collision(2)]
    _close(journal)


@_check
def the_notification_goes_with_the_last_word_or_after_it(opener: Opener) -> None:
    journal = _opened(opener)
    end, notification = _event(subject="h", terminal=True), _command(subject="h")
    assert _append(journal, end, notification) == [Appended(2), Appended(3)]
    assert _append(journal, _command(b"another", subject="h")) == [Appended(4)]
    assert _append(journal, end, notification) == [Duplicate(2, consumed=False), Duplicate(3, consumed=False)]
    _close(journal)


@_check
def a_second_last_word_takes_its_notification_with_it(opener: Opener) -> None:
    journal = _opened(opener)
    _append(journal, _event(b"end", subject="h", terminal=True))
    results = _append(journal, _event(b"lost", subject="h", terminal=True), _command(subject="h"))
    assert results == [SecondTerminal(2), SecondTerminal(2)]
    assert journal.loops() == []
    _close(journal)


@_check
def the_last_word_counts_within_a_unit_and_within_a_batch(opener: Opener) -> None:
    journal = _opened(opener)
    start, end = _event(b"start", subject="h"), _event(b"end", subject="h", terminal=True)
    assert _append(journal, start, end) == [Appended(2), Appended(3)]
    end = _event(b"end", subject="i", terminal=True)
    assert _append(journal, end, _event(b"late", subject="i")) == [SecondTerminal(0)] * 2
    results = journal.append_many([[end], [_event(b"late", subject="i")], [_event(subject="i", terminal=True)]])
    assert results == [[Appended(4)], [SecondTerminal(4)], [SecondTerminal(4)]]
    _close(journal)


@_check
def the_last_word_is_remembered_over_a_restart(opener: Opener) -> None:
    journal = _opened(opener)
    _append(journal, _event(b"end", subject="h", terminal=True))
    _close(journal)
    journal = _opened(opener)
    assert _append(journal, _event(b"lost", subject="h", terminal=True)) == [SecondTerminal(2)]
    _close(journal)


@_check
def only_an_event_about_a_process_can_be_its_last_word(opener: Opener) -> None:
    journal = _opened(opener)
    odd = NewRecord(uuid4(), RecordKind.COMMAND, b"c", loop_id=A, subject="h", terminal=True, public=False)
    assert _append(journal, odd, _event(terminal=True), _event(b"y", terminal=True)) == [
        Appended(2),
        Appended(3),
        Appended(4),
    ]
    assert _append(journal, _event(subject="h"), _event(subject="h", terminal=True)) == [Appended(5), Appended(6)]
    _close(journal)


# --- pending ----------------------------------------------------------------------------------------------------------


@_check
def a_notification_is_pending_for_its_loop_until_it_is_consumed(opener: Opener) -> None:
    journal = _opened(opener)
    first, second, other = _command(), _command(), _command(loop_id=B)
    journal.append_many([[first], [_event()], [other], [second]])
    assert _ids(journal.pending(A, 0, 10)) == [first.record_id, second.record_id]
    assert _ids(journal.pending(B, 0, 10)) == [other.record_id]
    assert journal.pending(UUID(int=1), 0, 10) == []
    assert journal.loops() == [(A, 2), (B, 1)]
    _append(journal, _consumption(first.record_id))
    assert _ids(journal.pending(A, 0, 10)) == [second.record_id]
    _append(journal, _consumption(second.record_id, A))
    assert journal.loops() == [(B, 1)]
    _close(journal)
    journal = _opened(opener)
    assert journal.loops() == [(B, 1)]
    _close(journal)


@_check
def pending_is_paged_in_ledger_order(opener: Opener) -> None:
    journal = _opened(opener)
    commands = [_command() for _ in range(7)]
    journal.append_many([[command] for command in commands])
    ids = _ids([*journal.pending(A, 0, 3), *journal.pending(A, 4, 3), *journal.pending(A, 7, 3)])
    assert ids == [command.record_id for command in commands]
    _append(journal, _consumption(commands[1].record_id))
    assert [record.seq for record in journal.pending(A, 0, 3)] == [2, 4, 5]
    assert [record.seq for record in journal.pending(A, 3, 2)] == [4, 5]
    _close(journal)


@_check
def a_command_without_a_loop_is_pending_for_nobody(opener: Opener) -> None:
    journal = _opened(opener)
    _append(journal, _command(loop_id=None))
    assert journal.loops() == []
    _close(journal)


@_check
def a_duplicate_says_whether_it_is_consumed(opener: Opener) -> None:
    journal = _opened(opener)
    command = _command()
    _append(journal, command)
    _append(journal, _consumption(command.record_id))
    assert _append(journal, command) == [Duplicate(2, consumed=True)]
    _close(journal)
    journal = _opened(opener)
    assert _append(journal, command) == [Duplicate(2, consumed=True)]
    _close(journal)


@_check
def a_consumption_may_come_before_its_notification(opener: Opener) -> None:
    journal = _opened(opener)
    early, together, itself = _command(), _command(), uuid4()
    _append(journal, _consumption(early.record_id))
    assert _append(journal, early) == [Appended(3)]
    assert _append(journal, early) == [Duplicate(3, consumed=True)]
    _append(journal, _consumption(together.record_id), together)
    _append(journal, _command(record_id=itself, consumes=itself))
    assert journal.loops() == []
    assert journal.pending(A, 0, 10) == []
    _close(journal)


@_check
def a_consumption_told_on_another_loop_settles_nothing(opener: Opener) -> None:
    journal = _opened(opener)
    command, early = _command(), _command()
    _append(journal, command)
    _append(journal, _event(consumes=command.record_id, loop_id=B), _consumption(early.record_id, B))
    _append(journal, early)
    assert journal.loops() == [(A, 2)]
    assert _append(journal, command) == [Duplicate(2, consumed=False)]
    _append(journal, _event(consumes=command.record_id, loop_id=A))
    assert _ids(journal.pending(A, 0, 10)) == [early.record_id]
    _close(journal)


@_check
def any_kind_of_record_can_consume(opener: Opener) -> None:
    journal = _opened(opener)
    first, second = _command(), _command()
    _append(journal, first, second)
    _append(journal, _event(consumes=first.record_id))
    _append(journal, _command(consumes=second.record_id))
    assert [record.seq for record in journal.pending(A, 0, 10)] == [5]
    _close(journal)


# --- unfinished -------------------------------------------------------------------------------------------------------


@_check
def a_process_is_unfinished_from_its_first_record_to_its_last(opener: Opener) -> None:
    journal = _opened(opener)
    one, other = _event(b"1", subject="h"), _event(b"1", subject="i")
    journal.append_many([[one], [_event(b"2", subject="h")], [other], [_event()]])
    assert _ids(journal.unfinished()) == [one.record_id, other.record_id]
    _append(journal, _event(b"end", subject="h", terminal=True))
    assert _ids(journal.unfinished()) == [other.record_id]
    _close(journal)
    journal = _opened(opener)
    assert _ids(journal.unfinished()) == [other.record_id]
    _close(journal)


@_check
def a_notification_finishes_a_process_too(opener: Opener) -> None:
    journal = _opened(opener)
    _append(journal, _event(b"start", subject="h"))
    _append(journal, _command(subject="h"))
    _append(journal, _command(subject="i"))
    _append(journal, _event(b"late", subject="i"))
    assert journal.unfinished() == []
    _append(journal, _event(b"start", subject="j"), _event(b"end", subject="j", terminal=True))
    assert journal.unfinished() == []
    _close(journal)
