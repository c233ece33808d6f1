"""Lines are read strictly, name what is wrong with them, and survive the way there and back."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from serve_strategies import ANSWERS, REQUESTS, replies, requests

from lastword.adapters.serve import _bounds as bounds
from lastword.adapters.serve._replies import Fault, Reply
from lastword.adapters.serve._requests import Request, Start
from lastword.adapters.serve._wire import REQUESTS as KNOWN
from lastword.adapters.serve._wire import (
    WireError,
    decode_answer,
    decode_request,
    encode_fault,
    encode_reply,
    encode_request,
)


@given(requests())
@settings(max_examples=200)
def test_what_is_written_is_read_as_it_was(request: Request) -> None:
    assert decode_request(encode_request(7, request).removesuffix(b"\n")) == (7, request)


@given(replies())
@settings(max_examples=200)
def test_a_reply_is_read_as_it_was(drawn: tuple[Request, Reply]) -> None:
    request, reply = drawn
    answer = decode_answer(encode_reply(7, reply))
    assert (answer.request_id, answer.fault, answer.reply(request)) == (7, None, reply)


def test_every_request_and_reply_is_tried_here() -> None:
    assert REQUESTS.keys() == set(KNOWN.values())
    assert ANSWERS.keys() == {kind.reply for kind in KNOWN.values()}


def test_a_fault_is_read_as_it_was() -> None:
    fault = Fault(code="spawn_failed", message="no such program", kind="not_found", errno=2, handle="h")
    answer = decode_answer(encode_fault(None, fault))
    assert (answer.request_id, answer.fault) == (None, fault)


def start(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "op": "start", "command": "true", **fields}


@pytest.mark.parametrize(
    ("record", "code", "field"),
    [
        ({}, "invalid_request", "id"),
        ({"id": True, "op": "ping"}, "invalid_request", "id"),
        ({"id": -1, "op": "ping"}, "invalid_request", "id"),
        ({"id": 1.0, "op": "ping"}, "invalid_request", "id"),
        ({"id": 2**53, "op": "ping"}, "invalid_request", "id"),
        ({"id": 1}, "invalid_request", "op"),
        ({"id": 1, "op": ["ping"]}, "invalid_request", "op"),
        ({"id": 1, "op": "pong"}, "unknown_op", "op"),
        ({"id": 1, "op": "ping", "process": "x"}, "invalid_request", "process"),
        ({"id": 1, "op": "start"}, "invalid_request", "command"),
        (start(command=None), "invalid_request", "command"),
        (start(command={"a": "b"}), "invalid_request", "command"),
        (start(command=["a", 1]), "invalid_request", "command[1]"),
        (start(attached=1), "invalid_request", "attached"),
        (start(timeout=True), "invalid_request", "timeout"),
        (start(timeout="1"), "invalid_request", "timeout"),
        (start(output_limit=1.0), "invalid_request", "output_limit"),
        (start(output_limit=True), "invalid_request", "output_limit"),
        (start(output_limit=2**63), "invalid_request", "output_limit"),
        (start(stdin="no base64"), "invalid_request", "stdin"),
        (start(stdin="YQ"), "invalid_request", "stdin"),
        (start(env=["A"]), "invalid_request", "env"),
        (start(env={"A": 1}), "invalid_request", "env"),
        (start(survivors="kept"), "invalid_request", "survivors"),
        (start(pty=True), "invalid_request", "pty"),
        (start(pty={"rows": 0.5}), "invalid_request", "pty.rows"),
        (start(pty={"lines": 2}), "invalid_request", "pty.lines"),
        (start(resources={"umask": "022"}), "invalid_request", "resources.umask"),
        (start(origin_execution_id="0192F0C1-2345-7ABC-8DEF-0123456789AB"), "invalid_request", "origin_execution_id"),
        (start(shell="x"), "invalid_request", "shell"),
        ({"id": 1, "op": "wait", "processes": "x"}, "invalid_request", "processes"),
        ({"id": 1, "op": "wait", "processes": ["x"] * (bounds.MAX_WORDS + 1)}, "invalid_request", "processes"),
        ({"id": 1, "op": "stop", "process": "x", "mode": "TERMINATE"}, "invalid_request", "mode"),
        ({"id": 1, "op": "list", "after": 1}, "invalid_request", "after"),
    ],
)
def test_what_is_wrong_is_named(record: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_request(json.dumps(record).encode())
    assert (caught.value.fault.code, caught.value.fault.field) == (code, field)
    assert caught.value.fault.message
    assert caught.value.request_id == (1 if record.get("id") == 1 and type(record["id"]) is int else None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"ping",
        b"[]",
        b"1",
        b"null",
        b'{"id":1,"op":"ping"} {}',
        b'{"id":1,"id":2,"op":"ping"}',
        b'{"id":1,"op":"start","command":"x","pty":{"rows":1,"rows":2}}',
        b'{"id":1,"op":"start","command":"x","timeout":NaN}',
        b'{"id":1,"op":"start","command":"x","timeout":Infinity}',
        b'{"id":' + b"9" * 100_000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"id":1,"op":"\xff"}',
        b'\xef\xbb\xbf{"id":1,"op":"ping"}',
    ],
)
def test_what_is_no_object_of_json_is_malformed(line: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode_request(line)
    assert caught.value.fault.code == "malformed"


def test_a_number_too_large_for_a_float_is_no_number() -> None:
    with pytest.raises(WireError) as caught:
        decode_request(b'{"id":1,"op":"start","command":"x","timeout":1e999}')
    assert caught.value.fault.field == "timeout"


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    for record in (start(env={"KEY": ["hunter2"]}), start(stdin="hunter2!"), start(command=["x", {"hunter2": 1}])):
        with pytest.raises(WireError) as caught:
            decode_request(json.dumps(record).encode())
        assert "hunter2" not in caught.value.fault.message


def test_a_name_that_is_no_text_goes_through() -> None:
    request = Start(command=("cat", "\udcff"))
    assert decode_request(encode_request(1, request)) == (1, request)


def test_no_line_is_longer_than_a_line() -> None:
    request = Start(command="x" * bounds.MAX_LINE_BYTES)
    with pytest.raises(WireError) as caught:
        encode_request(1, request)
    assert caught.value.fault.code == "line_too_long"


def test_requests_do_not_show_what_they_carry() -> None:
    shown = repr(Start(command="hunter2", env={"A": "hunter2"}, cwd="/hunter2", stdin=b"hunter2"))
    assert "hunter2" not in shown
    assert all(attrs.has(kind) for kind in KNOWN.values())
