"""A ring file whose writer lives in the host: what fails in it ends the keeping of one job's output, and nothing else.

- A shim that fails takes its job with it, and that is told.  Here the job goes on: it is drained and counted, and from
  where its output is not kept any more is told as of a disk that failed.
- The log shows where it was and not the error's text, which may have the job's output in it.
"""

from __future__ import annotations

import logging
import traceback
from typing import final

from ..shim._header import STDOUT
from ..shim._ring import RingWriter

logger = logging.getLogger(__name__)


@final
class GroupRing(RingWriter):
    """A `RingWriter` that never raises, whatever is wrong with it."""

    def append(self, data: memoryview, stream: int = STDOUT) -> None:
        """See `RingWriter.append`."""
        total = self.total + len(data)
        try:
            super().append(data, stream)
        except Exception as error:
            self._fail_of(error, total)

    def publish(self) -> None:
        """See `RingWriter.publish`."""
        try:
            super().publish()
        except Exception as error:
            self._fail_of(error, self.total)

    def seal(self, *, proven: bool) -> None:
        """See `RingWriter.seal`."""
        try:
            super().seal(proven=proven)
        except Exception as error:
            self._fail_of(error, self.total)

    def _fail_of(self, error: Exception, total: int) -> None:
        if self.fault is None:
            logger.error(
                "a process's output could not be kept, in a way that nobody foresaw; the process goes on\n%s%s",
                "".join(traceback.format_tb(error.__traceback__)),
                type(error).__name__,
            )
        self.give_up(total)
