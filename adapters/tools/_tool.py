"""From what a tool does to what a framework calls: judge, do, and answer, whatever happens.

Rules
- The handler raises nothing but cancellation: a fault of ours is logged, and answered as one.
- Nothing of the arguments is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from ...supervisor import ProcessNotFoundError, SpawnFailedError, SupervisorError
from ._arguments import BadArgumentError, Form
from ._jobs import Jobs
from ._result import Result, bad_argument, refusal, unforeseen
from ._spec import ToolSpec
from ._telling import Telling

logger = logging.getLogger(__name__)

ArgumentsT = TypeVar("ArgumentsT")


def tool(
    name: str,
    description: str,
    form: Form[ArgumentsT],
    act: Callable[[ArgumentsT, Telling], Awaitable[Result]],
    jobs: Jobs,
) -> ToolSpec:
    """A tool that reads its arguments by `form` and then does `act`."""

    async def handle(arguments: dict[str, Any]) -> Result:
        telling = Telling()
        given = False
        try:
            answer = await act(form.read(arguments), telling)
            given = True
        except BadArgumentError as error:
            answer = bad_argument(error)
        except SpawnFailedError as error:
            with suppress(ProcessNotFoundError):
                telling.ended(jobs.find(error.handle))
            answer = refusal(error)
            given = True
        except SupervisorError as error:
            answer = refusal(error)
        except Exception:
            logger.exception("the tool %s has failed", name)
            answer = unforeseen()
        finally:
            if not given:  # cancelled too
                await jobs.leave(telling.begun)
        if given:
            telling.given(jobs.listener)  # no await from here to the caller
        return answer

    return ToolSpec(name=name, description=description, input_schema=form.schema, handler=handle)
