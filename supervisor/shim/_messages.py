"""What host, zygote and shims say to each other: tuples of plain values, one to a message.

    host -> zygote   CONFIGURE lock, folder, control group    once, first; see `Zygote`
                     START job, control group, size, niceness
                                                              a shim is to have the job; with its socket, its cwd, and
                                                              stdin or its terminal's host side; and what is to be
                                                              held open of its input, if anything.  The values of its
                                                              `Spec` follow, a message of that size, for the shim alone;
                                                              the niceness is the host's at this time
                     KILL job                                 its shim does not answer: SIGKILL
                     LEAVE                                    the host lives on and needs it no more; the last one
    zygote -> host   READY errno                              it was configured, or (not 0) could not be: it leaves
                     REFUSED job, errno                       no shim could be forked
                     GONE job, proven                         its shim has ended; what it left is swept
    host -> shim     STOP mode, grace      ARM total      SEAL      END_INPUT
    shim -> host     STARTED shim's pid    FAILED step, errno, found
                     GREW total, fault     once there is more output than was armed
                     ENDED facts, total, base, fault          STUCK errno          EMPTIED
                     FAULT traceback       it has failed itself; it kills what it holds

Rules
- The sockets are SOCK_SEQPACKET: a message comes whole or not at all, and the other side's end is told.
- A message that would be too large for one travels in a memory file, as the last descriptor; a label goes with it.
- Where a receiver has no room for all descriptors it has none of them, and is told what the label says.
- Each received descriptor is made non-inheritable at once (`socket.recv_fds` does not do it).
- Tuples are written by marshal, since argv and environment are bytes; both sides are our own.
- A START goes from host to zygote to shim as it came: the zygote reads its head, and never what the job is given.
"""

from __future__ import annotations

import errno
import marshal
import os
import socket
from array import array

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

CONFIGURE, START, KILL, LEAVE = "configure", "start", "kill", "leave"
READY, REFUSED, GONE = "ready", "refused", "gone"
STOP, ARM, SEAL, END_INPUT = "stop", "arm", "seal", "end_input"
STARTED, FAILED, GREW, ENDED, STUCK, EMPTIED = "started", "failed", "grew", "ended", "stuck", "emptied"
FAULT = "fault"

# A message of the kernel's default socket buffer (212,992 bytes) would fit; this leaves room for what else waits there.
INLINE_BYTES = 64 * 1024

PACKET_BYTES = INLINE_BYTES + 1
"""What comes at once, at most."""

# START carries five (the job's socket, cwd, stdin, its input's other end, a memory file).
_MOST_DESCRIPTORS = 8
_ANCILLARY_BYTES = socket.CMSG_LEN(_MOST_DESCRIPTORS * array("i").itemsize)


class TruncatedError(OSError):
    """There was no descriptor left for those that came with a message; `label` is what is known of it."""

    def __init__(self, label: tuple[Any, ...]) -> None:
        super().__init__(errno.EMFILE, os.strerror(errno.EMFILE))
        self.label = label


def encode(*message: Any) -> bytes:
    """The bytes of a message."""
    return marshal.dumps(message)


def decode(data: bytes | memoryview) -> tuple[Any, ...]:
    """The message that those bytes begin with."""
    message: tuple[Any, ...] = marshal.loads(data)  # noqa: S302 -- written by our own other half
    return message


def send(channel: socket.socket, data: bytes, descriptors: Sequence[int] = (), label: bytes = b"") -> None:
    """Send one encoded message; raises OSError, BlockingIOError where there is no room for it now.

    `label` is encoded, too: what a receiver is to know of it who cannot take its descriptors.
    """
    if len(data) <= INLINE_BYTES:
        _send(channel, b"\0" + data, descriptors)
        return
    memory = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(memory, rest) :]
        _send(channel, b"\1" + label, (*descriptors, memory))
    finally:
        os.close(memory)


def receive(channel: socket.socket) -> tuple[tuple[Any, ...] | None, list[int]]:
    """The next message and its descriptors, which are the caller's; None at the end of the other side.

    Raises OSError: BlockingIOError where there is none now, `TruncatedError` where there was one.
    """
    try:
        data, descriptors, flags, _ = socket.recv_fds(channel, PACKET_BYTES, _MOST_DESCRIPTORS)
    except ConnectionResetError:
        # The other side is gone and had not read all of ours.  That is told before what it has sent, and once.
        data, descriptors, flags, _ = socket.recv_fds(channel, PACKET_BYTES, _MOST_DESCRIPTORS)
    _checked(descriptors, flags, data)
    if not data:
        return None, descriptors
    if data[0] == 0:
        return decode(data[1:]), descriptors
    memory = descriptors.pop()
    try:
        size = os.fstat(memory).st_size
        return decode(_all_of(memory, size)), descriptors
    finally:
        os.close(memory)


def encode_start(job: int, cgroup: str | None, niceness: int, values: tuple[Any, ...]) -> bytes:
    """The bytes of a START with those values of `Spec`."""
    body = encode(*values)
    return encode(START, job, cgroup, len(body), niceness) + body


def label_of(start: bytes) -> bytes:
    """The head of an encoded START, which is its label."""
    return encode(*decode(start))


def take_packet(channel: socket.socket, buffer: memoryview) -> tuple[memoryview, list[int]]:
    """The next message as it came, in `buffer` (of `PACKET_BYTES`), and its descriptors, which are the caller's.

    Nothing is in it at the end of the other side.  Raises as `receive`.
    """
    try:
        count, ancillary, flags, _ = channel.recvmsg_into([buffer], _ANCILLARY_BYTES)
    except ConnectionResetError:  # as in `receive`
        count, ancillary, flags, _ = channel.recvmsg_into([buffer], _ANCILLARY_BYTES)
    descriptors = array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return buffer[:count], _checked(descriptors.tolist(), flags, buffer[:count])


def head_of(packet: memoryview) -> tuple[Any, ...] | None:
    """What a packet says to who only passes it on: of a START the head.  None at the end of the other side."""
    return decode(packet[1:]) if packet else None


def values_of(packet: memoryview, descriptors: list[int]) -> tuple[Any, ...]:
    """The values of `Spec` in a START; its memory file, if it has one, is taken from `descriptors`.  Raises OSError."""
    data = packet[1:]
    if packet[0]:
        memory = descriptors.pop()
        try:
            data = memoryview(_all_of(memory, os.fstat(memory).st_size))
        finally:
            os.close(memory)
    return decode(data[-decode(data)[3] :])


def forward(channel: socket.socket, packet: memoryview, descriptors: Sequence[int]) -> None:
    """Send what `take_packet` has brought, as it came.  Raises OSError: then it was not sent."""
    socket.send_fds(channel, [packet], list(descriptors), socket.MSG_NOSIGNAL)


def take(channel: socket.socket) -> tuple[Any, ...] | None:
    """The next message to one who expects no descriptors; None at the end of the other side, however it ended.

    Raises BlockingIOError where there is none now.
    """
    try:
        message, descriptors = receive(channel)
    except BlockingIOError:
        raise
    except OSError:
        return None
    for descriptor in descriptors:
        os.close(descriptor)
    return message


def _checked(descriptors: list[int], flags: int, data: bytes | memoryview) -> list[int]:
    """Those descriptors, not inherited by what is executed.  Raises `TruncatedError` where some are missing."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise TruncatedError(decode(data[1:])[:2] if len(data) > 1 else ())
    return descriptors


def _send(channel: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    if descriptors:
        socket.send_fds(channel, [data], list(descriptors), socket.MSG_NOSIGNAL)
    else:
        channel.send(data, socket.MSG_NOSIGNAL)


def _all_of(memory: int, size: int) -> bytes:
    pieces: list[bytes] = []
    offset = 0
    while offset < size:
        piece = os.pread(memory, size - offset, offset)
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)
