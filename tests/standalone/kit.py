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
from broker.receipt.demand import Demand, Level
from broker.receipt.keys import Key
from broker.receipt.signing import SigningKey
from broker.receipt.verify import verify
from broker.standalone import verify_receipt
from tests.receiptkit import KEY

SIGNER = SigningKey.of(bytes(range(64, 96)))


@dataclass(frozen=True, slots=True)
class Files:
    """A receipt, what lies beside it, and what is asked for. What is None is not given."""

    sid: str
    receipt: Path
    head: Path | None = None
    checkpoint: Path | None = None
    key: Path | None = None
    level: Level | None = None
    require_seal: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a verifier says: the exit code, one word, and the place of a break or what was found.

    With exit code 2 there is no word: that nothing can be told is all that both must agree on.
    """

    code: int
    word: str = ""
    more: tuple[object, ...] = ()


def run(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """Run the one-file verifier in this process; return its exit code and what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = verify_receipt.main([*arguments, "--json"])
    return code, json.loads(printed.getvalue())


def arguments(files: Files) -> list[str]:
    """Return the command line that gives the one-file verifier these files."""
    given = {
        "sid": files.sid,
        "head": files.head,
        "key-file": files.key,
        "checkpoint": files.checkpoint,
        "vkey": SIGNER.vkey if files.checkpoint else None,
        "level": files.level,
    }
    named = [f"--{name}={value}" for name, value in given.items() if value is not None]
    flags = ["--require-seal"] if files.require_seal else []
    return [os.fspath(files.receipt), *named, *flags]


def second(files: Files) -> Answer:
    """Return what the one-file verifier says."""
    code, found = run(arguments(files))
    if code == 2:
        return Answer(2)
    if code == 1:
        return Answer(1, found["reason"], tuple(found["at"]))
    names = ("level", "lines", "last", "completeness", "signed_lines", "tags")
    return Answer(0, found["state"], tuple(found[name] for name in names))


def first(files: Files, key: Key = KEY) -> Answer:
    """Return what the broker's own verifier says."""
    try:
        verdict = verify(
            files.receipt,
            key=key if files.key else None,
            head=files.head,
            sid=files.sid,
            checkpoint=files.checkpoint,
            vkeys=[SIGNER.public] if files.checkpoint else (),
            demand=Demand(level=files.level, require_seal=files.require_seal),
        )
    except Break as error:
        return Answer(1, error.reason, (error.line, error.offset))
    except BrokerError:
        return Answer(2)
    more = (
        verdict.level,
        verdict.lines,
        verdict.last,
        verdict.completeness,
        verdict.signed_lines,
        verdict.tags,
    )
    return Answer(0, verdict.state, more)
