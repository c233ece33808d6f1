"""A tool as any agent framework can take it: four plain values, and no SDK behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, final

import attrs

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@final
@attrs.frozen(kw_only=True)
class ToolSpec:
    """One tool for a model.

    - `name`, `description`: what the model is shown.
    - `input_schema`: a JSON Schema (2020-12) of an object that refuses what it does not know.
    - `handler`: `await handler(arguments)` is the tool's result, a dict that any JSON encoder takes.  What is wrong is
      a result, too: it has `error` (a code) and `message`, and `field` where an argument is to blame.  It raises
      nothing but cancellation, which leaves a process that was started running under its handle.
    """

    name: str
    description: str
    input_schema: dict[str, Any] = attrs.field(repr=False)
    handler: Handler = attrs.field(repr=False)
