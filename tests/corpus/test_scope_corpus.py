"""The corpus of scopes: which texts are read, which are refused, and that none is slow."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ScopeError
from broker.instants import parse_instant
from broker.scope import parse_scope, render

MADE_AT = "2026-01-01T12:00:00Z"
GROUPS = {"reads": frozenset({"read_file", "list_dir"})}

# Where the corpus leaves it open whether a text is an error, ours is an error, but for these.
# Where only some texts of a kind are read, they are listed.
READ: dict[tuple[str, str], frozenset[str] | None] = {
    ("absolute", "far"): None,  # 9999 is a year of the calendar
    ("absolute-malformed", "mal-lower"): None,  # RFC 3339 takes `t` and `z`
    ("relative-malformed", "mal-huge"): frozenset({"until=100000d"}),  # ends before 9999
    ("relative-malformed", "mal-unit"): frozenset({"until=1w"}),  # weeks have one length
    ("count", "zero"): None,  # zero calls, with a warning
    ("number", "num-blank"): None,  # blanks around a value are dropped
    ("key", "blank-around"): None,
    ("key", "other-sep"): frozenset({"paths=>src/**"}),  # only the first `=` separates
    ("valid", "equals-in-value"): None,
    ("value", "quotes"): frozenset({'paths="src/**"'}),
    ("value", "semicolon"): frozenset({"paths=src;docs"}),  # one name, with a warning
    ("whitespace", "scope-blank"): None,
    ("unicode", "real-unicode"): None,  # tools may be named in any script
    ("wildcard", "lead-star"): None,
    ("wildcard", "tld"): frozenset({"hosts=*.co.uk"}),  # no list of public suffixes is kept
    ("glob", "class-bracket"): None,
    ("glob", "dot-part"): None,  # `./src/**` is tidied
    ("glob", "empty-part"): None,
    ("glob", "trailing-slash"): None,
    ("dots", "root-dot"): None,
    ("idn", "idn-bad-puny"): None,
}


@cache
def _cases(place: Path) -> tuple[dict[str, Any], ...]:
    lines = (place / "corpus" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def _answer(case: dict[str, Any]) -> str:
    """Return ``error`` or ``read``, whichever the texts of a case get."""
    state = case.get("state") or {}
    made_at = parse_instant(state.get("minted_at", MADE_AT))
    try:
        parse_scope(case["scope"], at=made_at, groups=GROUPS, past_ok=True)
    except ScopeError:
        return "error"
    return "read"


def _wanted(case: dict[str, Any]) -> set[str]:
    """Return the answers that the corpus takes for the texts of a case."""
    answers = [case["expect"], case["alt"]] if case.get("policy") == "choice" else [case["expect"]]
    return {"error" if answer == "error" else "read" for answer in answers}


def test_every_text_gets_an_answer_the_corpus_takes(shared: Path) -> None:
    """Sure cases are answered exactly, open ones with one of the two answers, in every family."""
    wrong = [c["id"] for c in _cases(shared) if _answer(c) not in _wanted(c)]
    assert wrong == []
    assert len(_cases(shared)) > 1_000


def test_open_cases_are_answered_as_decided(shared: Path) -> None:
    """Where it is open whether a text is an error, the answer is the one written down here."""
    wrong = []
    seen = set()
    for case in _cases(shared):
        if _wanted(case) != {"error", "read"}:
            continue
        trick = (case["family"], case["trick"])
        texts = READ.get(trick, frozenset())
        seen.add(trick)
        ours = "read" if texts is None or texts.intersection(case["scope"]) else "error"
        if _answer(case) != ours:
            wrong.append((case["id"], case["scope"]))
    assert wrong == []
    assert seen >= set(READ)


def test_what_is_read_is_written_and_read_back(shared: Path) -> None:
    """Every scope of the corpus survives being written."""
    at = parse_instant(MADE_AT)
    count = 0
    for case in _cases(shared):
        if _answer(case) == "read":
            caveats = parse_scope(case["scope"], at=at, groups=GROUPS, past_ok=True).caveats
            assert parse_scope(render(caveats), at=at, past_ok=True).caveats == caveats
            count += 1
    assert count > 500


def test_malformed_texts_are_refused_with_a_place_and_quickly(shared: Path) -> None:
    """Each error of the corpus is one line, points into its text, and takes no time."""
    for case in _cases(shared):
        if _answer(case) != "error":
            continue
        begun = time.perf_counter()
        with pytest.raises(ScopeError) as caught:
            parse_scope(case["scope"], at=parse_instant(MADE_AT), groups=GROUPS, past_ok=True)
        assert time.perf_counter() - begun < 0.5, case["id"]
        assert "\n" not in str(caught.value)
        assert 0 <= caught.value.offset <= len(caught.value.text)
