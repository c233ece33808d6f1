"""The four ways in which an event breaks a rule, in the words of the contract, and the rules that ids share."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

UNSET: Final = "must be set"
NOT_ZERO: Final = "must be zero"
INVALID: Final = "is invalid"
UNKNOWN: Final = "is not a known event type"


class Breach(NamedTuple):
    """A rule that does not hold."""

    field: str
    rule: str


def required_id_rule(value: object) -> str | None:
    """Which rule an id that must be set breaks."""
    if value is None:
        return UNSET
    return None if type(value) is UUID and value.int else INVALID


def forbidden_id_rule(value: object) -> str | None:
    """Which rule an id that must not be set breaks."""
    return None if value is None else NOT_ZERO
