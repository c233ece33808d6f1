"""How many rounds are lived: twenty of each under `make prove`, two under `make test`."""

from __future__ import annotations

import pytest

ROUNDS, FULL_ROUNDS = 2, 20

# Orphaned sessions of one job.
WIDE, FULL_WIDE = 60, 500

# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 900

PROVE = (pytest.mark.prove, pytest.mark.timeout(FULL_TIMEOUT_SECONDS))

# Backend, and whether of an ordinary user.  The second is the first's opposite in both, so that two rounds see each.
TURNS = (("asyncio", True), ("trio", False), ("asyncio", False), ("trio", True))

# Rounds and marks, of a short run and of a full one.
SIZES = ((ROUNDS, ()), (FULL_ROUNDS, PROVE))
