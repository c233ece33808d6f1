"""Lines that almost are requests, and what must be true of a server that has got them.

Nothing that is drawn here runs another command than `true`, or ends the server on purpose.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import attrs
from hypothesis import strategies as st
from serve_sizes import LINES
from serve_strategies import REQUESTS, SOME_JSON, TEXT

from lastword.adapters.serve._requests import Hello, Request, Shutdown, Start
from lastword.adapters.serve._wire import REQUESTS as KNOWN
from lastword.adapters.serve._wire import encode_request

_HARMLESS: tuple[Any, ...] = ("true", ["true"], ["true", "\udcff"])
_COMMANDS = st.sampled_from(_HARMLESS)
_ODD = SOME_JSON | st.floats() | st.integers(-(10**30), 10**30)
_FIELDS = sorted({field.name for kind in KNOWN.values() for field in attrs.fields(kind)} | {"id", "op"})
_IDS = st.integers(0, 40)


def _harmless(record: dict[str, Any]) -> dict[str, Any]:
    """The record, where it cannot do harm; else one that cannot."""
    if record.get("op") == "shutdown":
        record["op"] = "status"
    if record.get("op") == "start":
        command = record.get("command")
        words = [command] if isinstance(command, str) else command
        if words not in [["true"], ["true", "\udcff"]] and isinstance(words, list) and words:
            record["command"] = "true"
    return record


@st.composite
def _valid(draw: st.DrawFn) -> dict[str, Any]:
    """A request as a client writes it."""
    kind: type[Request] = draw(st.sampled_from([kind for kind in REQUESTS if kind not in (Hello, Shutdown)]))
    request = draw(REQUESTS[kind])
    if isinstance(request, Start):
        command = draw(_COMMANDS)
        request = attrs.evolve(request, command=command if isinstance(command, str) else tuple(command))
    record: dict[str, Any] = json.loads(encode_request(draw(_IDS), request))
    return record


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A request in which something is changed: a field left out, added or of another value, or its bytes."""
    record = draw(_valid())
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from([*record, *_FIELDS]))
        match draw(st.sampled_from(["leave out", "replace", "add"])):
            case "leave out":
                record.pop(name, None)
            case "replace":
                record[name] = draw(_ODD)
            case _:
                record[draw(TEXT)] = draw(_ODD)
    line = bytearray(json.dumps(_harmless(record)).encode())
    if draw(st.booleans()):
        return bytes(line)
    # Only by characters that cannot make another command of it.
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(line)))
        line[place:place] = draw(st.sampled_from([b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"\x00", b"\xc3", b" "]))
    return bytes(line)


@st.composite
def random_records(draw: st.DrawFn) -> bytes:
    """An object of known words and any values."""
    names = st.sampled_from(_FIELDS) | TEXT
    record: dict[str, Any] = draw(st.dictionaries(names, _ODD, max_size=5))
    record["op"] = draw(st.sampled_from(sorted(KNOWN)) | TEXT)
    if draw(st.integers(0, 9)):
        record["id"] = draw(_IDS)
    return json.dumps(_harmless(record)).encode()


def random_bytes() -> st.SearchStrategy[bytes]:
    """Anything, lines of any kind of it."""
    return st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))


def conversations(lines: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Some lines, one after the other."""
    return st.lists(lines, max_size=LINES).map(lambda all_lines: b"".join(line + b"\n" for line in all_lines))


HELLO = b'{"id":0,"op":"hello","version":1}\n'
_LAST = 999_999


def converse(path: str, said: bytes) -> int:
    """Say hello and all of that; the server must answer what comes after it.  The count of its answers."""
    answers = 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(90)
        connection.connect(path)
        connection.sendall(HELLO + said + json.dumps({"id": _LAST, "op": "ping"}).encode() + b"\n")
        with connection.makefile("rb") as lines:
            assert b'"ok"' in lines.readline()
            for line in lines:
                answer = json.loads(line)
                assert answer.keys() in ({"id", "ok"}, {"id", "error"}), answer
                if "error" in answer:
                    assert answer["error"]["code"] != "failed", (answer, said)
                    assert answer["error"]["message"]
                if answer["id"] == _LAST:
                    return answers
                answers += 1
    raise AssertionError(f"the server has hung up after {said!r}")


def intrude(path: str, said: bytes) -> None:
    """Say all of that before any hello; the server may hang up, and must not keep one waiting who has."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(90)
        connection.connect(path)
        try:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                assert b'"failed"' not in data
        except (BrokenPipeError, ConnectionResetError):
            return
