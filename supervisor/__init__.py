"""The operating-system side: launch, contain, watch, keep output, stop."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    raise ImportError("lastword supervises POSIX processes; on Windows run it inside WSL")

from ._command import EnvPolicy as EnvPolicy
from ._command import HasOwner as HasOwner
from ._command import OnOutputLimit as OnOutputLimit
from ._command import host_variables as host_variables
from ._directory import StateDirectory as StateDirectory
from ._directory import hold_directory as hold_directory
from ._errors import DirectoryInUseError as DirectoryInUseError
from ._errors import ErrorCode as ErrorCode
from ._errors import InputBackpressureError as InputBackpressureError
from ._errors import InvalidCommandError as InvalidCommandError
from ._errors import ProcessNotFoundError as ProcessNotFoundError
from ._errors import QuotaExceededError as QuotaExceededError
from ._errors import SpawnFailedError as SpawnFailedError
from ._errors import StdinClosedError as StdinClosedError
from ._errors import SupervisorError as SupervisorError
from ._errors import TeardownFailedError as TeardownFailedError
from ._limits import Containment as Containment
from ._limits import Limits as Limits
from ._limits import ResourceLimits as ResourceLimits
from ._limits import TerminalSize as TerminalSize
from ._opening import open_supervisor as open_supervisor
from ._outbox import StoreOutbox as StoreOutbox
from ._outcome import Outcome as Outcome
from ._process import OutputFollower as OutputFollower
from ._process import Process as Process
from ._supervisor import Supervisor as Supervisor
from ._view import DirectoryView as DirectoryView
from ._view import ProcessView as ProcessView
from ._view import view_directory as view_directory
from .launch import Diagnosis as Diagnosis
from .launch import LackCode as LackCode
from .launch import LauncherFactory as LauncherFactory
from .launch import LaunchSite as LaunchSite
from .launch import MachineFacts as MachineFacts
from .launch import StopMode as StopMode
from .launch import Survivors as Survivors
from .launch import TierDiagnosis as TierDiagnosis
from .launch import doctor as doctor
from .output import OutputChunk as OutputChunk
from .output import OutputFault as OutputFault
from .output import Streams as Streams
from .output import TextRenderer as TextRenderer
from .output import TextView as TextView
