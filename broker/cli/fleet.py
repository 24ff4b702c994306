"""
`broker receipt --verify --all URL`: the receipts of all machines that are mirrored somewhere.

Decided here: how each finding is told, which public keys count, and the exit code. Not decided
here: what is found (``broker.fleet.verifying``).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import out, paint, printable

if TYPE_CHECKING:
    from broker.fleet.target import Target
    from broker.fleet.verifying import Job, Judged
    from broker.home import Home
    from broker.receipt.signing import VerifyKey

_COLOURS = {"BROKEN": "red", "UNVERIFIABLE": "yellow", "RETIRED": "dim"}


def is_address(text: str | None) -> bool:
    """Return whether a typed word is the address of a store, and no session's name or file."""
    return text is not None and "://" in text


def mirror_notes(home: Home, sid: str, lines: int) -> tuple[str, ...]:
    """
    Return what there is to say of a session's lines that are not mirrored yet.

    Args:
        home: where it lies.
        sid: its name.
        lines: how many lines it has.
    """
    from broker.config import load_config
    from broker.errors import ConfigError
    from broker.fleet.mirror import unmirrored

    try:
        url = load_config(home.config).mirror
    except ConfigError:
        return ()  # of no concern to what is verified here
    note = unmirrored(home, url, sid, lines) if url else ""
    return (note,) if note else ()


def audit_fleet(
    url: str, vkeys: Sequence[str], *, jobs: int, ray: str | None, as_json: bool
) -> int:
    """
    Verify every session at an address, tell each finding as it comes, and return the exit code.

    Args:
        url: where the mirrors lie.
        vkeys: the public keys that count, or files of them; this installation's by default.
        jobs: how many processes; 0 means one for each core.
        ray: the address of a Ray cluster that does the work instead.
        as_json: tell it as one document.

    Raises:
        InputError: what was typed is malformed, or takes what is not installed.
        UnverifiableError: there is no key, or nothing to verify.
        StoreError: the store cannot be asked.
    """
    from broker.fleet.target import Target
    from broker.fleet.verifying import installations

    target = Target(url)
    keys = _keys(vkeys)
    names = installations(target)
    states: Counter[str] = Counter()
    sessions = 0
    for each in _found(target, names, keys, jobs, ray):
        if as_json:
            opened = "," if states else '{"sessions": ['
            out(f"{opened}\n  {json.dumps(document(each))}")
        else:
            out(line(each))
        states[each.state] += 1
        sessions += each.sid != "ledger"
    code = REFUSED if states["BROKEN"] else UNDECIDED if states["UNVERIFIABLE"] else ALLOWED
    if as_json:
        out(f'],\n "verified": {json.dumps(code == ALLOWED)}, "exit": {code}}}')
    else:
        out(_closing(states, sessions, len(names), code))
    return code


def _found(
    target: Target, names: Sequence[str], keys: Sequence[VerifyKey], jobs: int, ray: str | None
) -> Iterator[Judged]:
    from broker.cli.statefile import cores
    from broker.fleet.verifying import jobs_of
    from broker.fleet.workers import here, in_processes, on_ray

    ledgers: list[Judged] = []

    def every() -> Iterator[Job]:
        for name in names:
            found, of_it = jobs_of(target, name, keys)
            ledgers.append(found)
            yield from of_it

    count = jobs or cores()
    done: Iterable[Judged]
    if ray is not None:
        done = on_ray(ray, every())
    elif count > 1 and target.shared:
        done = in_processes(count, every())
    else:
        done = here(every())
    for each in done:
        while ledgers:
            yield ledgers.pop(0)
        yield each
    yield from ledgers


def _keys(typed: Sequence[str]) -> tuple[VerifyKey, ...]:
    from broker.cli.typed import verification_key
    from broker.home import Home
    from broker.receipt.keyring import public_key

    if typed:
        return tuple(verification_key(each) for each in typed)
    return (public_key(Home.find(os.environ)),)


def line(each: Judged) -> str:
    """Return a finding as one line."""
    text = f"{each.installation}  {each.sid}"
    if each.lines:
        text += f", {each.lines} line{'' if each.lines == 1 else 's'}"
    said = list(each.warnings)
    if each.why:
        where = f", at line {each.line}" if each.state == "BROKEN" else ""
        said.insert(0, f"{each.code}: {each.why}{where}")
    state = paint(f"{each.state:<12}", _COLOURS.get(each.state, "green"))
    return f"{state}  {printable('; '.join([text, *said]))}"


def document(each: Judged) -> dict[str, object]:
    """Return a finding as JSON data."""
    fault = {"code": each.code, "message": each.why} if each.why else None
    broken = each.state == "BROKEN"
    return {
        "installation": each.installation,
        "sid": each.sid,
        "state": each.state,
        "lines": each.lines,
        "bytes": each.size_bytes,
        "break": {**fault, "line": each.line, "offset": each.offset} if fault and broken else None,
        "error": None if broken else fault,
        "warnings": list(each.warnings),
    }


def _closing(states: Counter[str], sessions: int, machines: int, code: int) -> str:
    what = (
        f"{sessions} session{'' if sessions == 1 else 's'} of {machines} "
        f"installation{'' if machines == 1 else 's'}"
    )
    if code == ALLOWED:
        return f"{paint('verified:', 'green')} {what}: nothing was changed, cut or left out"
    faults = ", ".join(
        f"{states[state]} {state}" for state in ("BROKEN", "UNVERIFIABLE") if states[state]
    )
    return f"{paint('not verified:', 'red')} {faults}, of {what} and their ledgers"
