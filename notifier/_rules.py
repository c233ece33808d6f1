"""The four ways in which an event breaks a rule, in the words of the contract."""

from __future__ import annotations

from typing import Final

UNSET: Final = "must be set"
NOT_ZERO: Final = "must be zero"
INVALID: Final = "is invalid"
UNKNOWN: Final = "is not a known event type"
