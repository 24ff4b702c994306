"""Runs what `docs/frameworks.md` shows of one framework, in that framework's own test."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

from broker.home import Home
from broker.receipt.keys import load_key
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from broker.sessions.ground import key_path
from tests.docs.blocks import read_blocks, run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
ELSEWHERE = "needs the framework; its own test runs it"


def run_section(title: str, names: dict[str, object], workspace: Path) -> list[str]:
    """
    Run the blocks of one section in a workspace with a file ``src/a.py``.

    Returns the decisions that it led to, each as its tool and ``allow`` or the caveat, sorted;
    whatever differs from the page fails.
    """
    text = PAGE.read_text(encoding="utf-8")
    lines = text.splitlines()
    first = lines.index(f"## {title}") + 1
    last = next((n for n, t in enumerate(lines[first:], first) if t.startswith("## ")), len(lines))
    blocks = [
        dataclasses.replace(block, norun=None)
        for block in read_blocks(text)
        if first < block.line <= last and block.norun == ELSEWHERE
    ]
    assert blocks, f"the page shows nothing under `{title}`"
    (workspace / "src").mkdir()
    (workspace / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
    names["__name__"] = "__page__"
    with contextlib.chdir(workspace):
        faults = [fault for block in blocks for fault in run_python(block, names, PAGE.name)]
    assert not faults, "\n".join(faults)
    return decided()


def decided() -> list[str]:
    """Return every decision in the receipts of this test's home."""
    home = Home.find(os.environ)
    key = load_key(key_path(home))
    receipts = Receipts(home, key)
    found = []
    for sid in (info.sid for info in receipts.sessions()):
        for entry in read_entries(receipts.path(sid), key, receipts.head_path(sid), sid=sid):
            if entry.kind == "decision":
                caveat = entry.data.get("caveat", "")
                found.append(f"{entry.data['tool']} {caveat or 'allow'}")
    return sorted(found)  # calls of one turn are made at once
