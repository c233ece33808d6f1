"""Which process a word means: handle, name, prefix; never a guess."""

from __future__ import annotations

import pytest

from lastword.adapters.serve import AmbiguousProcessError, Candidate, NoSuchProcessError, resolve

WEB_OLD = Candidate("aaaa1", "web", running=False)
WEB_NEW = Candidate("aabb2", "web", running=True)
TESTS = Candidate("ccdd3", "tests", running=False)
NAMELESS = Candidate("ddee4", "", running=True)
ALL = [WEB_OLD, WEB_NEW, TESTS, NAMELESS]


@pytest.mark.parametrize(
    ("word", "handle"),
    [
        ("aaaa1", "aaaa1"),
        ("web", "aabb2"),  # the one that still runs
        ("tests", "ccdd3"),
        ("aab", "aabb2"),
        ("d", "ddee4"),
    ],
)
def test_a_word_means_one_process(word: str, handle: str) -> None:
    assert resolve(word, ALL) == handle


def test_a_name_that_nobody_runs_under_any_more_is_the_last_one() -> None:
    assert resolve("web", [WEB_OLD, Candidate("eeee5", "web", running=False), TESTS]) == "eeee5"


def test_a_handle_comes_before_a_name_and_a_name_before_a_prefix() -> None:
    assert resolve("ccdd3", [TESTS, Candidate("eeee5", "ccdd3", running=True)]) == "ccdd3"
    assert resolve("cc", [TESTS, Candidate("eeee5", "cc", running=True)]) == "eeee5"


@pytest.mark.parametrize("word", ["", "x", "WEB", "aaaa12"])
def test_what_nobody_is_called_is_refused(word: str) -> None:
    with pytest.raises(NoSuchProcessError) as caught:
        resolve(word, ALL)
    assert caught.value.word == word


@pytest.mark.parametrize(
    ("word", "known", "handles"),
    [
        ("aa", ALL, ("aaaa1", "aabb2")),
        ("web", [WEB_NEW, Candidate("eeee5", "web", running=True)], ("aabb2", "eeee5")),
        ("x", [Candidate(f"x{index}", "", running=True) for index in range(9)], ("x0", "x1", "x2", "x3")),
    ],
)
def test_what_may_be_several_is_not_guessed(word: str, known: list[Candidate], handles: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousProcessError) as caught:
        resolve(word, known)
    assert caught.value.handles == handles
    assert all(handle in str(caught.value) for handle in handles)
