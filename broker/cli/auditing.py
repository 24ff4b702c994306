"""
The ledger on the command line: `broker receipt --verify --all`, and what it says of one session.

Decided here: how the findings are told, one line a session, and the exit code; and that the ledger
is asked about a session of this installation, never about a copy or with other keys. Not decided
here: what is found (``broker.receipt.audit``).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import out, paint, printable
from broker.errors import Break, InputError

if TYPE_CHECKING:
    from broker.cli.evidence import Asked
    from broker.home import Home
    from broker.receipt.audit import Audited, Expected
    from broker.receipt.evidence import Evidence

_COLOURS = {"BROKEN": "red", "UNVERIFIABLE": "yellow", "RETIRED": "dim", "EMPTY": "dim"}


def expected_by_ledger(asked: Asked, what: Evidence, home: Home) -> Expected | None:
    """
    Return what the ledger expects of a session; None where it is not to be asked.

    Raises:
        Break: the ledger is broken, or its rows alone are evidence.
        UnverifiableError: the ledger or the session's key cannot be read, or it was retired.
    """
    from broker.cli.evidence import is_file
    from broker.receipt import Key, Receipts
    from broker.receipt.audit import expect

    other = (asked.key_file, asked.head, asked.checkpoint, asked.no_head, *asked.vkeys)
    if is_file(asked.id) or any(other) or not isinstance(what.key, Key):
        return None
    expected = expect(Receipts(home, what.key), what.sid)
    return replace(expected, evidence=replace(expected.evidence, auditor=what.auditor))


def audit_everything(as_json: bool, *, anchored: bool = False) -> int:
    """
    Audit the ledger and all sessions, tell each finding as it comes, and return the exit code.

    Args:
        as_json: tell it as one document.
        anchored: ask the anchors what they hold of the ledger.

    Raises:
        InputError: anchors are to be asked, and there are none.
        UnverifiableError: there is no key, or nothing to verify.
    """
    import json

    from broker.cli.progress import progress
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.receipt import Receipts
    from broker.receipt.audit import audit_all

    home = Home.find(os.environ)
    receipts = Receipts(home, installation_key(home))
    states: Counter[str] = Counter()
    with progress(sum(1 for _ in receipts.sessions())) as bar:

        def told(done: int, total: int) -> None:
            if bar is not None:
                bar(done)

        for each in audit_all(receipts, now=time.time_ns(), progress=told):
            if as_json:
                opened = "," if states else '{"sessions": ['
                out(f"{opened}\n  {json.dumps(document(each))}")
            else:
                out(line(each))
            states[each.state] += 1
        sessions = states.total() - 1  # the ledger is no session, and no anchor is
        for held in _held(home) if anchored else ():
            opened = "," if states else '{"sessions": ['
            out(f"{opened}\n  {json.dumps(document(held))}" if as_json else line(held))
            states[held.state] += 1
    code = REFUSED if states["BROKEN"] else UNDECIDED if states["UNVERIFIABLE"] else ALLOWED
    if as_json:
        out(f'],\n "verified": {json.dumps(code == ALLOWED)}, "exit": {code}}}')
    else:
        out(_closing(states, sessions, code))
    return code


def _held(home: Home) -> Iterator[Audited]:
    """Yield what each anchor holds of the ledger, as a finding of its own."""
    from broker.anchors.anchor import AnchorError
    from broker.anchors.configured import anchors
    from broker.anchors.held import ledger_held
    from broker.config import load_config
    from broker.receipt.audit import Audited
    from broker.receipt.keyring import public_key

    settings = load_config(home.config).anchors
    if not settings:
        raise InputError("level anchored is asked for, and no anchor is configured")
    for held in ledger_held(home, anchors(settings, home), [public_key(home)]):
        name = f"anchor {held.anchor}"
        if held.fault is None:
            yield Audited(name, "ANCHORED", warnings=(f"{held.rows} rows of the ledger",))
        else:
            away = isinstance(held.fault, AnchorError)
            yield Audited(name, "UNVERIFIABLE" if away else "BROKEN", fault=held.fault)


def line(each: Audited) -> str:
    """Return a finding as one line."""
    text = each.sid
    if each.verdict is not None:
        text += f", {each.verdict.lines} line{'' if each.verdict.lines == 1 else 's'}"
        text += f", level {each.verdict.level}"
    said = list(each.warnings)
    if isinstance(each.fault, Break):
        said.insert(0, f"{each.fault.reason}: {each.fault.message}")
    elif each.fault is not None:
        said.insert(0, each.fault.message)
    state = paint(f"{each.state:<12}", _COLOURS.get(each.state, "green"))
    return f"{state}  {printable('; '.join([text, *said]))}"


def document(each: Audited) -> dict[str, object]:
    """Return a finding as JSON data."""
    from broker.cli.verdicts import break_document, verdict_document

    broken = each.fault if isinstance(each.fault, Break) else None
    fault = each.fault if broken is None else None
    return {
        "sid": each.sid,
        "state": each.state,
        "verdict": None if each.verdict is None else verdict_document(each.verdict),
        "break": None if broken is None else break_document(broken),
        "error": None if fault is None else {"code": fault.code, "message": fault.message},
        "warnings": list(each.warnings),
    }


def _closing(states: Counter[str], total: int, code: int) -> str:
    sessions = f"{total} session{'' if total == 1 else 's'} and the ledger"
    if code == ALLOWED:
        return f"{paint('verified:', 'green')} {sessions}: nothing was changed, cut or left out"
    faults = ", ".join(
        f"{states[state]} {state}" for state in ("BROKEN", "UNVERIFIABLE") if states[state]
    )
    return f"{paint('not verified:', 'red')} {faults}, of {sessions}"
