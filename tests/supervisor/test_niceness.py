"""How nice a job is: as its host is when it starts, whoever has been forked for it by then."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable

import anyio
import psutil
from shim_ground import spare_of
from supervising import OWNER, output_of, supervising, until

from lastword.supervisor import Containment, ResourceLimits, Supervisor


def _own() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _become_nicer(pid: int = 0) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + 1)


def _in_thread(backend: str, test: Callable[[], Awaitable[None]]) -> None:
    """Linux has a niceness for each thread; and who raises it may have no right to lower it again."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            anyio.run(test, backend=backend)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


async def _niceness_of_job(supervisor: Supervisor, limits: ResourceLimits | None = None) -> int:
    process = await supervisor.start("cut -d' ' -f 19 /proc/$$/stat", owner=OWNER, resources=limits)
    assert (await process.wait()).exit_code == 0
    return int(await output_of(process))


async def _zygote_with_spare() -> int:
    (zygote,) = [child.pid for child in psutil.Process().children() if child.name() == "lastword-zygote"]
    await until(lambda: spare_of(zygote) is not None)
    return zygote


def test_a_job_is_as_nice_as_its_host_is_by_then(each_tier: Containment, anyio_backend_name: str) -> None:
    """The first and the second after a change, and what is asked for is added to that."""
    contained = each_tier is not Containment.PROCESS_GROUP

    async def change() -> None:
        async with supervising() as supervisor:
            assert await _niceness_of_job(supervisor) == _own()
            for _ in range(2):
                if contained:
                    await _zygote_with_spare()
                _become_nicer()
                assert await _niceness_of_job(supervisor) == _own()
            assert await _niceness_of_job(supervisor) == _own()
            if contained:
                assert await _niceness_of_job(supervisor, ResourceLimits(nice=2)) == _own() + 2

    _in_thread(anyio_backend_name, change)


def test_what_somebody_else_gives_the_zygote_stays_until_the_host_changes(
    each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """The later word counts."""

    async def change() -> None:
        async with supervising() as supervisor:
            await _niceness_of_job(supervisor)
            zygote = await _zygote_with_spare()
            for _ in range(3):
                _become_nicer(zygote)
            for _ in range(2):
                assert await _niceness_of_job(supervisor) == _own() + 3
            _become_nicer()
            try:
                os.setpriority(os.PRIO_PROCESS, zygote, os.getpriority(os.PRIO_PROCESS, zygote) - 1)
                may_be_less_nice = True
            except PermissionError:
                may_be_less_nice = False
            nicer = 0 if may_be_less_nice else 2
            assert await _niceness_of_job(supervisor) == _own() + nicer
            _become_nicer(zygote)
            assert await _niceness_of_job(supervisor) == _own() + nicer + 1

    _in_thread(anyio_backend_name, change)
