"""What a terminal would show: a job's screen for a model.  Needs the extra `screen` (pyte), which is loaded here.

>>> from lastword.adapters.screen import render_screen
"""

from __future__ import annotations

from ._screen import MAX_BYTES as MAX_BYTES
from ._screen import MAX_SIDE as MAX_SIDE
from ._screen import Screen as Screen
from ._screen import render_screen as render_screen
