"""What every test relies on: two backends, proved, one hypothesis profile, temporary files of its own, and a host that
does not ignore what a terminal sends."""

from __future__ import annotations

import functools
import inspect
import signal
import tempfile
from collections.abc import Generator
from typing import Any, cast

import hypothesis
import pytest
from anyio.lowlevel import current_token

# No deadline, and no complaint of slow drawing: these machines are noisy, and a timed assertion is never a test.
hypothesis.settings.register_profile("lastword", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("lastword")


@pytest.fixture(scope="session", autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    # So that what a test leaves of them can be counted, whatever else runs on the machine.
    before = tempfile.tempdir
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="session", autouse=True)
def _signals_as_in_a_terminal() -> None:
    # A shell starts background commands with some ignored, as does nohup, and jobs of the weakest tier inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Prove that each async test runs on the backend that its name says (`@given` tests assert it themselves)."""
    inner = pyfuncitem.obj
    if not inspect.iscoroutinefunction(inner) or hasattr(inner, "hypothesis"):
        return
    backend = pyfuncitem.funcargs["anyio_backend"]
    name = backend if isinstance(backend, str) else cast("tuple[str, object]", backend)[0]

    @functools.wraps(inner)
    async def checked(*args: Any, **kwargs: Any) -> None:
        on_trio = type(current_token().native_token).__module__.startswith("trio")
        assert on_trio == (name == "trio"), f"{pyfuncitem.name} does not run on {name}"
        await inner(*args, **kwargs)

    pyfuncitem.obj = checked
