"""Every case of the corpus gets its right answer, from the scope's text to the decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.catalogs import Catalogs, load_catalogs
from tests.corpus.choices import OTHER
from tests.corpus.runner import Corpus, World, is_plain, run

KINDS = ("path", "host", "tool", "shell", "grammar", "budget", "expiry")


@pytest.fixture(scope="module")
def corpus(shared: Path) -> Corpus:
    """The corpus beside the project."""
    return Corpus.load(shared)


@pytest.fixture(scope="module")
def catalogs() -> Catalogs:
    """The shipped catalogs."""
    return load_catalogs()


@pytest.fixture(scope="module")
def plain(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The tree that most cases look at and none of those changes."""
    return World(tmp_path_factory.mktemp("plain"), corpus.tree, {})


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_is_answered_right(
    kind: str, corpus: Corpus, catalogs: Catalogs, plain: World, tmp_path: Path
) -> None:
    """Firm cases get the one right answer; open ones the answer that is written down."""
    other = {name for names in OTHER.values() for name in names}
    wrong = []
    cases = [case for case in corpus.cases if case["kind"] == kind]
    for case in cases:
        due = case["alt"] if case["id"] in other else case["expect"]
        world = plain if is_plain(case) else World(tmp_path / case["id"], corpus.tree, case)
        answer, caveat = run(case, catalogs, world)
        if answer != due:
            wrong.append(f"{case['id']} {case['trick']}: {answer} ({caveat}) where {due} is due")
    assert cases
    assert not wrong, "\n".join(wrong)


def test_the_kinds_are_all_there(corpus: Corpus) -> None:
    """No case is left out because its kind is not in the list."""
    assert {case["kind"] for case in corpus.cases} == set(KINDS)


def test_only_open_cases_are_chosen(corpus: Corpus) -> None:
    """Every choice names a case that leaves two answers open, once."""
    open_cases = {case["id"] for case in corpus.cases if case.get("policy") == "choice"}
    named = [name for names in OTHER.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= open_cases


def test_a_refusal_names_the_caveat(
    corpus: Corpus, catalogs: Catalogs, plain: World, tmp_path: Path
) -> None:
    """A refused call names the caveat that the corpus names, but for a few with two at fault."""
    differs = {}
    for case in corpus.cases:
        world = plain if is_plain(case) else World(tmp_path / case["id"], corpus.tree, case)
        answer, caveat = run(case, catalogs, world)
        if answer == case["expect"] == "refuse" and caveat != case["caveat"]:
            differs[case["id"]] = (case["caveat"], caveat)
    assert set(differs.values()) <= {
        ("paths", "call"),  # the address cannot be read, under a scope that names paths only
        ("tools", "call"),  # a switch that lifts limits makes the call unreadable
        ("paths", "tools"),  # a tool that no catalog knows
        ("tools", "paths"),  # a shell's own folder
        ("calls", "until"),  # both have run out
        ("until", "paths"),
        ("scope", "paths"),
        ("scope", "calls"),
    }
    assert len(differs) < 20
