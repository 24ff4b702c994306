"""Both verifiers on the same files, so that their answers can be held against each other."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import Break, BrokerError
from broker.receipt.keys import Key
from broker.receipt.signing import SigningKey
from broker.receipt.verify import verify
from broker.standalone import verify_receipt
from tests.receiptkit import KEY

SIGNER = SigningKey.of(bytes(range(64, 96)))
# What the first verifier gives a code for, and the second one word.
UNTOLD = {"unsafe", "key", "vkey", "nothing", "anchor"}


@dataclass(frozen=True, slots=True)
class Files:
    """A receipt and what lies beside it; what is None is not given to a verifier."""

    sid: str
    receipt: Path
    head: Path | None = None
    checkpoint: Path | None = None
    key: Path | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a verifier says: the exit code, one word, and the place of a break or what was found.

    Codes of errors are left out: that nothing can be told is all that both must agree on.
    """

    code: int
    word: str
    more: tuple[object, ...] = ()


def run(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """Run the one-file verifier in this process; return its exit code and what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = verify_receipt.main([*arguments, "--json"])
    return code, json.loads(printed.getvalue())


def arguments(files: Files) -> list[str]:
    """Return the command line that gives the second verifier these files."""
    given = {
        "sid": files.sid,
        "head": files.head,
        "key-file": files.key,
        "checkpoint": files.checkpoint,
        "vkey": SIGNER.vkey if files.checkpoint else None,
        "level": files.level,
    }
    named = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return [os.fspath(files.receipt), *named]


def second(files: Files) -> Answer:
    """Return what the one-file verifier says."""
    code, found = run(arguments(files))
    if code == 2:
        return Answer(2, "")
    if code == 1:
        return Answer(1, found["reason"], tuple(found["at"]))
    return Answer(
        0,
        found["state"],
        tuple(found[name] for name in ("level", "lines", "last", "completeness", "signed_lines")),
    )


def first(files: Files, key: Key | None = KEY) -> Answer:
    """Return what the broker's own verifier says."""
    try:
        verdict = verify(files.receipt, key=key, head=files.head, sid=files.sid)
    except Break as error:
        return Answer(1, error.reason, (error.line, error.offset))
    except BrokerError:
        return Answer(2, "")
    return Answer(
        0,
        verdict.state,
        (verdict.level, verdict.lines, verdict.last, verdict.completeness, 0),
    )
