"""
`broker verify RUN`: whether a recording and the receipt of its session tell the same story.

Decided here: what of it is a break, and the exit code. Not decided here: whether the receipt stands
(``broker.receipt``), whether the run is whole (``broker.trace.checking``), and which call goes with
which decision (``broker.trace.join``).

Rules a maintainer keeps: the session is looked up by its name in this installation, with this
installation's key; a link or a key that lies in the run is never followed; what cannot be judged
is exit 2, never a quiet success.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.runs import Run, opened
from broker.cli.typed import Json
from broker.errors import Break, BrokerError, InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.receipt import Verdict
    from broker.receipt.marks import Mark
    from broker.trace.checking import Checked
    from broker.trace.format import Event
    from broker.trace.join import Decided, Joined, TracedCall
    from broker.trace.reader import RunReader
    from broker.trace.wire import WireJoin

EXAMPLES = """\
\b
Examples:
  broker verify                      the latest run, and the session that it was recorded in
  broker verify 9f2c --json
  broker verify 9f2c --strict        also a decision whose call was never seen is a break
  broker verify 9f2c --records DIR   also what a harness recorded that it meant to send

\b
These are held against each other:
  the receipt     every line of the session, as `broker receipt --verify` does
  the recording   its seal, its lines, its blobs
  executions      every call that was answered has a decision that stands in the receipt
  decisions       which of them have no call: the agent's own rules may have stopped it, or what
                  was called is not seen by the recorder (a command that asks `broker check`)
  requests        with --records, the records of a harness (docs/records.md): what it meant to send
                  has the digest of what went over the wire, and nothing else went
A call and its decision are matched by the provider's id; else by tool and arguments; else, where
secrets were taken out of the arguments, by tool and order; else by time.

\b
Exit code: 0 verified, 1 a break, 2 it cannot be judged: the run has no receipt, was never sealed,
or there is no key.
"""

Strict = Annotated[
    bool, typer.Option("--strict", help="A decision without its call is a break, too.")
]
Records = Annotated[
    str | None,
    typer.Option("--records", metavar="DIR", help="The records of the harness that asked."),
]
_MOST = 20  # left-overs of each kind that a page of a terminal shows


@dataclass(slots=True)
class _Found:
    """What is known so far of one run."""

    run: str
    checked: Checked
    sid: str = ""
    verdict: Verdict | None = None
    broken: Break | None = None
    unjudged: str = ""
    joined: Joined | None = None
    wire: WireJoin | None = None

    def breaks(self, *, strict: bool) -> list[str]:
        """Return what is broken, in words."""
        found = list(self.checked.faults)
        if self.broken is not None:
            found.append(f"the receipt: {self.broken.reason}: {self.broken.message}")
        if self.joined is not None:
            found += self.joined.told
            found += [f"{_call(each)} has no decision" for each in self.joined.undecided]
            if strict:
                found += [f"{_decision(each)} has no call" for each in self.joined.idle]
        if self.wire is not None:
            found += [
                f"event {n}: the harness did not mean this request" for n in self.wire.unmeant
            ]
            found += [f"the harness's request `{i}` never passed" for i in self.wire.unsent]
        return found

    def open_questions(self) -> list[str]:
        """Return why it cannot be judged, if it cannot."""
        found = [self.unjudged] if self.unjudged else []
        if self.checked.integrity == "unsealed":
            found.append("the run was never sealed: it is running, or its recorder was stopped")
        elif not self.checked.ended:
            found.append("the recording stopped before its run did")
        if self.wire is not None and self.wire.undigested:
            found.append(f"{len(self.wire.undigested)} requests say no digest of what was sent")
        return found


def verify(
    run: Run = None, *, strict: Strict = False, records: Records = None, as_json: Json = False
) -> int:
    """Hold a recording and its receipt against each other."""
    from broker.trace.checking import check

    reader = opened(run)
    checked, events = check(reader)
    found = _Found(reader.manifest.run_id, checked, _session(reader, events))
    if not found.sid:
        found.unjudged = "the run was recorded without a ticket: there are no decisions"
    else:
        _hold(found, reader, events)
    if records is not None:
        found.wire = _wire(events, records)
    breaks, questions = found.breaks(strict=strict), found.open_questions()
    code = REFUSED if breaks else UNDECIDED if questions else ALLOWED
    if as_json:
        json_out(_document(found, breaks, questions, code))
        return code
    for line in _told(found):
        out(line)
    for each in breaks[:_MOST]:
        out(f"    {paint('break', 'red')}  {printable(each)}")
    if len(breaks) > _MOST:
        out(f"    and {len(breaks) - _MOST} more breaks: see --json")
    for each in questions:
        out(f"    {paint('open', 'yellow')}   {printable(each)}")
    words = {ALLOWED: ("verified", "green"), REFUSED: ("not verified", "red")}
    word, colour = words.get(code, ("not judged", "yellow"))
    out(f"{paint(word + ':', colour)} {found.run}, {_closing(found, breaks)}")
    return code


def _session(reader: RunReader, events: Sequence[Event]) -> str:
    """Return the session's name, as the run tells it; it is looked up here, never followed."""
    from broker.receipt.entry import check_sid
    from broker.trace.format import RECEIPT

    try:
        told = os.path.basename(os.readlink(reader.folder / RECEIPT))
    except OSError:
        told = next((each.text("sid") for each in events if each.type == "run.start"), "")
    if not told:
        return ""
    try:
        return check_sid(told)
    except InputError:
        raise InputError(f"the run names `{told[:80]}` as its session, which names none") from None


def _hold(found: _Found, reader: RunReader, events: Sequence[Event]) -> None:
    """Verify the receipt, and join its decisions with the calls of the run."""
    from broker.trace.join import executions, join

    try:
        decisions = list(_decisions(found))
    except Break as error:
        found.broken = error
        return
    except (UnverifiableError, InputError) as error:
        found.unjudged = f"the receipt of session {found.sid}: {error.message}"
        return
    calls, notes = executions(events, reader.payload)
    found.joined = join(calls, decisions, notes)


def _wire(events: Sequence[Event], records: str) -> WireJoin:
    """
    Hold the requests of a run against the records of a harness.

    Raises:
        InputError: there are no records in that folder.
        UnverifiableError: they cannot be read.
    """
    from broker.capabilities.fs import SystemFiles
    from broker.records.model import ProviderRequest
    from broker.records.store import read_records
    from broker.trace.wire import MeantRequest, join_wire

    if not os.path.isdir(records):
        raise InputError(f"there is no folder of records `{records}`")
    kept = read_records(SystemFiles().below(os.path.abspath(records))).records
    meant = [
        MeantRequest(each.id, each.sha256) for each in kept if isinstance(each, ProviderRequest)
    ]
    if not meant:
        raise InputError(f"no request is recorded in `{records}`")
    return join_wire(events, meant)


def _decisions(found: _Found) -> Iterator[Decided]:
    """
    Yield the decisions of the run's session, and keep its verdict.

    Raises:
        Break: the receipt does not stand.
        UnverifiableError, InputError: it cannot be verified here, or there is none.
    """
    import time

    from broker.cli.auditing import expected_by_ledger
    from broker.cli.evidence import Asked, evidence
    from broker.cli.kept import Kept
    from broker.home import Home
    from broker.receipt.inspection import inspecting
    from broker.receipt.verify import judge
    from broker.session import CANARY
    from broker.trace.join import Decided

    asked, home = Asked(found.sid), Home.find(os.environ)
    what = evidence(asked, home)
    rows = expected_by_ledger(asked, what, home)
    kept = Kept(what.path.parent)
    marks: tuple[Mark, ...] = ()
    if rows is not None:
        what, marks = rows.evidence, rows.marks
    try:
        with inspecting(what, marks) as inspection:
            for entry in inspection.entries():
                if entry.kind == "decision":
                    shown = kept.shown(entry.data)
                    data = {**entry.data, **(shown.values if shown else {})}
                    if data.get("actor") == CANARY and data.get("decision") == "refuse":
                        continue  # before the run, and meant to be refused
                    call, tool, args = (str(data.get(key, "")) for key in ("call", "tool", "args"))
                    yield Decided(entry.n, call, tool, args, data.get("decision") == "allow")
            verdict = judge(inspection, now=time.time_ns())
    except UnverifiableError as error:
        fault: BrokerError = error if rows is None else rows.absent(error)
        raise fault from None
    found.verdict = verdict if rows is None else rows.settle(verdict)


def _told(found: _Found) -> Iterator[str]:
    checked = found.checked
    yield (
        f"recording  {found.run}: {checked.events} events, {checked.blobs} payloads in blobs, "
        f"{'as sealed' if checked.integrity == 'ok' else checked.integrity}"
    )
    for note in checked.notes[:_MOST]:
        yield f"    note   {printable(note)}"
    if found.verdict is not None:
        seen = found.verdict
        yield (
            f"receipt    {found.sid}: {seen.state}, {seen.lines} lines, level {seen.level}, "
            f"completeness {seen.completeness}"
        )
        for warning in seen.warnings:
            yield f"    note   {printable(warning)}"
    if found.wire is not None:
        yield f"harness    {len(found.wire.matched)} requests that it meant, as they were sent"
    joined = found.joined
    if joined is None:
        return
    ways: dict[str, int] = {}
    for match in joined.matches:
        ways[match.how] = ways.get(match.how, 0) + 1
    how = ", ".join(f"{count} by {name}" for name, count in ways.items())
    yield f"join       {len(joined.matches)} calls with their decision{f' ({how})' if how else ''}"
    for said, left in (
        ("no answer and no decision", [_call(each) for each in joined.unanswered]),
        ("allowed, and no call was seen", [_decision(each) for each in joined.idle]),
        ("refused, and no call was seen", [_decision(each) for each in joined.refused]),
    ):
        for each in left[:_MOST]:
            yield f"    note   {printable(each)}: {said}"
        if len(left) > _MOST:
            yield f"    note   and {len(left) - _MOST} more: {said}"


def _closing(found: _Found, breaks: Sequence[str]) -> str:
    if breaks:
        return f"{len(breaks)} break{'' if len(breaks) == 1 else 's'}"
    if found.joined is None:
        return "no decisions to hold it against"
    calls = len(found.joined.matches)
    return f"{calls} call{'' if calls == 1 else 's'}, each with its decision"


def _call(each: TracedCall) -> str:
    return f"event {each.seq}: the call of `{each.tool}`{f' ({each.call})' if each.call else ''}"


def _decision(each: Decided) -> str:
    return f"receipt line {each.n}: the decision on `{each.tool}`"


def _document(
    found: _Found, breaks: Sequence[str], questions: Sequence[str], code: int
) -> dict[str, object]:
    from dataclasses import asdict

    from broker.cli.verdicts import break_document, verdict_document

    joined = found.joined
    return {
        "run": found.run,
        "verified": code == ALLOWED,
        "breaks": list(breaks),
        "open": list(questions),
        "trace": asdict(found.checked),
        "session": found.sid or None,
        "receipt": None if found.verdict is None else verdict_document(found.verdict),
        "receipt_break": None if found.broken is None else break_document(found.broken),
        "wire": None if found.wire is None else asdict(found.wire),
        "join": None
        if joined is None
        else {
            "matched": [
                {
                    "seq": m.execution.seq,
                    "line": m.decision.n,
                    "by": m.how,
                    "allowed": m.decision.allowed,
                }
                for m in joined.matches
            ],
            "executions_without_a_decision": [asdict(each) for each in joined.undecided],
            "unanswered_calls": [asdict(each) for each in joined.unanswered],
            "decisions_without_an_execution": [asdict(each) for each in joined.idle],
            "refusals_without_a_call": [asdict(each) for each in joined.refused],
            "told_otherwise": list(joined.told),
        },
    }
