"""How much hostile text is shown and scrubbed: everything under `make prove`, a tenth of it under `make test`."""

from __future__ import annotations

import pytest

BYTES, FULL_BYTES = 100_000, 1 << 20

# For parametrize: how many bytes, and under which command.
SIZES = [
    pytest.param(BYTES, id="a_tenth"),
    pytest.param(FULL_BYTES, marks=pytest.mark.prove, id="a_megabyte"),
]
