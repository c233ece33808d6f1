"""The protocol's page names everything that goes over the socket, and every bound."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

import lastword.adapters.serve._bounds as bounds
import lastword.adapters.serve._values as values
from lastword.adapters.serve import SERVE_LIMITS, FaultCode
from lastword.adapters.serve._wire import REQUESTS

pytestmark = pytest.mark.checkout

PAGE = Path(__file__).parents[3] / "docs" / "serve.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text()


@pytest.mark.parametrize("op", list(REQUESTS))
def test_each_request_is_described_with_its_fields(page: str, op: str) -> None:
    (row,) = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith(f"| `{op}` ")]
    for field in attrs.fields(REQUESTS[op]):
        assert field.name in row[1], field.name
    for field in attrs.fields(REQUESTS[op].reply):
        assert field.name in row[2], field.name


def test_what_answers_are_made_of_is_described(page: str) -> None:
    text = " ".join(page.split())
    for kind in (values.ProcessInfo, values.OutcomeInfo, values.Chunk, values.EventInfo, values.Size, values.Resources):
        for field in attrs.fields(kind):
            assert field.name in text, (kind, field.name)


@pytest.mark.parametrize("code", [*FaultCode])
def test_each_fault_is_described(page: str, code: FaultCode) -> None:
    assert f"`{code}`" in page


def test_the_bounds_are_those_of_the_code(page: str) -> None:
    text = " ".join(page.split())
    for said in (
        f"at most {bounds.MAX_LINE_BYTES >> 20} MiB",
        f"{bounds.MAX_CHUNK_BYTES >> 10} KiB of output or input",
        f"{bounds.MAX_CONNECTIONS} connections",
        f"{bounds.MAX_IN_FLIGHT} requests",
        f"{bounds.MAX_WORDS} names",
        f"pages of {bounds.PAGE_ITEMS}",
        f"within {bounds.HELLO_SECONDS:.0f} seconds",
        f"version {bounds.VERSION}",
        f"{SERVE_LIMITS.running_per_session} processes at once",
        f"last {SERVE_LIMITS.spool_bytes >> 20} MiB",
        f"{SERVE_LIMITS.aggregate_spool_bytes >> 30} GiB in all",
    ):
        assert said in text, said
