"""What a process is called towards a model, profile by profile.  Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

Profile = Literal["native", "claude", "codex"]


def name_of(profile: Profile, handle: str) -> str:
    """The words for the process of that handle in a sentence."""
    match profile:
        case "native":
            return f"process {handle}"
        case "claude":
            return f"background task {handle}"
        case "codex":
            return f"session {session_number(handle)}"


def session_number(handle: str) -> int:
    """The number that stands for a handle where only numbers can: the same in every life, 31 bits, never 0."""
    return int.from_bytes(sha256(handle.encode()).digest()[:4], "big") % (2**31 - 1) + 1
