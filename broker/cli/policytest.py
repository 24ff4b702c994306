"""
`broker policy test`: a policy's own expectations, and recorded sessions decided by it once more.

Decided here: what counts as a test, and that all runs in an empty folder that is thrown away, so
that neither links nor files of a real workspace play a part. A recorded call is a test of its own:
it holds when the policy answers as the session did, allow for allow and refusal for refusal. What
a receipt does not tell is skipped and said, and never counted as held.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.junit import Case, Suite, junit
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json, folder
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.calls import Decision
    from broker.cli.dry import DryRun
    from broker.policy import Policy
    from broker.sessions.recalled import Recalled

EXAMPLES = """\
\b
Examples:
  broker policy test
  broker policy test fix-tests ./team.scope --junit report.xml
  broker policy test ./team.scope --session 3f2a --session 9b1c

\b
Without a name every policy that can be named is tested. With --session each call that was recorded
there is decided by the policy once more: it fails where the policy allows what was refused then, or
refuses what was allowed. A receipt does not keep arguments, so a call that the policy holds to a
rule about them is skipped, and so is one that the receipt has not whole.

\b
Exit code: 0 every test holds, 1 one does not, 2 no such policy or session, or a malformed one.
"""

_NO_LINE: Final = "-"


def run_tests(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=completing.policies, metavar="[NAME|FILE]...", show_default=False
        ),
    ] = None,
    session: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="SID", help="Decide this session's calls once more."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML too."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run policies' own tests, and recorded sessions against them."""
    from broker.cli.policies import find, folders
    from broker.policy import policy_names

    own = folders()
    policies = [find(name, own) for name in names or policy_names(own)]
    sessions = [_Session(sid) for sid in session or ()]
    suites = [_suite(policy, sessions) for policy in policies]
    if report is not None:
        _write(report, junit(suites))
    if as_json:
        json_out([_document(suite) for suite in suites])
    else:
        for suite in suites:
            _tell(suite)
    return REFUSED if any(suite.count("failed") for suite in suites) else ALLOWED


class _Session:
    """The decisions of a verified receipt, with the instants that they were made at."""

    def __init__(self, sid: str) -> None:
        from broker.catalogs import load_catalogs
        from broker.cli.policies import home
        from broker.receipt.keys import load_key
        from broker.receipt.store import Receipts
        from broker.receipt.verify import read_entries
        from broker.sessions.ground import key_path
        from broker.sessions.recalled import recalled

        here = home()
        key = load_key(key_path(here))
        receipts = Receipts(here, key)
        self.sid = receipts.find(sid)
        catalogs = load_catalogs(Path(folder(None)), here.config)
        self.calls: list[tuple[int, Recalled]] = []
        self.began_at = 0
        path, head = receipts.path(self.sid), receipts.head_path(self.sid)
        for entry in read_entries(path, key, head, sid=self.sid):
            self.began_at = self.began_at or entry.at
            if entry.kind == "decision" and entry.data.get("actor") != "canary":
                found = recalled(entry.n, entry.data, catalogs)
                if found is not None:
                    self.calls.append((entry.at, found))


def _suite(policy: Policy, sessions: Sequence[_Session]) -> Suite:
    import tempfile

    from broker.catalogs import load_catalogs
    from broker.cli.dry import DryRun
    from broker.cli.policies import home

    started = time.perf_counter()
    here = home()
    with tempfile.TemporaryDirectory(prefix="broker-policy-") as empty:
        # What tools mean is looked up where the person stands, what lies where in no folder.
        catalogs = load_catalogs(Path(folder(None)), here.config)
        world = DryRun(os.path.realpath(empty), here, catalogs=catalogs)
        cases = [*_expected(policy, world)]
        for each in sessions:
            cases += _recorded(policy, world, each)
    return Suite(f"@{policy.name}", tuple(cases), time.perf_counter() - started)


def _expected(policy: Policy, world: DryRun) -> list[Case]:
    from broker.policy import failure

    at = time.time_ns()
    cases = []
    for expect in policy.expects:
        ticket = world.ticket(policy.texts, at, intent=expect.line or _NO_LINE)
        arguments = dict(expect.arguments)
        decided = world.decide(ticket, expect.tool, arguments, at=at, intent=expect.line)
        why = failure(expect, decided)
        told = f"{expect.where}: {why}" if why else ""
        cases.append(Case(expect.text, policy.name, "failed" if why else "passed", told))
    return cases


def _recorded(policy: Policy, world: DryRun, session: _Session) -> list[Case]:
    from broker.authorize import authorize
    from broker.sessions.recalled import looks_into

    ticket = world.ticket(policy.texts, session.began_at, past_ok=True, intent=_NO_LINE)
    group, spent, cases = f"{policy.name}.session.{session.sid}", 0, []
    for at, found in session.calls:
        name = f"line {found.n}: {found.told}"
        why = found.why
        if found.call is not None and looks_into(ticket, found.call):
            why = "the policy looks into its arguments, which a receipt does not keep"
        if found.call is None or why:
            cases.append(Case(name, group, "skipped", why))
            continue
        decided = authorize(ticket, found.call, at, spent)
        spent += decided.allowed
        told = _apart(found, decided)
        cases.append(Case(name, group, "failed" if told else "passed", told))
    return cases


def _apart(found: Recalled, decided: Decision) -> str:
    """Return how a policy's answer is another than the recorded one, or nothing."""
    if found.allowed == decided.allowed:
        return ""
    if decided.refusal is not None:
        return f"was allowed, and is refused by `{decided.refusal.caveat}`"
    return f"was refused by `{found.caveat}`, and is allowed"


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"`{path}` cannot be written: {error.strerror}") from error


def _tell(suite: Suite) -> None:
    failed, skipped = suite.count("failed"), suite.count("skipped")
    head = paint("failed", "red") if failed else paint("holds", "green") + " "
    counts = f"{len(suite.cases) - skipped} tests" + (f", {failed} failed" if failed else "")
    out(f"{head}  {printable(suite.name)}: {counts}{f', {skipped} skipped' if skipped else ''}")
    for case in suite.cases:
        if case.outcome == "failed":
            out(f"    {printable(case.name)}: {printable(case.why)}")
    reasons = dict.fromkeys(case.why for case in suite.cases if case.outcome == "skipped")
    for why in reasons:
        count = sum(case.why == why for case in suite.cases)
        out(f"    {paint('skipped', 'yellow')} {count}: {printable(why)}")


def _document(suite: Suite) -> dict[str, object]:
    return {
        "policy": suite.name.removeprefix("@"),
        "tests": len(suite.cases),
        "failed": suite.count("failed"),
        "skipped": suite.count("skipped"),
        "cases": [
            {"name": c.name, "group": c.group, "outcome": c.outcome, "why": c.why}
            for c in suite.cases
        ],
    }
