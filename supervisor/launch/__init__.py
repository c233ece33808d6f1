"""How jobs are spawned, contained, watched and ended; one launcher for each tier."""

from __future__ import annotations

from ._choice import launcher_of as launcher_of
from ._choice import strongest_launcher as strongest_launcher
from ._contained import ContainedLauncher as ContainedLauncher
from ._group import GroupLauncher as GroupLauncher
from ._input import Input as Input
from ._input import open_pipe as open_pipe
from ._lack import LackCode as LackCode
from ._launcher import Child as Child
from ._launcher import ExitStatus as ExitStatus
from ._launcher import Launcher as Launcher
from ._launcher import LaunchFailedError as LaunchFailedError
from ._launcher import LaunchSpec as LaunchSpec
from ._launcher import Listener as Listener
from ._launcher import Report as Report
from ._launcher import StopMode as StopMode
from ._launcher import Survivors as Survivors
from ._launcher import Wishes as Wishes
from ._machine import MachineFacts as MachineFacts
from ._old_shims import wait_for_old_shims as wait_for_old_shims
from ._site import LauncherFactory as LauncherFactory
from ._site import LaunchSite as LaunchSite
from ._terminal import TerminalInput as TerminalInput
from ._terminal import open_terminal as open_terminal
from ._tiers import Diagnosis as Diagnosis
from ._tiers import TierDiagnosis as TierDiagnosis
from ._tiers import doctor as doctor
from ._tiers import strongest as strongest
