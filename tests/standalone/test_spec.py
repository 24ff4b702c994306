"""The page that specifies receipts is in order, and says what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from broker import limits
from broker.receipt.entry import SEAL_REASONS
from broker.receipt.form import LEDGER, RECEIPT
from broker.receipt.head import HEAD_BYTES, SLOT_BYTES
from broker.standalone import verify_receipt

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "receipt.md").read_text(encoding="utf-8")
CLAUSE = re.compile(r"\bR([1-9][0-9]?)(?:\.([1-9][0-9]?))?\b")
DEFINED = [(int(a), int(b)) for a, b in re.findall(r"\*\*R([0-9]+)\.([0-9]+)\*\*", PAGE)]
PARTS = [int(number) for number in re.findall(r"^## R([0-9]+) ", PAGE, re.MULTILINE)]


def _cited(text: str) -> set[tuple[int, int]]:
    return {(int(a), int(b or 0)) for a, b in CLAUSE.findall(text)}


def test_clauses_are_numbered_without_a_gap() -> None:
    """Parts count from 1, and so do the clauses of each part, in the order of the page."""
    assert list(range(1, len(PARTS) + 1)) == PARTS
    expected = [
        (part, number)
        for part in PARTS
        for number in range(1, sum(each == part for each, _ in DEFINED) + 1)
    ]
    assert expected == DEFINED


def test_every_clause_that_is_named_exists() -> None:
    """Page, one-file verifier, vectors and tests name only clauses that are there."""
    known = {*DEFINED, *((part, 0) for part in PARTS)}
    places = [ROOT / "docs/receipt.md", Path(verify_receipt.__file__)]
    places += [*(ROOT / "tests/standalone").glob("*.py"), *(ROOT / "tests/vectors").rglob("*.json")]
    places += [ROOT / "tests/unit/test_standalone_verify_receipt.py"]
    for place in places:
        if place != Path(__file__):
            unknown = _cited(place.read_text(encoding="utf-8")) - known
            assert not unknown, (place.name, unknown)


def test_every_part_that_a_file_alone_can_break_has_vectors() -> None:
    """Vectors exist for every part that is about the bytes of a receipt and what vouches for it."""
    folder = ROOT / "tests" / "vectors" / "receipt"
    cited = {part for file in folder.glob("*.json") for part, _ in _cited(file.read_text())}
    assert {2, 3, 4, 5, 6, 7, 8, 9, 12} <= cited


def test_limits_are_those_of_the_code() -> None:
    """The page's numbers are the constants that the code works with."""
    for number in (
        limits.MAX_LINE_BYTES,
        limits.MAX_NOTE_BYTES,
        limits.MAX_PROOF_BYTES,
        HEAD_BYTES,
    ):
        assert f"{number:,} bytes" in PAGE
    assert f"of {SLOT_BYTES} bytes each" in PAGE
    assert f"nest at most {limits.MAX_RECORD_DEPTH} deep" in PAGE
    assert limits.MAX_SAFE_INT == 2**53 - 1
    assert f"1 to {limits.MAX_SID_CHARS} of" in PAGE
    assert f"at most {limits.MAX_NOTE_SIGNATURES} such" in PAGE
    assert f"none to {limits.MAX_PROOF_HASHES}" in PAGE


def test_kinds_and_labels_are_those_of_the_code() -> None:
    """The page names every kind, every reason to seal and every label of both forms."""
    kinds = PAGE[PAGE.index("**R5.1**") : PAGE.index("**R5.2**")]
    assert set(re.findall(r"`([a-z]+)`", kinds)) == set(RECEIPT.kinds.values())
    assert set(verify_receipt.KINDS) == set(RECEIPT.kinds.values())
    rows = PAGE[PAGE.index("**R10.3**") : PAGE.index("**R10.4**")]
    assert set(re.findall(r"^\| `([a-z]+)`", rows, re.MULTILINE)) == LEDGER.appended
    for form in (RECEIPT, LEDGER):
        for label in (form.line_label, form.head_label, form.genesis_label):
            assert f"`{label}`" in PAGE
    assert all(f"`{reason}`" in PAGE for reason in SEAL_REASONS)
    assert verify_receipt.CLOSINGS == SEAL_REASONS


def reasons(folder: Path) -> dict[str, str]:
    """Return the words that a ``Break`` is made with, each with a file that makes it."""
    found = {}
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else ""
                name = called.id if isinstance(called, ast.Name) else name
                if name in ("Break", "broken", "need") and len(node.args) > 1:
                    found[str(node.args[0].value)] = file.name
    return found


def test_every_reason_stands_in_the_page() -> None:
    """Whatever word a break can have, the page says what it means."""
    told = set(re.findall(r"`([a-z_]+)`", PAGE))
    known = reasons(ROOT / "broker" / "receipt") | reasons(ROOT / "broker" / "anchors")
    assert {"mac", "fork", "truncated", "checkpoint_sig"} <= set(known)
    assert {word: file for word, file in known.items() if word not in told} == {}


def test_the_one_file_verifier_gives_no_reason_of_its_own() -> None:
    """A reason of the one-file verifier stands in the page, or is one of those of exit code 2."""
    told = set(re.findall(r"`([a-z_]+)`", PAGE))
    tree = ast.parse(Path(verify_receipt.__file__).read_text(encoding="utf-8"))
    given = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "need"
        and isinstance(node.args[1], ast.Constant)
    }
    assert len(given) > 30
    assert given - told <= {"unsafe", "nothing", "key", "vkey", "anchor"}
