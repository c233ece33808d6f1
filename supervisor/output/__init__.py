"""What processes write: kept, bounded, read by cursor, shown as text."""

from __future__ import annotations

from ._renderer import TextRenderer as TextRenderer
from ._ring import OutputChunk as OutputChunk
from ._ring import OutputFault as OutputFault
from ._ring import SpoolState as SpoolState
from ._ring import awaits_rest as awaits_rest
from ._ring import read_header as read_header
from ._ring import read_ring as read_ring
from ._ring import to_fault as to_fault
from ._text import TextView as TextView
from ._text import view_text as view_text
from ._visible import make_visible as make_visible
