"""The vectors that a stranger's verifier is tried with are what the generator makes, and right."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from broker.standalone import verify_receipt
from tests.standalone.kit import SIGNER, Files, first, run
from tests.standalone.vectors import HOME, documents, spelled

ACCEPT, REJECT, PROOFS = (
    json.loads((HOME / f"{name}.json").read_text()) for name in ("accept", "reject", "proofs")
)
RECEIPTS = [*ACCEPT["cases"], *REJECT["cases"]]


def _put(place: Path, case: dict[str, Any], name: str) -> Path | None:
    """Write a file of a case, if it has one."""
    content = case[name].encode() if name in case else None
    if f"{name}_base64" in case:
        content = b64decode(case[f"{name}_base64"])
    if content is None:
        return None
    if "then" in case and name == "receipt":  # a part of the file that is only repetition
        character, times = case["then"]
        content += character.encode() * times
    path = place / name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def command(place: Path, case: dict[str, Any]) -> list[str]:
    """Write the files of a case; return the command line of the one-file verifier."""
    key = place / "key"
    key.write_bytes(bytes.fromhex(ACCEPT["key_hex"]))
    key.chmod(0o600)
    receipt = _put(place, case, "receipt")
    options = {
        "sid": ACCEPT["sid"],
        "key-file": key if "key" in case["given"] else None,
        "head": _put(place, case, "head"),
        "vkey": ACCEPT["vkey"] if "vkey" in case["given"] else None,
        "checkpoint": _put(place, case, "checkpoint"),
        "level": case.get("level"),
    }
    named = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return [str(receipt), *named, *(["--require-seal"] if "require_seal" in case else [])]


def test_the_vectors_are_what_the_generator_makes() -> None:
    """The files in the repository are, byte for byte, those made from fixed keys and instants."""
    made = {name: spelled(document) for name, document in documents().items()}
    assert {name: (HOME / name).read_text() for name in made} == made


@pytest.mark.parametrize("case", RECEIPTS, ids=lambda case: case["name"])
def test_the_one_file_verifier_answers_as_the_vectors_say(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """R9: exit code, reason and place, or state, level, completeness and number of lines."""
    code, found = run(command(tmp_path, case))
    expect = case["expect"]
    assert code == expect["code"], found
    if code == 1:
        at = [expect["line"], expect["offset"]]
        assert (found["reason"], found["at"]) == (expect["reason"], at)
    if code == 0:
        assert {name: found[name] for name in expect if name != "code"} == {
            name: value for name, value in expect.items() if name != "code"
        }


@pytest.mark.parametrize("case", RECEIPTS, ids=lambda case: case["name"])
def test_the_broker_answers_as_the_vectors_say(case: dict[str, Any], tmp_path: Path) -> None:
    """R9: our own verifier gives the same exit code, reason and place, or the same verdict."""
    assert SIGNER.vkey == ACCEPT["vkey"]
    command(tmp_path, case)
    names = {name: tmp_path / name for name in ("head", "checkpoint")}
    asked = Files(
        ACCEPT["sid"],
        tmp_path / "receipt",
        key=tmp_path / "key" if "key" in case["given"] else None,
        level=case.get("level"),
        require_seal="require_seal" in case,
        **{name: path for name, path in names.items() if path.exists()},
    )
    answer, expect = first(asked), case["expect"]
    assert answer.code == expect["code"]
    if answer.code == 1:
        assert (answer.word, *answer.more) == (expect["reason"], expect["line"], expect["offset"])
    if answer.code == 0:
        level, lines, _, completeness, *_ = answer.more
        assert (answer.word, level, lines, completeness) == tuple(
            expect[name] for name in ("state", "level", "lines", "completeness")
        )


@pytest.mark.parametrize("case", PROOFS["cases"], ids=lambda case: case["name"])
def test_the_one_file_verifier_reads_proofs(case: dict[str, Any], tmp_path: Path) -> None:
    """R8.8: a line is proven by its path and a checkpoint, and by nothing less."""
    proof, line = _put(tmp_path, case, "proof"), _put(tmp_path, case, "line")
    given = [str(line)] if line else []
    code, found = run([*given, f"--proof={proof}", f"--vkey={PROOFS['vkey']}"])
    answer = {"code": code, **{name: found.get(name) for name in case["expect"] if name != "code"}}
    assert answer == case["expect"]


def test_it_runs_alone(tmp_path: Path) -> None:
    """A bare interpreter, with no path to our code or to any library, verifies and refuses."""
    file = Path(verify_receipt.__file__)
    alone = tmp_path / "elsewhere.py"
    alone.write_bytes(file.read_bytes())
    for case in (ACCEPT["cases"][0], REJECT["cases"][0]):
        line = [sys.executable, "-I", "-S", str(alone), *command(tmp_path, case)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == case["expect"]["code"], done.stderr
        assert case["expect"].get("reason", "verified") in done.stdout
