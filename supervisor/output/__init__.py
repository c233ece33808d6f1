"""What processes write: kept, bounded, read by cursor, shown as text."""

from __future__ import annotations

from ._spool import OutputChunk as OutputChunk
from ._spool import OutputFault as OutputFault
from ._spool import SpoolState as SpoolState
from ._spool import SpoolWriter as SpoolWriter
from ._spool import read_spool as read_spool
from ._text import TextView as TextView
from ._text import view_text as view_text
