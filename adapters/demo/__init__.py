"""The main job, real: a dozen commands of different fates at once, and every last word brought home.

`_jobs` says what is run and what must become of it, `_ledger` keeps what events and notices have said (and nothing
else), `_show` draws it, `_demo` runs it.
"""

from ._demo import run_demo as run_demo

__all__ = ["run_demo"]
