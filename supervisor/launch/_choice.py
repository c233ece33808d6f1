"""Which launcher a supervisor gets: the strongest that this machine can have, or one that was asked for."""

from __future__ import annotations

from .._errors import ErrorCode, SupervisorError
from .._limits import Containment
from ._contained import ContainedLauncher
from ._delegation import Delegation, find_delegation
from ._group import GroupLauncher
from ._launcher import Launcher
from ._site import LauncherFactory, LaunchSite
from ._tiers import doctor


def strongest_launcher(site: LaunchSite) -> Launcher:
    """A launcher of the strongest tier."""
    return launcher_of(doctor().strongest)(site)


def launcher_of(containment: Containment) -> LauncherFactory:
    """What makes launchers of just that tier.

    It raises `SupervisorError` (lifetime_enforcement_unavailable) where this machine cannot have it.
    """

    def make(site: LaunchSite) -> Launcher:
        if containment is Containment.PROCESS_GROUP:
            return GroupLauncher(site)
        tier = next(tier for tier in doctor().tiers if tier.containment is containment)
        if containment is Containment.SUBREAPER and tier.available:
            return ContainedLauncher(site)
        found = find_delegation()
        if tier.available and isinstance(found, Delegation):
            return ContainedLauncher(site, cgroup=found.path)
        raise SupervisorError(
            ErrorCode.LIFETIME_ENFORCEMENT_UNAVAILABLE,
            f"this machine cannot hold processes by {containment.name.lower()}: {tier.why}",
        )

    return make
