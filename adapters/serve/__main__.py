"""`python -P -m lastword.adapters.serve DIRECTORY [IDLE_SECONDS]`: what `connect_or_start` starts."""

from __future__ import annotations

import sys

from ._daemon import main

if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else None)
