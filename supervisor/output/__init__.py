"""What processes write: kept, bounded, read by cursor, shown as text."""

from __future__ import annotations

from ._chunk import OutputChunk as OutputChunk
from ._chunk import OutputFault as OutputFault
from ._chunk import SpoolState as SpoolState
from ._chunk import awaits_rest as awaits_rest
from ._chunk import to_fault as to_fault
from ._renderer import TextRenderer as TextRenderer
from ._ring import find_cursor as find_cursor
from ._ring import read_header as read_header
from ._ring import read_ring as read_ring
from ._streams import STREAMS as STREAMS
from ._streams import Streams as Streams
from ._text import TextView as TextView
from ._text import view_text as view_text
from ._visible import make_visible as make_visible
