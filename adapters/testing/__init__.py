"""For tests of programs that embed lastword: jobs without processes, ports without a journal, time without waiting.

Everything above a job's process is the real thing, so what a test sees is what the program will see.
"""

from __future__ import annotations

from ._clock import ManualClock as ManualClock
from ._job import ScriptedJob as ScriptedJob
from ._job import ScriptedSpawnError as ScriptedSpawnError
from ._jobs import ScriptedJobs as ScriptedJobs
from ._ports import MemoryPorts as MemoryPorts
