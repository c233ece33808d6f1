"""What every bridge needs: its SDK, when it is called, and a tool's answer as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..tools import ToolSpec


def sdk(module: str, distribution: str) -> Any:
    """The SDK's module.  Raises `ModuleNotFoundError` that says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the SDK itself needs
        raise ModuleNotFoundError(
            f"this bridge is for an SDK that is not installed: pip install {distribution}", name=error.name
        ) from None


def as_json(result: dict[str, Any]) -> str:
    """A tool's answer, as the model reads it."""
    return json.dumps(result, ensure_ascii=False)


def parsed(arguments: str) -> Any:
    """A model's arguments; what is no JSON is left to the tool to refuse."""
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None


def spec_of(specs: Sequence[ToolSpec], name: str) -> ToolSpec | None:
    """The tool of that name, if there is one."""
    return next((spec for spec in specs if spec.name == name), None)
