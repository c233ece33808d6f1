"""The backoff: a pure function of the attempt and an injected random source."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword.notifier import InvalidArgumentError, next_delay


@given(attempt=st.integers(1, 10**9), seed=st.integers())
def test_every_delay_is_within_its_doubling_ceiling(attempt: int, seed: int) -> None:
    ceiling = 30.0 if attempt > 10 else min(30.0, 0.05 * 2 ** (attempt - 1))
    assert 0.0 <= next_delay(attempt, Random(seed)) <= ceiling


def test_the_jitter_covers_the_whole_range() -> None:
    class Edge(Random):
        def uniform(self, a: float, b: float) -> float:
            edges.append((a, b))
            return b

    edges: list[tuple[float, float]] = []
    assert [next_delay(attempt, Edge()) for attempt in (1, 2, 3, 10, 11, 99)] == [0.05, 0.1, 0.2, 25.6, 30.0, 30.0]
    assert {low for low, _ in edges} == {0.0}


@pytest.mark.parametrize("attempt", [0, -1, 1.5, 1.0, True, math.nan, "1", None, -(10**30)], ids=repr)
def test_an_attempt_counts_from_one(attempt: Any) -> None:
    with pytest.raises(ValueError, match="counts from 1") as caught:
        next_delay(attempt, Random(0))
    assert isinstance(caught.value, InvalidArgumentError)
    assert caught.value.field == "attempt"
