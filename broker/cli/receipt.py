"""
`broker receipt`: what was allowed and refused in a session, and whether that record stands.

Decided here: what the words of the command ask for, and the exit code. Not decided here: what is
read and with which keys (``broker.cli.evidence``), how it is told (``broker.cli.verdicts``).

Entries are taken from the verifier one by one, so nothing that was not authenticated is ever
printed; where it finds a break, what stood before the break is shown, then the break, and the exit
code is 1.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import out, paint, printable
from broker.cli.statefile import StateFile, cores
from broker.cli.typed import Json
from broker.cli.verdicts import Document, broken, place, told
from broker.errors import Break, BrokerError, InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.cli.evidence import Asked
    from broker.cli.kept import Kept
    from broker.receipt.demand import Demand
    from broker.receipt.inspection import Inspection

EXAMPLES = """\
\b
Examples:
  broker receipt                      the latest session, entry by entry
  broker receipt k3v --refused        only what was refused there
  broker receipt --verify --all       every session there ever was, by the ledger
  broker receipt --verify && echo 'nothing was changed, cut or left out'
  broker receipt k3v --verify --require-seal --level signed
  broker receipt k3v --verify --expect-head 12:9f2c…    what you wrote down last time
  broker receipt k3v --verify --continue                every broken line, not the first alone
  broker receipt k3v --since k3v.state                  only what is new since the last time
  broker receipt --json > session.json
  broker receipt --verify --all s3://audit/agents --vkey fleet.vkey   all machines mirrored there

\b
An auditor's copy, on a machine that holds no secret:
  broker receipt copy/receipt.jsonl --checkpoint copy/checkpoint --vkey broker.vkey
  broker receipt copy/receipt.jsonl --head copy/head --auditor-key auditor.key \\
    --expect-head 3:9f2c…             a forward-secure one, and how it was told to begin

\b
Levels, each of which includes those above it:
  chain     lines, order and form hold; nobody vouches for them, and no entry is shown
  mac       every line's tag holds under the key, and a head says how many lines there are; of a
            forward-secure session, only the auditor's key can check the tags
  signed    a checkpoint signed with the installation's public key covers the lines; for this,
            the secret may be missing
  anchored  somebody outside holds that checkpoint: asked of the anchors in broker.toml, perhaps
            over the network, when it is demanded or promised
Without --level everything that is there is checked, and what the session promised must be there.

\b
ID is the beginning of a session's name (see `broker sessions`), or the path of a receipt's file,
which is a word with a / or a dot in it.
The last line states the verdict: state, lines, level, and whether all lines are KNOWN to be there.
State: SEALED complete; INTERRUPTED sealed early; OPEN running or killed; TORN cut off while
writing, with nothing lost that was acknowledged.
Exit code: 0 verified, 1 not verified (the first break is named), 2 no such session, no key, an
unsafe file, or nothing to verify.
"""


Id = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completing.session_ids, metavar="[ID]", show_default="the latest session"
    ),
]
Refused = Annotated[bool, typer.Option("--refused", help="Show only refusals.")]
Verify = Annotated[bool, typer.Option("--verify", help="Verify, and show no entries.")]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="With --verify: every session, and the ledger of them; with --level anchored also "
        "what outside anchors hold of the ledger.",
    ),
]
LevelOption = Annotated[
    Literal["chain", "mac", "signed", "anchored"] | None,
    typer.Option("--level", help="Demand this level; see below.", show_default="what is promised"),
]
RequireSeal = Annotated[bool, typer.Option("--require-seal", help="Demand that it was sealed.")]
ExpectHead = Annotated[
    str | None,
    typer.Option(
        "--expect-head",
        metavar="N:HASH",
        help="Demand that line N-1 hashes to HASH, as --verify told before.",
    ),
]
Continue = Annotated[
    bool, typer.Option("--continue", help="After a break go on, and name every further one.")
]
SinceFile = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="STATE",
        help="Begin where the verification that wrote STATE ended, and write it anew; --verify.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Check links, the tags over them and the head, not the lines' JSON; --verify.",
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", min=0, help="So many processes.", show_default="one per core"
    ),
]
NoHead = Annotated[
    bool,
    typer.Option("--no-head", help="Do without the head: then lines may be missing at the end."),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="The secret to verify with.",
        show_default="this installation's",
    ),
]
HeadFile = Annotated[
    str | None,
    typer.Option(
        "--head", metavar="FILE", help="The receipt's head.", show_default="the session's"
    ),
]
CheckpointFile = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="The receipt's signed checkpoint.",
        show_default="the session's",
    ),
]
Vkeys = Annotated[
    list[str] | None,
    typer.Option(
        "--vkey",
        metavar="VKEY",
        help="The public key that signed it, or a file that holds it. May be given again.",
        show_default="this installation's",
    ),
]
AuditorKeyFile = Annotated[
    str | None,
    typer.Option(
        "--auditor-key",
        metavar="FILE",
        help="Demand a forward-secure session, and check its tags with this private key.",
    ),
]


Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="With --verify --all URL: let a Ray cluster verify; `auto`, `HOST:PORT` or `local`.",
    ),
]


def receipt(
    id_: Id = None,
    *,
    refused: Refused = False,
    verify: Verify = False,
    all_: All = False,
    level: LevelOption = None,
    require_seal: RequireSeal = False,
    expect_head: ExpectHead = None,
    continue_: Continue = False,
    since: SinceFile = None,
    quick: Quick = False,
    jobs: Jobs = 0,
    no_head: NoHead = False,
    key_file: KeyFile = None,
    head: HeadFile = None,
    checkpoint: CheckpointFile = None,
    vkey: Vkeys = None,
    auditor_key: AuditorKeyFile = None,
    ray: Ray = None,
    as_json: Json = False,
) -> int:
    """Show and verify the record of a session."""
    from broker.cli.evidence import Asked
    from broker.receipt.demand import Demand, expected_head

    if all_:
        from broker.cli.auditing import audit_everything
        from broker.cli.fleet import audit_fleet, is_address

        of_one = (refused, require_seal, expect_head, continue_, since, quick, jobs, no_head)
        given = (key_file, head, checkpoint, auditor_key)
        if verify and is_address(id_) and not any((*of_one[:-2], no_head, *given)):
            if level in (None, "signed"):
                return audit_fleet(str(id_), vkey or (), jobs=jobs, ray=ray, as_json=as_json)
            raise InputError("a mirror is verified with public keys: at level `signed`")
        if not verify or id_ is not None or any(of_one) or any(given) or vkey:
            raise InputError(
                "--all verifies every session: write `broker receipt --verify --all`, with "
                "`--level anchored` to ask the anchors too, or with the address of a mirror, "
                "`--vkey` and `--jobs`"
            )
        return audit_everything(as_json, anchored=level == "anchored")
    document = Document() if as_json else None
    try:
        asked = Asked(
            id_, level, key_file, head, no_head, checkpoint, tuple(vkey or ()), auditor_key
        )
        expect = None if expect_head is None else expected_head(expect_head)
        demand = Demand(level, require_seal, expect)
        bare = verify or quick or since is not None or level == "chain"
        if refused and bare:
            raise InputError("--refused shows entries: not with --verify, nor what implies it")
        if quick and since is not None:
            raise InputError("--quick and --since: what was read quickly is not kept as verified")
        how = _How(None if bare else "refused" if refused else "all", continue_, since, quick, jobs)
        return _Telling(document, how).tell(asked, demand)
    except BrokerError as error:
        if document is not None:
            document.failed(error)
        raise


@dataclass(frozen=True, slots=True)
class _How:
    """How a record is gone through: what is shown of it, and what is not read again."""

    show: Literal["all", "refused"] | None
    goes_on: bool
    since: str | None
    quick: bool
    jobs: int


class _Telling:
    """Verifies one record, and tells what comes of it as a text or as a document."""

    def __init__(self, document: Document | None, how: _How) -> None:
        self._document = document
        self._how = how

    def tell(self, asked: Asked, demand: Demand) -> int:
        """Return the exit code."""
        from broker.cli.anchored import anchored
        from broker.cli.auditing import expected_by_ledger
        from broker.cli.evidence import evidence, is_file
        from broker.cli.fleet import mirror_notes
        from broker.cli.kept import Kept
        from broker.home import Home
        from broker.receipt.inspection import inspecting
        from broker.receipt.verify import expected, judge

        home = Home.find(os.environ)
        try:
            what = evidence(asked, home)
        except Break as error:  # of a copy's first line, which names the session
            return self._broken(error, iter(()))
        kept = Kept(None if is_file(asked.id) else what.path.parent)
        state = None if self._how.since is None else StateFile.of(self._how.since, what)
        since = None if state is None else state.since
        self._begin(what.sid, str(what.path))
        rows, marks = None, expected(demand)
        unasked: tuple[str, ...] = ()
        try:
            rows = expected_by_ledger(asked, what, home)
            if rows is not None:
                what, marks = rows.evidence, (*marks, *rows.marks)
                if "anchored" in (demand.level, rows.listed and rows.listed.level):
                    held, unasked = anchored(what, home)
                    marks = (*marks, *held)
            with inspecting(what, marks, since, state is not None) as found:
                try:
                    self._read(found, kept)
                    verdict = judge(found, demand, time.time_ns())
                    if rows is not None:
                        verdict = rows.settle(verdict)
                    noted = () if rows is None else mirror_notes(home, what.sid, verdict.lines)
                    warnings = (*verdict.warnings, *unasked, *kept.warnings, *noted)
                    verdict = replace(verdict, warnings=warnings)
                except Break as first:
                    further = found.breaks(first) if self._how.goes_on else iter(())
                    return self._broken(first, further)
                if state is not None:
                    verdict = state.kept(found, verdict, time.time_ns())
        except Break as error:  # of ledger, head or checkpoint, before a line was read
            return self._broken(error, iter(()))
        except UnverifiableError as error:
            fault = error if rows is None else rows.absent(error)
            if not isinstance(fault, Break):
                raise
            return self._broken(fault, iter(()))
        if self._document is not None:
            self._document.verified(verdict)
        else:
            for line in told(verdict, notes_head=self._how.show is None):
                out(line)
        return ALLOWED

    def _begin(self, sid: str, path: str) -> None:
        if self._document is None:
            out(paint(f"receipt {sid}", "bold") + f"  {printable(path)}")
        else:
            self._document.begin(sid, path)

    def _read(self, found: Inspection, kept: Kept) -> None:
        """Verify to the end, and show the entries that are asked for."""
        from broker.cli.progress import progress
        from broker.cli.story import refuses, story_line
        from broker.receipt.inspection import Pace

        how = self._how
        # On a terminal the entries themselves show how far it is.
        unseen = how.show is None or not sys.stdout.isatty()
        with progress(found.size if unseen else 0) as bar:
            if how.show is None:
                found.run(Pace(how.jobs or cores(), how.quick, bar))
                return
            for entry in found.entries(bar):
                if how.show == "refused" and not refuses(entry):
                    continue
                shown = kept.shown(entry.data)
                if self._document is not None:
                    self._document.entry(entry, shown)
                else:
                    out(story_line(entry, shown))

    def _broken(self, first: Break, further: Iterator[Break]) -> int:
        if self._document is not None:
            self._document.broken(first, further)
            return REFUSED
        more = 0
        for each in further:
            if more == 0:
                out(f"    {first.reason} at {place(first)}: {printable(first.message)}")
            out(f"    {each.reason} at {place(each)}: {printable(each.message)}")
            more += 1
        out(broken(first, more))
        return REFUSED
