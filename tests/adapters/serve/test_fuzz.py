"""Whatever a client sends is answered or hung up on, and the server lives on."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve_fuzz import conversations, converse, intrude, mutated, random_bytes, random_records
from serve_ground import socket_of
from serve_sizes import EXAMPLES, FULL_EXAMPLES, FULL_TIMEOUT_SECONDS, report

from lastword.adapters.serve import serve
from lastword.adapters.serve._bounds import MAX_LINE_BYTES


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def server(request: pytest.FixtureRequest) -> Generator[str]:
    """A server in a thread of its own, for all conversations of this file; the path of its socket.

    It has logged no error when it ends: each would be a request that has failed for a reason that nobody foresaw.
    """
    with tempfile.TemporaryDirectory() as folder, start_blocking_portal(request.param) as portal:
        directory, ready = Path(folder, "state"), portal.call(anyio.Event)
        handler = Kept(logging.WARNING)
        logging.getLogger("lastword").addHandler(handler)
        future = portal.start_task_soon(lambda: serve(directory, ready=ready.set))
        try:
            portal.call(ready.wait)
            yield str(socket_of(directory))
            assert converse(str(socket_of(directory)), b"") == 0
        finally:
            future.cancel()
            logging.getLogger("lastword").removeHandler(handler)
        assert not handler.messages


def _run(test: Callable[[bytes], Any], drawn: st.SearchStrategy[bytes], examples: int) -> int:
    said = 0

    @settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(drawn)
    def run(text: bytes) -> None:
        nonlocal said
        said += 1
        test(text)

    run()
    return said


KINDS = {
    "mutated requests": (converse, conversations(mutated())),
    "random records": (converse, conversations(random_records())),
    "random bytes": (converse, conversations(random_bytes())),
    "no hello": (intrude, random_bytes() | conversations(mutated())),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_whatever_is_said_is_answered(server: str, kind: str) -> None:
    test, drawn = KINDS[kind]
    assert _run(lambda text: test(server, text), drawn, EXAMPLES) >= EXAMPLES // 2


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@pytest.mark.parametrize("kind", list(KINDS))
def test_whatever_is_said_is_answered_at_full_size(server: str, kind: str) -> None:
    test, drawn = KINDS[kind]
    said = _run(lambda text: test(server, text), drawn, FULL_EXAMPLES)
    report(f"server: {said} conversations of {kind}, all answered")


@pytest.mark.parametrize("filler", [b"x", b"[", b'"', b"\x00", b"9", b'{"a":'])
def test_a_line_of_the_greatest_length_is_answered_and_a_longer_one_hung_up_on(server: str, filler: bytes) -> None:
    longest = (filler * MAX_LINE_BYTES)[: MAX_LINE_BYTES - 1]
    assert converse(server, longest + b"\n") == 1
    with pytest.raises((AssertionError, BrokenPipeError, ConnectionResetError)):
        converse(server, longest * 2 + b"\n")
