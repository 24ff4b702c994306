"""The corpus through `broker check --batch`: what a harness would see, in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console import process
from tests.corpus.runner import NOON, Corpus, World


def row_of(case: dict, world: World) -> dict:
    """Return a case as a row of the batch."""
    state = case.get("state") or {}
    call = case["call"] or {}
    row = {
        "id": case["id"],
        "scope": case["scope"],
        "arguments": world.fill(call.get("args", {})),
        "workspace": "C:\\ws" if case["platform"] == "windows" else str(world.root),
        "at": state.get("now", NOON),
    }
    if "tool" in call:
        row["tool"] = world.fill(call["tool"])
    if "minted_at" in state:
        row["minted_at"] = state["minted_at"]
    if "calls_used" in state:
        row["spent"] = state["calls_used"]
    if "subject" in case:
        row["subject"] = case["subject"]
    return row


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[dict]:
    """Every case that is one call: what needs a change of the tree is played elsewhere."""
    return [
        case
        for case in Corpus.load(shared).cases
        if "steps" not in case and "scope_added" not in (case.get("subject") or {})
    ]


def test_corpus(shared: Path, cases: list[dict], tmp_path: Path) -> None:
    """Every case gets an answer that is right for it, and the whole takes less than a second."""
    tree = Corpus.load(shared).tree
    plain = World(tmp_path / "plain", tree, {})
    rows = []
    for case in cases:
        own = bool(case.get("workspace"))
        world = World(tmp_path / case["id"], tree, case) if own else plain
        rows.append(json.dumps(row_of(case, world)))
    said = process("check", "--batch", "-", stdin="\n".join(rows).encode(), cwd=tmp_path)
    answers = {row["id"]: row for row in said.rows()}
    assert said.code in (0, 2)
    assert len(answers) == len(cases)
    wrong = [
        (case["id"], answers[case["id"]], case["expect"])
        for case in cases
        if answers[case["id"]]["decision"] not in {case["expect"], case.get("alt", case["expect"])}
    ]
    assert wrong == []
    assert said.cpu_s < 2


def test_firm_errors_name_the_scope(cases: list[dict], tmp_path: Path) -> None:
    """A scope that must not be read is an error that names the scope and says why."""
    rows = [
        {"id": case["id"], "scope": case["scope"], "tool": "read_file"}
        for case in cases
        if case["expect"] == "error" and "alt" not in case
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    said = process("check", "--batch", "-", stdin=lines.encode(), cwd=tmp_path)
    assert said.code == 2
    assert {row["decision"] for row in said.rows()} == {"error"}
    assert {row["caveat"] for row in said.rows()} == {"scope"}
    assert all(row["reason"] for row in said.rows())
