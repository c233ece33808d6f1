"""Tools for agents, with no SDK behind them: a JSON Schema and a function each.

>>> from lastword.adapters.tools import Notices, tool_specs
"""

from __future__ import annotations

from ._naming import Profile as Profile
from ._native_arguments import MAX_WAIT_MS as MAX_WAIT_MS
from ._notices import Bulletin as Bulletin
from ._notices import Notices as Notices
from ._profiles import tool_specs as tool_specs
from ._spec import Handler as Handler
from ._spec import ToolSpec as ToolSpec
from ._telling import one_answer as one_answer
