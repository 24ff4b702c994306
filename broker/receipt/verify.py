"""
Verifying a receipt, in constant memory: every line, then the whole, then what was asked for.

Decided here: the verdict, and when a receipt is less than what was promised or asked for. Not
decided here: what one line must be (``chain``), which files are read (``evidence``), how its
lines are read (``inspection``), what lies behind the first break (``survey``).

A ``Break`` names the first place that is not what was signed. Its reasons:

- of a line: ``size format mac encoding json depth dupkey number canon schema sid kid seq prev
  kind seal after_seal level``
- of the whole: ``truncated fork torn missing no_head head_mac checkpoint_format checkpoint_sig
  checkpoint_origin checkpoint_root``
- of a forward-secure session: ``downgrade start_key aggregate ratchet``
- of what was promised or asked for: ``not_sealed no_checkpoint checkpoint_old unsigned
  no_anchor``

Rules a maintainer keeps:

- Nothing to verify is not success: an empty receipt is an error, never a verdict.
- A level that was promised or asked for and is not reached is a break, never a lower verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from broker.errors import UnverifiableError
from broker.receipt.chain import LineTags
from broker.receipt.demand import ANY, FIRST_CHECKPOINT_LINES, Demand, Level, reaches
from broker.receipt.entry import Entry, parse_at
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import STEADY, Inspection, Pace, inspecting
from broker.receipt.keys import Key
from broker.receipt.marks import Mark
from broker.receipt.since import Since

if TYPE_CHECKING:
    from broker.receipt.sealing import Auditor
    from broker.receipt.signing import VerifyKey

State = Literal["SEALED", "OPEN", "INTERRUPTED", "TORN"]
_BEHIND: Final = "the session was sealed, and killed before its last checkpoint"


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What a verified receipt is.

    ``state`` is SEALED (complete), INTERRUPTED (sealed for another ``reason``), OPEN (no seal
    yet) or TORN (open, and a write was cut off after the acknowledged lines; nothing
    acknowledged is missing). ``completeness`` is KNOWN when a head, or a checkpoint over a
    sealed receipt, said how many lines there must be. ``beyond`` counts lines that verify but
    that the head does not cover yet. ``erased`` counts values that a person erased, by the ledger.

    ``tags`` says whether the secret was there to check every line's tag. ``signed_lines`` are
    covered by the checkpoint of ``signer``; 0 without one. ``anchors`` hold ``anchored_lines`` of
    them outside. ``forward`` says that the head, or
    the auditor's key, shows a forward-secure session. ``trusted_before`` lines were not read
    again: they verified before, in one pass at ``trusted_since`` and in later ones. ``quick``
    says that what is in the lines was not read.
    """

    state: State
    sid: str
    lines: int
    completeness: Literal["KNOWN", "UNKNOWN"]
    level: Level = "mac"
    reason: str = ""
    root: str = ""
    last: str = ""
    beyond: int = 0
    fragment_bytes: int = 0
    warnings: tuple[str, ...] = ()
    tags: Literal["checked", "unchecked"] = "checked"
    signed_lines: int = 0
    signer: str = ""
    anchors: tuple[str, ...] = ()
    anchored_lines: int = 0
    trusted_before: int = 0
    trusted_since: int = 0
    quick: bool = False
    forward: bool = False
    erased: int = 0

    @property
    def head(self) -> str:
        """The number of lines and the last one's hash, as ``--expect-head`` takes them."""
        return f"{self.lines}:{self.last}"


def judge(found: Inspection, demand: Demand = ANY, now: int | None = None) -> Verdict:
    """
    Return what a receipt is, once it was read to its end.

    Args:
        found: the inspection.
        demand: what it must come to.
        now: when given, lines dated after it are warned of.

    Raises:
        Break: it is less than what was promised or asked for.
        UnverifiableError: there was nothing to authenticate it with.
    """
    assert found.done  # noqa: S101  no verdict before the end was seen
    _check(found, demand)
    chain, slots, checkpoint = found.chain, found.slots, found.checkpoint
    state: State = "TORN" if found.fragment_bytes else "OPEN"
    if chain.closing:
        state = "SEALED" if chain.closing == "complete" else "INTERRUPTED"
    signed = checkpoint.size if checkpoint else 0
    known = slots is not None or (bool(chain.closing) and signed == chain.n)
    return Verdict(
        state=state,
        sid=chain.sid,
        lines=chain.n,
        completeness="KNOWN" if known else "UNKNOWN",
        level=found.level,
        reason=chain.closing,
        root=chain.root,
        last=chain.last,
        beyond=0 if slots is None else chain.n - slots.head.n,
        fragment_bytes=found.fragment_bytes,
        warnings=tuple(_warnings(found, demand, signed, now)),
        tags="checked" if found.tagged else "unchecked",
        signed_lines=signed,
        anchors=tuple(sorted(found.marks.anchored)),
        anchored_lines=found.anchored,
        trusted_before=found.trusted.state.n if found.trusted else 0,
        trusted_since=found.trusted.full_at if found.trusted else 0,
        quick=found.quick,
        signer=checkpoint.origin.removesuffix(f"/receipt/{chain.sid}") if checkpoint else "",
        forward=found.forward,
    )


def _check(found: Inspection, demand: Demand) -> None:
    """Refuse less than what was promised or asked for."""
    chain, level = found.chain, found.level
    if demand.require_seal and not chain.closing:
        raise chain.broken("not_sealed", "the receipt has no seal, and one is required")
    # The host cannot check the tags of a forward-secure session: their keys are gone from it.
    on_host = found.vouched and not found.tagged
    wanted, who = demand.level or ("chain" if on_host else "mac"), "asked for"
    promise = "chain" if on_host and found.promise == "mac" else found.promise
    # Where nothing vouches for the lines, nobody authenticated the promise.
    if (found.vouched or level != "chain") and not reaches(wanted, promise):
        wanted, who = promise, "promised by the open line"
    asked = who == "asked for"
    if asked and reaches(wanted, "signed") and found.behind:
        raise chain.broken("checkpoint_old", f"level {wanted} is asked for, {_BEHIND}")
    if reaches(level, wanted):
        return
    if reaches(level, "signed"):
        raise chain.broken("no_anchor", f"level {wanted} is {who}, and nothing anchors it")
    if wanted == "mac" and on_host:
        raise UnverifiableError(
            "the tags of a forward-secure session take the auditor's key: give --auditor-key",
            code="unverifiable.auditor",
        )
    if level == "chain" and not found.vouched and not found.evidence.vkeys:
        raise UnverifiableError(
            "there is no key to verify with: only the chain could be checked",
            code="unverifiable.missing",
        )
    young = not chain.closing and chain.n <= FIRST_CHECKPOINT_LINES
    if wanted == "signed" and not asked and (young or found.behind):
        return
    raise chain.broken("no_checkpoint", f"level {wanted} is {who}, and there is no checkpoint")


def _warnings(found: Inspection, demand: Demand, signed: int, now: int | None) -> Iterator[str]:
    chain = found.chain
    if chain.went_back:
        yield f"the clock went back before {chain.went_back} of the lines"
    if now is not None and parse_at(chain.at) > now:
        yield "the last line is dated in the future"
    if found.behind:
        yield f"{_BEHIND}; the next start signs it"
    if 0 < signed < chain.n:
        yield f"the checkpoint covers {signed} of {chain.n} lines so far"
    if 0 < found.anchored < chain.n:
        yield f"anchors hold {found.anchored} of {chain.n} lines so far"
    if found.vouched and not found.tagged:
        yield "the keys of past lines are gone from this host: the auditor's key checks their tags"
    if found.evidence.auditor is not None and demand.expect is None:
        yield "only --expect-head, noted when it began, shows that it was not begun anew since"
    if not found.vouched and found.level == "chain":
        yield "nobody vouches for these lines: whoever wrote the file could write another"
        if found.promise != "mac":
            yield f"the open line promises level {found.promise}"


def expected(demand: Demand) -> tuple[Mark, ...]:
    """Return what a demand knows of the lines."""
    if demand.expect is None:
        return ()
    n, last = demand.expect
    return (Mark(n, "the expected head", last=last),)


def _name(path: Path, head: Path | None, sid: str | None) -> str:
    if sid is not None:
        return sid
    return head.name if head is not None else path.parent.name


def verify(
    path: Path,
    *,
    key: Key | LineTags | None,
    head: Path | None,
    sid: str | None = None,
    now: int | None = None,
    checkpoint: Path | None = None,
    vkeys: Sequence[VerifyKey] = (),
    demand: Demand = ANY,
    marks: Sequence[Mark] = (),
    since: Since | None = None,
    pace: Pace = STEADY,
    auditor: Auditor | None = None,
) -> Verdict:
    """
    Verify a receipt from its first line to its last.

    Everything that is given is checked, whatever level is asked for.

    Args:
        path: the receipt.
        key: the secret it must be signed with; None leaves the tags unchecked, which takes a
            checkpoint and ``vkeys``, or a ``demand`` for level ``chain``.
        head: its head; None verifies the lines alone, and completeness stays UNKNOWN.
        sid: the session; by default the head's name, else the receipt's folder.
        now: when given, lines dated after it are warned of.
        checkpoint: its checkpoint; a file that is not there counts as none.
        vkeys: the public keys that may have signed the checkpoint.
        demand: what it must come to.
        marks: what else is known of its lines.
        since: where a verification ended before; this one begins there if it can.
        pace: processes, haste, and who is told how far it is.
        auditor: the auditor's key, for a session that must be forward-secure. It checks the
            tags, and the head by its aggregate, where ``key`` is None too.

    Raises:
        Break: tampering, loss, a break, or less than what was promised or asked for.
        UnverifiableError: an unsafe or missing file, or nothing to verify, or to verify with.
    """
    name = _name(path, head, sid)
    evidence = Evidence(path, name, key, head, checkpoint, tuple(vkeys), auditor)
    with inspecting(evidence, (*marks, *expected(demand)), since) as found:
        found.run(pace)
        return judge(found, demand, now)


def read_entries(
    path: Path, key: Key, head: Path | None, *, sid: str | None = None
) -> Iterator[Entry]:
    """
    Yield the entries of a receipt, each only after it has been verified.

    A break further on is raised when the walk gets there; what came before it was authentic.
    Which level the receipt reaches is not asked.

    Raises:
        Break, UnverifiableError: as ``verify``.
    """
    with inspecting(Evidence(path, _name(path, head, sid), key, head)) as found:
        yield from found.entries()
