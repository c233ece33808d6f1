"""Every error of the library, as a value: what it says and carries survives copying and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import lastword.session.journal  # pyright: ignore[reportUnusedImport] -- its errors are looked for, too
import lastword.supervisor
from lastword.notifier import LastwordError

# What a constructor is given, by the name of its parameter, where a word will not do.
_VALUES: dict[str, object] = {
    "code": lastword.supervisor.ErrorCode.NOT_FOUND,
    "errno": 13,
    "record_id": UUID(int=7),
    "sequence": 3,
}


def _every_error(root: type[LastwordError] = LastwordError) -> Iterator[type[LastwordError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__.startswith("lastword."):
            yield from _every_error(kind)


def _made(kind: type[LastwordError]) -> LastwordError:
    if not any("__init__" in vars(each) for each in kind.__mro__ if issubclass(each, LastwordError)):
        return kind("what was wrong")
    parameters = list(inspect.signature(kind).parameters.values())
    arguments: list[Any] = [_VALUES.get(parameter.name, f"a {parameter.name}") for parameter in parameters]
    return kind(*arguments)


_ERRORS: list[type[LastwordError]] = sorted(set(_every_error()), key=str)


def _shallow(error: LastwordError) -> LastwordError:
    return copy.copy(error)


def _deep(error: LastwordError) -> LastwordError:
    return copy.deepcopy(error)


def _sent(error: LastwordError) -> LastwordError:
    sent: LastwordError = pickle.loads(pickle.dumps(error))
    return sent


@pytest.mark.parametrize("kind", _ERRORS)
@pytest.mark.parametrize("copied", [_shallow, _deep, _sent])
def test_an_error_can_be_copied_and_sent_elsewhere(
    kind: type[LastwordError], copied: Callable[[LastwordError], LastwordError]
) -> None:
    """As a process pool does, and `copy`: the same class, text and attributes."""
    error = _made(kind)
    again = copied(error)
    assert (type(again), str(again), again.args, vars(again)) == (kind, str(error), error.args, vars(error))
