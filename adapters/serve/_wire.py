"""Lines: one JSON object each, a request or a reply, strictly read.

    {"id": 1, "op": "get", "process": "web"}                        a request
    {"id": 1, "ok": {...}}                                          its reply
    {"id": 1, "error": {"code": "not_found", "message": "..."}}     or why there is none; id null: no request's

Whatever is read, nothing but `WireError` is raised, in time and memory in proportion to the line.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn, final

import attrs

from ...notifier._json import is_object
from ._bounds import MAX_LINE_BYTES, MAX_WORDS
from ._converter import InvalidFieldError, structure, unstructure
from ._replies import Fault, FaultCode, Reply
from ._requests import (
    Acknowledge,
    Background,
    Cancel,
    Events,
    Get,
    Hello,
    Input,
    List,
    Pending,
    Ping,
    Read,
    Request,
    Resize,
    Shutdown,
    Start,
    Status,
    Stop,
    Wait,
)

_REQUESTS: tuple[type[Request], ...] = (
    Hello,
    Ping,
    Status,
    Start,
    List,
    Get,
    Read,
    Wait,
    Stop,
    Input,
    Resize,
    Background,
    Events,
    Pending,
    Acknowledge,
    Cancel,
    Shutdown,
)

REQUESTS: dict[str, type[Request]] = {kind.op: kind for kind in _REQUESTS}
"""Every request by its word."""


class WireError(Exception):
    """A line is not one of ours; `fault` says how, `request_id` whose it is, where that much could be read."""

    def __init__(self, fault: Fault, request_id: int | None = None) -> None:
        super().__init__(fault, request_id)
        self.fault = fault
        self.request_id = request_id


@final
@attrs.frozen
class Answer:
    """A line of the server's: to which request, and what stands in it."""

    request_id: int | None
    fault: Fault | None
    body: dict[str, Any]

    def reply(self, request: Request) -> Reply:
        """The reply to that request.  Raises `WireError` where it is none."""
        try:
            return structure(self.body, request.reply)
        except InvalidFieldError as error:
            raise WireError(_malformed(f"a reply whose {error.field or 'body'} {error.why}")) from None


def encode_request(request_id: int, request: Request) -> bytes:
    """The line of a request.  Raises `WireError` (line_too_long)."""
    return _line({"id": request_id, "op": request.op, **unstructure(request)}, request_id)


def decode_request(line: bytes) -> tuple[int, Request]:
    """The request in a line, and its id.  Raises `WireError`."""
    record = _read(line)
    request_id = record.pop("id", None)
    if type(request_id) is not int or not 0 <= request_id < 1 << 53:
        # Beyond 53 bits JSON's own numbers are not exact everywhere.
        raise WireError(_invalid("id", "must be an integer from 0 to 2^53 - 1"))
    op = record.pop("op", None)
    if type(op) is not str:
        raise WireError(_invalid("op", "must be a string"), request_id)
    kind = REQUESTS.get(op)
    if kind is None:
        known = ", ".join(REQUESTS)
        raise WireError(
            Fault(code=FaultCode.UNKNOWN_OP, message=f"there is no such op; known are {known}", field="op"), request_id
        )
    try:
        request = structure(record, kind)
    except InvalidFieldError as error:
        raise WireError(_invalid(error.field, error.why), request_id) from None
    if isinstance(request, Wait | Acknowledge) and len(request.processes) > MAX_WORDS:
        raise WireError(_invalid("processes", f"must be at most {MAX_WORDS}"), request_id)
    return request_id, request


def encode_reply(request_id: int, reply: Reply) -> bytes:
    """The line of a reply.  Raises `WireError` (reply_too_long)."""
    try:
        return _line({"id": request_id, "ok": unstructure(reply)}, request_id)
    except WireError:
        fault = Fault(code=FaultCode.REPLY_TOO_LONG, message="the reply is longer than a line; ask for less at once")
        raise WireError(fault, request_id) from None


def encode_fault(request_id: int | None, fault: Fault) -> bytes:
    """The line that says why there is no reply."""
    return _line({"id": request_id, "error": unstructure(fault)}, request_id)


def decode_answer(line: bytes) -> Answer:
    """What the server says.  Raises `WireError`."""
    record = _read(line)
    request_id = record.get("id")
    if request_id is not None and type(request_id) is not int:
        raise WireError(_malformed("an answer without an id"))
    if record.keys() == {"id", "ok"} and is_object(record["ok"]):
        return Answer(request_id, None, record["ok"])
    if record.keys() == {"id", "error"}:
        try:
            return Answer(request_id, structure(record["error"], Fault), {})
        except InvalidFieldError as error:
            raise WireError(_malformed(f"an error whose {error.field or 'body'} {error.why}")) from None
    raise WireError(_malformed("an answer that is neither ok nor an error"))


def _invalid(field: str, why: str) -> Fault:
    return Fault(code=FaultCode.INVALID_REQUEST, message=f"{field}: {why}", field=field)


def _malformed(why: str) -> Fault:
    return Fault(code=FaultCode.MALFORMED, message=why)


def _line(record: dict[str, Any], request_id: int | None) -> bytes:
    # In ASCII: what is no character (the stand-in for a byte of a file's name) has a form, and no line break can occur.
    line = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise WireError(
            Fault(code=FaultCode.LINE_TOO_LONG, message=f"it is longer than {MAX_LINE_BYTES} bytes"), request_id
        )
    return line


def _read(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_constant, parse_int=_whole)
    except RecursionError:
        raise WireError(_malformed("the line is nested too deep")) from None
    except ValueError:
        raise WireError(_malformed("the line is not JSON, or has a key twice")) from None
    if not is_object(value):
        raise WireError(_malformed("the line is not a JSON object"))
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key comes twice")
    return record


def _constant(_: str) -> NoReturn:
    raise ValueError("no JSON")


def _whole(text: str) -> int:
    # Reading a number of many digits takes the square of their number; none of ours has more than 20.
    if len(text) > 20:
        raise ValueError("a number of too many digits")
    return int(text)
