"""Which characters the texts of a workflow may have: all of a category, or none."""

from __future__ import annotations

import functools
import sys
import unicodedata

import pytest
from contract_samples import ACTIVITY, but

from lastword.notifier import InvalidEventError, validate_event


@functools.cache
def by_category() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        found.setdefault(unicodedata.category(character), []).append(character)
    return found


def of_category(*categories: str) -> list[str]:
    return [character for category in categories for character in by_category()[category]]


@pytest.mark.parametrize("field", ["vertex_label", "message"])
def test_no_control_character_is_in_a_line(field: str) -> None:
    """None of the category, wherever it stands."""
    controls = of_category("Cc")
    assert len(controls) == 65
    for character in controls:
        for text in (character, f"a{character}b", f"{character}a", f"a{character}"):
            with pytest.raises(InvalidEventError, match=f"{field} is invalid"):
                validate_event(but(ACTIVITY, **{field: text}))


@pytest.mark.parametrize("field", ["vertex_label", "message"])
def test_any_other_character_is(field: str) -> None:
    """Formats, separators, marks, symbols: with something to see beside them."""
    for character in of_category("Cf", "Zl", "Zp", "Zs", "Mn", "So"):
        validate_event(but(ACTIVITY, **{field: f"a{character}"}))


@pytest.mark.parametrize("category", ["Lu", "Ll", "Lt", "Lm", "Nd"])
def test_every_letter_and_decimal_digit_is_in_a_version(category: str) -> None:
    """Of every script, with case or without."""
    for character in of_category(category):
        validate_event(but(ACTIVITY, workflow_version=character))


@pytest.mark.parametrize("category", ["Nl", "No", "Mn", "Mc", "Me", "Pc", "Pd", "Po", "Zs", "Cc", "Cf", "Sm"])
def test_no_other_character_is_in_a_version(category: str) -> None:
    """But those four that are named."""
    for character in set(of_category(category)) - set("._-+"):
        with pytest.raises(InvalidEventError, match="workflow_version is invalid"):
            validate_event(but(ACTIVITY, workflow_version=f"1{character}"))
