"""
The laws of the ledger.

1. Whatever sessions do in whatever order, and wherever they are killed, auditing everything finds
   no break, and every session that was acknowledged is there in the state it was left in.
2. Whatever is then taken away, cut short, exchanged, used again or brought back from an older
   copy is found, and under the name of the session that it was done to.
3. What the next start mends, it mends for good: after it, every session that began has its rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.errors import StoreError, UnverifiableError
from broker.home import Home
from broker.receipt.audit import LEDGER, Audited, audit_all
from broker.receipt.disk import DISK, Disk
from broker.receipt.head import Head, HeadForm
from broker.receipt.store import Receipts
from broker.receipt.writer import Receipt
from tests.receiptkit import AT, KEY, decision, outcome, rechained

FINE = {"OPEN", "TORN", "SEALED", "INTERRUPTED", "EMPTY"}


class Killed(BaseException):
    """The writer is gone; nothing that runs after this touches the disk."""


class Mortal:
    """A disk whose user is killed at a call: before it, or halfway through a write."""

    def __init__(self) -> None:
        self.left = -1
        self.halfway = False

    def disk(self) -> Disk:
        """Return the disk; it does not sync, since nothing here cuts the power."""
        return Disk(
            write=self._through(DISK.write),
            pwrite=self._through(DISK.pwrite),
            truncate=self._through(DISK.truncate),
            sync=self._through(lambda fd: None),
        )

    def _through(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.left == 0:
                if self.halfway and isinstance(arguments[-1 if len(arguments) < 3 else 1], bytes):
                    fd, content, *place = arguments
                    real(fd, content[: len(content) // 2], *place)
                    self.halfway = False
                raise Killed
            self.left -= self.left > 0
            return real(*arguments)

        return call


@dataclass
class Known:
    """What was acknowledged of one session."""

    receipt: Receipt | None = None
    begun: bool = False
    lines: int = 0
    ended: str = ""
    copies: list[tuple[bytes, bytes, int]] = field(default_factory=list)


deaths = st.none() | st.tuples(st.integers(0, 13), st.booleans())


class Sessions(RuleBasedStateMachine):
    """Sessions that live, die, and are attacked in a copy of their home."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="ledger-laws-"))
        self.mortal = Mortal()
        self.receipts = self.at(self.place / "home", self.mortal.disk())
        self.known: dict[str, Known] = {}
        self.books: list[tuple[bytes, bytes]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    @staticmethod
    def at(root: Path, system: Disk = DISK) -> Receipts:
        return Receipts(Home.find({"BROKER_HOME": str(root)}), KEY, system=system)

    def lives(self, sid: str, act: Callable[[], None], death: tuple[int, bool] | None) -> bool:
        """Act, perhaps dying; return whether it was lived through."""
        if death is not None:
            self.mortal.left, self.mortal.halfway = death
        try:
            act()
        except Killed:
            receipt = self.known[sid].receipt
            if receipt is not None:
                receipt._journal.release()
            self.known[sid].receipt = None
            return False
        finally:
            self.mortal.left = -1
        return True

    def some(self, data: st.DataObject, wanted: Callable[[Known], bool]) -> str | None:
        sids = sorted(sid for sid, known in self.known.items() if wanted(known))
        return data.draw(st.sampled_from(sids)) if sids else None

    # ── what sessions do ──

    @rule(death=deaths)
    def begin(self, death: tuple[int, bool] | None) -> None:
        sid = f"s{len(self.known)}"
        self.known[sid] = known = Known()

        def act() -> None:
            known.receipt = self.receipts.create(sid, opening={"agent": sid}, at=AT)
            known.begun, known.lines = True, 1

        self.lives(sid, act, death)

    @rule(data=st.data(), death=deaths, durable=st.booleans())
    def append(self, data: st.DataObject, death: tuple[int, bool] | None, durable: bool) -> None:
        sid = self.some(data, lambda known: known.receipt is not None)
        if sid is None:
            return
        known = self.known[sid]

        def act() -> None:
            assert known.receipt is not None
            entry = known.receipt.append("decision", decision(1), at=AT, durable=durable)
            known.lines = entry.n + 1 if durable else known.lines

        self.lives(sid, act, death)

    @rule(data=st.data(), death=deaths)
    def close(self, data: st.DataObject, death: tuple[int, bool] | None) -> None:
        sid = self.some(data, lambda known: known.receipt is not None)
        if sid is not None:
            receipt = self.known[sid].receipt
            assert receipt is not None
            self.lives(sid, receipt.close, death)
            self.known[sid].receipt = None

    @rule(data=st.data(), death=deaths)
    def resume(self, data: st.DataObject, death: tuple[int, bool] | None) -> None:
        sid = self.some(data, lambda known: known.receipt is None and not known.ended)
        if sid is None:
            return
        known = self.known[sid]

        def act() -> None:
            try:
                known.receipt = self.receipts.resume(sid, at=AT)
            except StoreError as error:
                assert error.code in {"store.never_began", "store.sealed"}
                assert error.code == "store.sealed" or not known.begun
            except UnverifiableError as error:
                assert error.code in ("unverifiable.missing", "unverifiable.nothing")
                assert not known.begun
            else:
                known.begun, known.lines = True, known.receipt._journal.chain.n

        self.lives(sid, act, death)

    @rule(data=st.data(), death=deaths)
    def seal(self, data: st.DataObject, death: tuple[int, bool] | None) -> None:
        sid = self.some(data, lambda known: known.receipt is not None)
        if sid is None:
            return
        known = self.known[sid]

        def act() -> None:
            assert known.receipt is not None
            known.lines = known.receipt.seal("complete", at=AT).n + 1
            known.ended = "SEALED"

        if self.lives(sid, act, death):
            assert known.receipt is not None
            known.receipt.close()
        known.receipt = None

    @rule()
    def start_again(self) -> None:
        """Law 3: the next start brings every session that nobody runs to its end and its rows."""
        for sid, known in self.known.items():
            if known.receipt is not None:
                continue
            answer = outcome(lambda sid=sid: self._sealed(sid))
            assert answer in ("INTERRUPTED", "store.sealed") or not known.begun
            if answer == "INTERRUPTED":
                known.ended, known.begun = answer, True
            if known.begun:
                assert self.receipts.ledger.read().sessions[sid].end is not None

    def _sealed(self, sid: str) -> str:
        receipt = self.receipts.resume(sid, at=AT)
        receipt.seal("abandoned", at=AT)
        receipt.close()
        return "INTERRUPTED"

    @rule(data=st.data())
    def remember(self, data: st.DataObject) -> None:
        """Keep a copy of one session, and of the ledger."""
        sid = self.some(data, lambda known: known.begun)
        if sid is not None:
            path, head = self.receipts.path(sid), self.receipts.head_path(sid)
            content = path.read_bytes()
            self.known[sid].copies.append((content, head.read_bytes(), content.count(b"\n")))
            ledger = self.receipts.ledger
            self.books.append((ledger.path.read_bytes(), ledger.head_path.read_bytes()))

    # ── law 1 ──

    @invariant()
    def no_crash_is_taken_for_an_attack(self) -> None:
        found = audited(self.receipts)
        if not found:
            assert not any(known.begun for known in self.known.values())
        for sid, each in found.items():
            assert each.state in FINE, each
            known = self.known.get(sid)
            if known is not None and known.begun:
                assert each.verdict is not None
                assert each.verdict.lines >= known.lines
                assert not known.ended or each.state == known.ended
        assert {sid for sid, known in self.known.items() if known.begun} <= set(found)

    # ── law 2 ──

    def attacked(self, act: Callable[[Receipts], object]) -> dict[str, Audited]:
        """Act on a copy of the home, and audit it."""
        copy = self.place / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.place / "home", copy)
        receipts = self.at(copy)
        act(receipts)
        return audited(receipts)

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule(data=st.data(), name=st.sampled_from(["receipt", "head", "both", "folder"]))
    def taken_away(self, data: st.DataObject, name: str) -> None:
        sid = self.some(data, lambda known: known.begun)
        assert sid is not None

        def act(receipts: Receipts) -> None:
            if name == "folder":
                shutil.rmtree(receipts.path(sid).parent)
            elif name != "head":
                receipts.path(sid).unlink()
            if name in ("head", "both"):
                receipts.head_path(sid).unlink()

        wanted = "no_head" if name == "head" else "missing"
        assert reason(self.attacked(act), sid) == wanted

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule(data=st.data())
    def cut_short(self, data: st.DataObject) -> None:
        """By whoever has no key, and by whoever has it and signs the head anew."""
        sid = self.some(data, lambda known: known.begun)
        assert sid is not None
        book = self.receipts.ledger.read()
        lines = self.receipts.path(sid).read_bytes().split(b"\n")[:-1]
        left = data.draw(st.integers(0, len(lines) - 1))
        content = b"".join(line + b"\n" for line in lines[:left])

        def act(receipts: Receipts) -> None:
            receipts.path(sid).write_bytes(content)

        def act_with_key(receipts: Receipts) -> None:
            act(receipts)
            put_head(receipts, sid, lines[:left])

        if left < self.known[sid].lines:
            assert reason(self.attacked(act), sid) == "truncated"
        found = reason(self.attacked(act_with_key), sid)
        listed = book.sessions.get(sid)
        if listed is not None:
            assert found == ("truncated" if left < listed.n else "")

    @precondition(lambda self: any(known.copies for known in self.known.values()))
    @rule(data=st.data(), what=st.sampled_from(["receipt", "head", "both"]))
    def brought_back(self, data: st.DataObject, what: str) -> None:
        """An older copy of the receipt, of its head, or of both."""
        sid = self.some(data, lambda known: bool(known.copies))
        assert sid is not None
        known = self.known[sid]
        content, head, lines = data.draw(st.sampled_from(known.copies))
        listed = self.receipts.ledger.read().sessions[sid]
        now = self.receipts.path(sid).read_bytes()

        def act(receipts: Receipts) -> None:
            if what != "head":
                receipts.path(sid).write_bytes(content)
            if what != "receipt":
                receipts.head_path(sid).write_bytes(head)

        found = reason(self.attacked(act), sid)
        if what == "both":
            # Beyond the last row, an older copy of both is as good as the session was then.
            assert found == ("truncated" if lines < listed.n else "")
        elif what == "receipt" and lines < known.lines and now.startswith(content):
            assert found == "truncated"

    @precondition(lambda self: sum(known.begun for known in self.known.values()) > 1)
    @rule(data=st.data())
    def exchanged(self, data: st.DataObject) -> None:
        """Two sessions change places, with their heads."""
        one = self.some(data, lambda known: known.begun)
        other = self.some(data, lambda known: known.begun)
        if one is None or other is None or one == other:
            return

        def act(receipts: Receipts) -> None:
            for find in (receipts.path, receipts.head_path):
                first, second = find(one).read_bytes(), find(other).read_bytes()
                find(one).write_bytes(second)
                find(other).write_bytes(first)

        found = self.attacked(act)
        assert (reason(found, one), reason(found, other)) == ("head_mac", "head_mac")

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule(data=st.data(), listed=st.booleans())
    def used_again(self, data: st.DataObject, listed: bool) -> None:
        """A new receipt under the name of an old one, by whoever has the key."""
        sid = self.some(data, lambda known: known.begun)
        assert sid is not None

        def act(receipts: Receipts) -> None:
            lines = receipts.path(sid).read_bytes().split(b"\n")[:-1]
            shutil.rmtree(receipts.path(sid).parent)
            receipts.head_path(sid).unlink()
            if listed:
                receipts.create(sid, opening={"agent": "another"}, at=AT).close()
                return
            receipts.path(sid).parent.mkdir(mode=0o700)
            other = rechained(
                lines, sid, lambda n, fields: fields.update(at=str(fields["at"])[:-2] + "1Z")
            )
            if b'"kind":"seal"' in lines[-1]:
                other.pop()  # its root would have to be made anew too
            receipts.path(sid).touch(mode=0o600)
            receipts.path(sid).write_bytes(b"".join(line + b"\n" for line in other))
            put_head(receipts, sid, other)

        ended = self.receipts.ledger.read().sessions.get(sid)
        known_end = ended is not None and ended.end is not None
        found = reason(self.attacked(act), sid)
        if listed:
            assert found in ("reused", "unlisted")
        elif ended is not None:
            assert found in ("truncated", "swapped") if known_end else found == "swapped"

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule(what=st.sampled_from(["rows", "head", "both", "folder"]))
    def the_ledger_taken_away(self, what: str) -> None:
        def act(receipts: Receipts) -> None:
            ledger = receipts.ledger
            if what == "folder":
                shutil.rmtree(ledger.path.parent)
            elif what != "head":
                ledger.path.unlink()
            if what in ("head", "both"):
                ledger.head_path.unlink()
            assert outcome(lambda: receipts.create("new", opening={}, at=AT)) == "store.ledger"

        assert reason(self.attacked(act), LEDGER) == "no_ledger"

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule(data=st.data())
    def the_ledger_cut_short(self, data: st.DataObject) -> None:
        lines = self.receipts.ledger.path.read_bytes().split(b"\n")[:-1]
        left = data.draw(st.integers(0, len(lines) - 1))
        beyond = self.receipts.ledger.read().beyond

        def act(receipts: Receipts) -> None:
            content = b"".join(line + b"\n" for line in lines[:left])
            receipts.ledger.path.write_bytes(content)
            if left < len(lines) - beyond:
                assert outcome(lambda: receipts.create("new", opening={}, at=AT)) == "store.ledger"

        if left < len(lines) - beyond:
            assert reason(self.attacked(act), LEDGER) in ("truncated", "no_ledger")

    @precondition(lambda self: bool(self.books))
    @rule(data=st.data())
    def the_ledger_brought_back(self, data: st.DataObject) -> None:
        """An older ledger with its head: what began since and did anything has no row."""
        rows, head = data.draw(st.sampled_from(self.books))

        def act(receipts: Receipts) -> None:
            receipts.ledger.path.write_bytes(rows)
            receipts.ledger.head_path.write_bytes(head)

        found = self.attacked(act)
        for sid, known in self.known.items():
            if known.lines > 1 and f'"sid":"{sid}"'.encode() not in rows:
                assert reason(found, sid) == "unlisted"

    @precondition(lambda self: any(known.begun for known in self.known.values()))
    @rule()
    def everything_taken_away(self) -> None:
        """The mark among the keys still says that there was something."""

        def act(receipts: Receipts) -> None:
            shutil.rmtree(receipts.ledger.path.parent.parent)

        assert reason(self.attacked(act), LEDGER) == "no_ledger"


def audited(receipts: Receipts) -> dict[str, Audited]:
    """Audit everything; nothing where there is nothing."""
    try:
        return {each.sid: each for each in audit_all(receipts)}
    except UnverifiableError as error:
        assert error.code == "unverifiable.nothing"
        return {}


def reason(found: dict[str, Audited], sid: str) -> str:
    """Return the reason of a session's break, or nothing."""
    return str(found[sid].fault.detail.get("reason")) if found[sid].fault else ""


def put_head(receipts: Receipts, sid: str, lines: list[bytes]) -> None:
    """Sign a head over lines, as only a holder of the key can."""
    form = HeadForm(sid, KEY)
    size = sum(len(line) + 1 for line in lines)
    if lines:
        slot = form.slot(Head(len(lines), digest(lines[-1]), size))
        receipts.head_path(sid).touch(mode=0o600)
        receipts.head_path(sid).write_bytes(slot.ljust(1024, b"\0"))
    else:
        receipts.head_path(sid).write_bytes(form.first())


def digest(line: bytes) -> str:
    """Return the hash of a line."""
    from hashlib import sha256

    return sha256(line).hexdigest()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=30)
