"""The tiers that this machine can have: the choice of the strongest, and the same said to people.

A tier needs all that the weaker Linux tier needs: jobs in a control group are kept by the same shims.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from .._limits import Containment
from ._delegation import Delegation, find_delegation
from ._lack import Lack, LackCode
from ._machine import MachineFacts, look_up

_PROOFS: Final = {
    Containment.CGROUP: "the kernel says that the job's control group is empty, and lets it be removed",
    Containment.SUBREAPER: "the job's keeper, which adopts every descendant, has no child left (ECHILD)",
    Containment.PROCESS_GROUP: "none: what leaves the group, as setsid and daemons do, is not reached and not counted",
}


@final
@attrs.frozen(kw_only=True)
class TierDiagnosis:
    """One tier: whether this machine can have it, what it proves, and what is missing where it cannot.

    `proof` is what says that nothing of a job is left.  `code` and `why` are None for a tier that is available.
    """

    containment: Containment
    proof: str
    code: LackCode | None
    why: str | None

    @property
    def available(self) -> bool:
        """Whether jobs can be held so."""
        return self.code is None


@final
@attrs.frozen(kw_only=True)
class Diagnosis:
    """What this machine can prove of the processes that are started on it; `str` says it to people.

    `tiers` has the strongest first.
    """

    tiers: tuple[TierDiagnosis, ...]
    facts: MachineFacts

    @property
    def strongest(self) -> Containment:
        """The tier that a supervisor uses."""
        return next(tier.containment for tier in self.tiers if tier.available)

    def render(self) -> str:
        """Lines for people, as the command line shows them."""
        return "\n".join(_lines(self))

    def __str__(self) -> str:
        return self.render()


def doctor() -> Diagnosis:
    """What this machine, and this process on it, can have and prove; it takes some milliseconds and raises nothing.

    No process is started.  To find out about control groups, an empty one is made and removed at once.
    """
    facts = look_up()
    lacks = {
        Containment.CGROUP: _cgroup_lack(facts),
        Containment.SUBREAPER: _subreaper_lack(facts),
        Containment.PROCESS_GROUP: None,
    }
    tiers = tuple(
        TierDiagnosis(
            containment=containment,
            proof=_PROOFS[containment],
            code=None if lack is None else lack.code,
            why=None if lack is None else lack.why,
        )
        for containment, lack in lacks.items()
    )
    return Diagnosis(tiers=tiers, facts=facts)


def strongest() -> Containment:
    """The strongest tier that this machine can have."""
    return doctor().strongest


def _cgroup_lack(facts: MachineFacts) -> Lack | None:
    lack = _subreaper_lack(facts)
    if lack is not None:
        return lack
    found = find_delegation()
    return None if isinstance(found, Delegation) else found


def _subreaper_lack(facts: MachineFacts) -> Lack | None:
    if not facts.system.startswith("Linux"):
        return Lack(LackCode.NOT_LINUX, "only Linux lets a process adopt its orphaned descendants")
    if not facts.interpreter:
        return Lack(
            LackCode.NO_INTERPRETER,
            "the processes that keep jobs run this Python again, and sys.executable names none (a frozen or embedding "
            "program); set sys.executable to an interpreter",
        )
    if not facts.proc:
        return Lack(LackCode.NO_PROC, "/proc is not mounted, or not for this pid namespace; mount it")
    if not facts.pidfd:
        return Lack(LackCode.NO_PIDFD, "this kernel or sandbox has no pidfd (Linux 5.4 has)")
    if not facts.subreaper:
        return Lack(
            LackCode.NO_SUBREAPER, "prctl cannot be called: this Python has no ctypes, or a sandbox refuses the call"
        )
    return None


def _lines(diagnosis: Diagnosis) -> list[str]:
    facts = diagnosis.facts
    lines = [f"{facts.system}: jobs are held by {diagnosis.strongest.name.lower()}", ""]
    for tier in diagnosis.tiers:
        lines.append(f"{tier.containment.name.lower():<14} {'yes' if tier.available else 'no'}")
        lines.append(f"    proof: {tier.proof}")
        if tier.code is not None:
            lines.append(f"    {tier.code}: {tier.why}")
    lines += ["", f"open files: {_count(facts.open_files)}; processes: {_count(facts.processes)}"]
    return lines + [f"note: {note}" for note in _notes(facts)]


def _count(limit: int | None) -> str:
    return "no limit" if limit is None else str(limit)


def _notes(facts: MachineFacts) -> list[str]:
    notes: list[str] = []
    if facts.adopts_orphans:
        notes.append(
            "this process adopts orphans (it is an init or a subreaper); those of strangers must be reaped by it, "
            "or it be run under an init (docker run --init)"
        )
    if facts.ignores_sigchld:
        notes.append("this process ignores SIGCHLD: held by process_group, jobs end with an unknown exit status")
    if not facts.terminals:
        notes.append("no terminal can be had (is /dev/pts mounted?): pty= is refused, and jobs run with pipes only")
    if facts.child_lists is False:
        notes.append("the kernel has no lists of children, so stopping looks through all processes, which is slower")
    unknown = [
        field.name
        for field in attrs.fields(MachineFacts)
        if field.name in ("child_lists", "adopts_orphans", "ignores_sigchld") and getattr(facts, field.name) is None
    ]
    if unknown:
        notes.append(f"unknown here: {', '.join(unknown)}")
    return notes
