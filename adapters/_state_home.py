"""The user's folder for state (XDG Base Directory Specification)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def state_home(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME`, or `.local/state` in the home directory: `$HOME`, or that of the user's entry.

    A relative path is ignored; the specification has it invalid.  Raises `RuntimeError` where there is no home either.
    """
    base, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if base.startswith("/"):
        return Path(base)
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""
    if not home.startswith("/"):
        raise RuntimeError("there is no home directory")
    return Path(home, ".local", "state")
