"""One id per process names everything that is ever said of it."""

from __future__ import annotations

import re
import time
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword.notifier import InvalidArgumentError, ack_id, main_loop_id, new_handle, new_uuid7, process_ids


@given(base=st.uuids())
def test_any_of_the_seven_ids_leads_to_all_seven(base: UUID) -> None:
    ids = process_ids(base)
    members = attrs.astuple(ids)
    assert [member.bytes[-1] for member in members] == [0, 1, 2, 3, 4, 5, 6]
    assert {member.bytes[:-1] for member in members} == {base.bytes[:-1]}
    assert all(process_ids(member) == ids for member in members)


def test_ids_come_of_a_uuid_and_of_nothing_else() -> None:
    assert process_ids(UUID(int=0)).lost == UUID(int=5)
    others: list[Any] = ["x", None, 7, b"x" * 16]
    for base in others:
        with pytest.raises(InvalidArgumentError, match="base: must be a UUID"):
            process_ids(base)


def test_a_fresh_id_carries_the_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    stamp = new_uuid7().int >> 80
    assert before <= stamp <= time.time_ns() // 1_000_000


def test_fresh_ids_are_version_7_and_ordered_by_millisecond() -> None:
    ids = [new_uuid7() for _ in range(1000)]
    assert {(one.version, one.variant) for one in ids} == {(7, "specified in RFC 4122")}
    stamps = [one.int >> 80 for one in ids]
    assert stamps == sorted(stamps)
    assert len(set(ids)) == 1000


def test_two_processes_of_one_millisecond_share_no_id() -> None:
    stems = {new_uuid7().bytes[:-1] for _ in range(10_000)}
    assert len(stems) == 10_000


def test_a_handle_is_22_url_safe_characters_and_never_repeats() -> None:
    handles = {new_handle() for _ in range(1000)}
    assert len(handles) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", handle) for handle in handles)


def test_derived_ids_are_the_same_in_every_incarnation() -> None:
    """Written into journals already: these two values can never change."""
    session = UUID("11111111-2222-4333-8444-555555555555")
    assert main_loop_id(session) == UUID("7eaa5984-df35-543e-a803-ac073f7a698e")
    assert ack_id(session) == UUID("f354e66e-b204-5667-8e38-1db17ca7b012")
