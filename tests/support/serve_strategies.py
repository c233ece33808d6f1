"""Requests and replies of every kind, for hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

import lastword.adapters.serve._replies as r
import lastword.adapters.serve._requests as q
import lastword.adapters.serve._values as v

TEXT = st.text(max_size=20)
NUMBER = st.integers(-(2**63), 2**63 - 1)
SECONDS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6)
TRUTH = st.booleans()
OCTETS = st.binary(max_size=40)
MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
SOME_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | TRUTH | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)

_SIZE = st.builds(v.Size, rows=NUMBER, cols=NUMBER)
_MAYBE = st.none() | NUMBER
_RESOURCES = st.builds(
    v.Resources, open_files=_MAYBE, cpu_seconds=_MAYBE, address_space=_MAYBE, core=_MAYBE, nice=_MAYBE, umask=_MAYBE
)
_WORDS = st.lists(TEXT, max_size=4).map(tuple)

_OUTCOME = st.builds(
    v.OutcomeInfo,
    state=TEXT,
    reason=TEXT,
    exit_code=_MAYBE,
    signal=_MAYBE,
    shell_code=_MAYBE,
    started_at=st.none() | MOMENT,
    finished_at=MOMENT,
    survivors=NUMBER,
    output_open=TRUTH,
    total_bytes=NUMBER,
    output_error=TRUTH,
    containment=TEXT,
    proven=TRUTH,
    diagnostic=TEXT,
)
_PROCESS = st.builds(
    v.ProcessInfo,
    handle=TEXT,
    command_id=st.uuids(),
    loop_id=st.uuids(),
    name=TEXT,
    program=TEXT,
    state=TEXT,
    created_at=MOMENT,
    started_at=st.none() | MOMENT,
    backgrounded=TRUTH,
    outcome=st.none() | _OUTCOME,
)
_CHUNK = st.builds(
    v.Chunk,
    data=OCTETS,
    start=NUMBER,
    next_cursor=NUMBER,
    omitted=st.none() | st.tuples(NUMBER, NUMBER),
    total=NUMBER,
    ended=TRUTH,
    output_error=TRUTH,
)
_EVENT = st.builds(v.EventInfo, seq=NUMBER, event=st.none() | st.dictionaries(TEXT, SOME_JSON, max_size=3))
_PENDING = st.builds(
    v.PendingInfo,
    record_id=st.uuids(),
    kind=TEXT,
    process_handle=TEXT,
    attempts=NUMBER,
    status=TEXT,
    last_error=st.none() | TEXT,
)


def _page(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=2).map(tuple)


REQUESTS: dict[type[q.Request], st.SearchStrategy[Any]] = {
    q.Hello: st.builds(q.Hello, version=NUMBER),
    q.Ping: st.builds(q.Ping),
    q.Status: st.builds(q.Status),
    q.Start: st.builds(
        q.Start,
        command=TEXT | _WORDS,
        name=TEXT,
        cwd=st.none() | TEXT,
        env=st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
        env_policy=st.sampled_from(["minimal", "inherit", "none"]),
        stdin=st.none() | OCTETS,
        stdin_pipe=TRUTH,
        pty=st.none() | _SIZE,
        timeout=st.none() | SECONDS,
        background=TRUTH,
        survivors=st.sampled_from(["stop", "keep"]),
        split_streams=TRUTH,
        output_limit=_MAYBE,
        on_output_limit=st.sampled_from(["rotate", "stop"]),
        resources=st.none() | _RESOURCES,
        origin_execution_id=st.none() | st.uuids(),
        attached=TRUTH,
    ),
    q.List: st.builds(q.List, after=st.none() | st.uuids()),
    q.Get: st.builds(q.Get, process=TEXT),
    q.Read: st.builds(
        q.Read,
        process=TEXT,
        cursor=NUMBER,
        max_bytes=NUMBER,
        streams=st.sampled_from(["both", "stdout", "stderr"]),
        wait=TRUTH,
    ),
    q.Wait: st.builds(q.Wait, processes=_WORDS, any=TRUTH, timeout=st.none() | SECONDS),
    q.Stop: st.builds(
        q.Stop,
        process=TEXT,
        mode=st.sampled_from(["interrupt", "terminate", "kill"]),
        grace=st.none() | SECONDS,
    ),
    q.Input: st.builds(q.Input, process=TEXT, data=OCTETS, key=st.none() | TEXT, eof=TRUTH),
    q.Resize: st.builds(q.Resize, process=TEXT, rows=NUMBER, cols=NUMBER),
    q.Background: st.builds(q.Background, process=TEXT),
    q.Events: st.builds(q.Events, after=NUMBER, wait=TRUTH),
    q.Pending: st.builds(q.Pending, skip=NUMBER),
    q.Acknowledge: st.builds(q.Acknowledge, processes=_WORDS, all=TRUTH),
    q.Cancel: st.builds(q.Cancel, request=NUMBER),
    q.Shutdown: st.builds(q.Shutdown, stop_running=TRUTH),
}
"""How each request is drawn, every field of it."""

ANSWERS: dict[type[r.Reply], st.SearchStrategy[Any]] = {
    r.Welcome: st.builds(r.Welcome, version=NUMBER, session_id=st.uuids()),
    r.Done: st.builds(r.Done),
    r.StatusReply: st.builds(
        r.StatusReply,
        session_id=st.uuids(),
        release=TEXT,
        started_at=MOMENT,
        idle_seconds=st.none() | SECONDS,
        connections=NUMBER,
        running=NUMBER,
        undelivered=NUMBER,
        containment=TEXT,
    ),
    r.ProcessReply: st.builds(r.ProcessReply, process=_PROCESS),
    r.ListReply: st.builds(r.ListReply, processes=_page(_PROCESS), more=TRUTH),
    r.ReadReply: st.builds(r.ReadReply, chunk=_CHUNK),
    r.WaitReply: st.builds(r.WaitReply, processes=_page(_PROCESS), timed_out=TRUTH),
    r.StopReply: st.builds(r.StopReply, process=_PROCESS, running=TRUTH),
    r.EventsReply: st.builds(r.EventsReply, events=_page(_EVENT), after=NUMBER, more=TRUTH),
    r.PendingReply: st.builds(r.PendingReply, pending=_page(_PENDING), more=TRUTH),
    r.AcknowledgeReply: st.builds(r.AcknowledgeReply, acknowledged=NUMBER, handles=_page(TEXT)),
    r.CancelReply: st.builds(r.CancelReply, found=TRUTH),
}
"""How each reply is drawn."""


def requests() -> st.SearchStrategy[Any]:
    """Any request."""
    return st.one_of(*REQUESTS.values())


def replies() -> st.SearchStrategy[tuple[Any, Any]]:
    """Any request, and a reply of its kind."""
    return st.one_of(*(st.tuples(drawn, ANSWERS[kind.reply]) for kind, drawn in REQUESTS.items()))
