"""A ring file's header: what it says, and how that is laid out.

- Two slots, each with a checksum, written in turn: a torn one is told by its sum, and the other is there.
- Behind the header, where two streams are kept apart, there is room for the newest switches: each says from which byte
  on the output is of which stream.  Then the bytes, of both streams as they came.
- What a slot says of a file is complete in itself: a switch that it counts was written before it.
"""

from __future__ import annotations

import struct
from zlib import crc32

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

HEADER_BYTES: Final = 4096
"""The room of the header."""

STDOUT, STDERR = 0, 1
"""The streams, where they are kept apart."""

SLOTS: Final = (0, HEADER_BYTES // 2)
"""Where the slots are."""

SWITCH_BYTES: Final = 8
"""The room of a switch: its offset, and in the lowest bit which stream begins there."""

_LEAST_SEGMENT, _LARGEST_SEGMENT = 64 * 1024, 8 * 1024 * 1024
_LEAST_SWITCHES, _LARGEST_SWITCHES = 512, 128 * 1024

# One stream: as it was before there could be two.
_MAGIC: Final = b"lw-ring1"
_MAGIC_OF_TWO: Final = b"lw-ring2"
# magic, sequence, total, base, limit, status, fault's offset and errno, flags
_FIELDS: Final = struct.Struct("<8sQQQQqQII")
# of two streams: the first switch that can be read, how many there have been
_SWITCHES: Final = struct.Struct("<QQ")
_SUM: Final = struct.Struct("<I")
_SEALED, _HAS_STATUS, _HOST_DEATH, _PROVEN, _HAS_FAULT, _ROTATES = (1 << bit for bit in range(6))


def segment_of(limit: int) -> int:
    """How many bytes a ring that rotates may hold beyond its limit."""
    return max(_LEAST_SEGMENT, min(_LARGEST_SEGMENT, limit // 8))


def switches_of(limit: int) -> int:
    """How many switches between two streams a ring has room for."""
    return max(_LEAST_SWITCHES, min(_LARGEST_SWITCHES, limit // 512))


def pack_switch(offset: int, stream: int) -> bytes:
    """From `offset` on it is `stream`."""
    return (offset << 1 | stream).to_bytes(SWITCH_BYTES, "little")


def unpack_switches(data: bytes) -> Iterator[tuple[int, int]]:
    """Offsets and streams."""
    for (value,) in struct.iter_unpack("<Q", data):
        yield value >> 1, value & 1


class RingHeader:
    """What a slot says.

    - `total`: all bytes so far, kept or not; [`base`, `end`) can be read, and from `fault` on nothing was kept.
    - `sealed`: nothing changes any more.  `proven`: then the kernel has said that nothing of the tree is left.
    - `status`: how the leader ended, as from waitpid; None while it lives, or where nobody knows.
    - `ended_by_host_death`: it was killed because the host had died.
    - `split`: two streams are kept apart; of their `switches`, those from `first_switch` on can be read.
    """

    __slots__ = (
        "base",
        "ended_by_host_death",
        "fault",
        "first_switch",
        "limit",
        "proven",
        "rotates",
        "sealed",
        "sequence",
        "split",
        "status",
        "switches",
        "total",
    )

    def __init__(
        self,
        *,
        sequence: int = 0,
        total: int = 0,
        base: int = 0,
        limit: int,
        rotates: bool = True,
        sealed: bool = False,
        status: int | None = None,
        ended_by_host_death: bool = False,
        proven: bool = False,
        fault: tuple[int, int] | None = None,
        split: bool = False,
        first_switch: int = 0,
        switches: int = 0,
    ) -> None:
        self.sequence: int = sequence
        self.total: int = total
        self.base: int = base
        self.limit: int = limit
        self.rotates: bool = rotates
        self.sealed: bool = sealed
        self.status: int | None = status
        self.ended_by_host_death: bool = ended_by_host_death
        self.proven: bool = proven
        self.fault: tuple[int, int] | None = fault
        self.split: bool = split
        self.first_switch: int = first_switch
        self.switches: int = switches

    @property
    def end(self) -> int:
        """Where what can be read ends."""
        end = self.total if self.fault is None else self.fault[0]
        return end if self.rotates else min(end, self.limit)

    @property
    def capacity(self) -> int:
        """How many bytes the ring has room for."""
        return self.limit + segment_of(self.limit) if self.rotates else self.limit

    @property
    def data_at(self) -> int:
        """Where in the file the bytes begin."""
        return HEADER_BYTES + SWITCH_BYTES * switches_of(self.limit) if self.split else HEADER_BYTES

    def switch_at(self, number: int) -> int:
        """Where in the file a switch is; those that follow each other do so there, but for the end of the room."""
        return HEADER_BYTES + SWITCH_BYTES * (number % switches_of(self.limit))

    def pack(self) -> bytes:
        """The bytes of a slot."""
        flags = (
            _SEALED * self.sealed
            | _HAS_STATUS * (self.status is not None)
            | _HOST_DEATH * self.ended_by_host_death
            | _PROVEN * self.proven
            | _HAS_FAULT * (self.fault is not None)
            | _ROTATES * self.rotates
        )
        magic = _MAGIC_OF_TWO if self.split else _MAGIC
        fields = _FIELDS.pack(
            magic, self.sequence, self.total, self.base, self.limit, self.status or 0, *(self.fault or (0, 0)), flags
        )
        if self.split:
            fields += _SWITCHES.pack(self.first_switch, self.switches)
        return fields + _SUM.pack(crc32(fields))


def parse_header(block: bytes) -> RingHeader | None:
    """Of the slots in `block` (the first `HEADER_BYTES` of a file) the valid one that was written last, or None."""
    slots = [header for at in SLOTS if (header := _parse_slot(block[at : at + SLOTS[1]])) is not None]
    return max(slots, key=lambda header: header.sequence, default=None)


def _parse_slot(slot: bytes) -> RingHeader | None:
    split = slot.startswith(_MAGIC_OF_TWO)
    size = _FIELDS.size + _SWITCHES.size * split
    if len(slot) < size + _SUM.size or _SUM.unpack_from(slot, size)[0] != crc32(slot[:size]):
        return None
    magic, sequence, total, base, limit, status, offset, code, flags = _FIELDS.unpack_from(slot)
    if not (split or magic == _MAGIC):
        return None
    first_switch, switches = _SWITCHES.unpack_from(slot, _FIELDS.size) if split else (0, 0)
    return RingHeader(
        sequence=sequence,
        total=total,
        base=base,
        limit=limit,
        rotates=bool(flags & _ROTATES),
        sealed=bool(flags & _SEALED),
        status=status if flags & _HAS_STATUS else None,
        ended_by_host_death=bool(flags & _HOST_DEATH),
        proven=bool(flags & _PROVEN),
        fault=(offset, code) if flags & _HAS_FAULT else None,
        split=split,
        first_switch=first_switch,
        switches=switches,
    )
