"""The journal: the port, and its backends."""

from __future__ import annotations

from ._judge import fence_record as fence_record
from ._memory import MemoryJournal as MemoryJournal
from ._memory import MemoryLedger as MemoryLedger
from ._port import HoldsOneSession as HoldsOneSession
from ._port import Journal as Journal
from ._port import Record as Record
from ._reading import JournalReader as JournalReader
from ._reading import open_reader as open_reader
from ._sqlite import SqliteJournal as SqliteJournal
from ._verify import Verification as Verification
from ._verify import verify as verify
