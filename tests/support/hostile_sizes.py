"""How many rounds are lived: twenty of each under `make prove`, two under `make test`."""

from __future__ import annotations

import pytest

ROUNDS, FULL_ROUNDS = 2, 20

# Orphaned sessions of one job.
WIDE, FULL_WIDE = 60, 500

# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 900

PROVE = (pytest.mark.prove, pytest.mark.timeout(FULL_TIMEOUT_SECONDS))

# Of a test that takes `rounds`.
SIZES = (ROUNDS, pytest.param(FULL_ROUNDS, marks=PROVE))
