"""What every test relies on: two backends, proved, and one hypothesis profile."""

from __future__ import annotations

import functools
import inspect
from typing import Any, cast

import hypothesis
import pytest
from anyio.lowlevel import current_token

# No deadline: these machines are noisy, and a timed assertion is never a test.
hypothesis.settings.register_profile("lastword", deadline=None)
hypothesis.settings.load_profile("lastword")


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
