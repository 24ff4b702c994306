"""
A thief takes everything on the host at line n, and writes as the host would from there.

The loot is a copy of the whole home (receipts, heads, ratchets, the installation's key) and all
that the writing process holds in memory. Each test says what the thief can do with it and what
not, before the auditor, who has nothing but the receipt, the head and the auditor's key. What
the host can tell by itself is stated too: nothing, since the thief signs as the host does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.home import Home
from broker.receipt.audit import audit
from broker.receipt.chain import OneKey, genesis
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.demand import Demand
from broker.receipt.entry import canonical
from broker.receipt.forward import begin_forward, read_kept, read_opening
from broker.receipt.head import Head, HeadForm
from broker.receipt.keys import Key, load_or_create_key
from broker.receipt.merkle import Frontier
from broker.receipt.ratchet import Position, Ratchet
from broker.receipt.ratchetfile import KeptRatchet, RatchetForm, ratchet_path
from broker.receipt.sealing import Auditor
from broker.receipt.signing import SigningKey
from broker.receipt.store import Receipts
from broker.receipt.verify import verify
from broker.receipt.writer import Receipt
from tests.forwardkit import AUDITOR, audit_verdict, by_auditor, fill_forward, memory_of, traces
from tests.receiptkit import AT, body_of, decision, outcome

LINES = 10  # when the thief comes
HOST_KEY = Key.of(bytes(range(7, 39)))
Line = dict[str, Any]


@dataclass
class Loot:
    """What was taken: the home, the installation's key, the ratchet, and what is in memory."""

    receipts: Receipts
    key: Key
    kid: str
    position: Position
    memory: object

    @property
    def files(self) -> bytes:
        """Every byte of every file."""
        root = self.receipts.path("s1").parents[3]
        return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())

    def lines(self) -> list[Line]:
        """The stolen lines, read."""
        content = self.receipts.path("s1").read_bytes()
        return [json.loads(line) for line in content.split(b"\n")[:-1]]

    def ratchet(self, n: int | None = None) -> Ratchet:
        """The stolen ratchet; the thief may say of it that it stands at another line."""
        at = self.position
        return Ratchet(self.kid, "s1", Position(at.n if n is None else n, at.key, at.aggregate))

    def put(self, lines: Iterable[bytes], head: Head | None = None) -> None:
        """Put a history in the receipt's place, with a head and a ratchet that fit it."""
        made = list(lines)
        content = b"".join(line + b"\n" for line in made)
        self.receipts.path("s1").write_bytes(content)
        if head is None:
            last = sha256(made[-1]).hexdigest()
            head = Head(len(made), last, len(content), self.position.aggregate)
        slot = HeadForm("s1", self.key).slot(head)
        path = self.receipts.head_path("s1")
        path.write_bytes(slot + slot)
        stood = replace(self.position, n=len(made))
        kept = KeptRatchet(self.kid, stood, sha256(made[-1]).hexdigest(), len(content))
        ratchet_path(path).write_bytes(RatchetForm("s1", self.key).slot(kept) * 2)


def steal(place: Path, receipts: Receipts, receipt: Receipt) -> Loot:
    """Copy the home to another place, and take the ratchet that the process holds."""
    shutil.copytree(receipts.path("s1").parents[3], place)
    home = Home.find({"BROKER_HOME": str(place)})
    key = load_or_create_key(home.keys / "receipt.key")
    kept = read_kept(home.heads / "s1", "s1", key)
    assert kept is not None
    return Loot(Receipts(home, key), key, kept.kid, kept.position, receipt)


def begun(place: Path, key: Key, decisions: int) -> tuple[Receipts, Receipt]:
    """Begin a forward-secure session in a home that keeps its key in a file, as a real one does."""
    home = Home.find({"BROKER_HOME": str(place)})
    load_or_create_key(home.keys / "receipt.key", randomness=lambda n: key.secret)
    receipts = Receipts(home, key)
    return receipts, fill_forward(receipts, "s1", decisions)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> tuple[Receipts, Receipt]:
    """A session with ``LINES`` lines, all acknowledged; it is stolen from, and never changed."""
    place = tmp_path_factory.mktemp("host")
    receipts, receipt = begun(place / "home", HOST_KEY, LINES - 1)
    assert by_auditor(receipts, "s1") == "OPEN"
    return receipts, receipt


@pytest.fixture
def loot(tmp_path: Path, host: tuple[Receipts, Receipt]) -> Loot:
    """What is taken when the thief comes at line ``LINES``."""
    return steal(tmp_path / "loot", *host)


def signed(fields: Line, n: int, prev: str, ratchet: Ratchet) -> bytes:
    """Write a line as the host does, with the ratchet's key, and step."""
    body = canonical({k: v for k, v in {**fields, "n": n, "prev": prev}.items() if k != "sig"})
    tag = ratchet.tag(body.encode())
    ratchet.step()
    return f'{body[:-1]},"sig":"{tag}"}}'.encode()


def raw(loot: Loot) -> list[bytes]:
    """Return the stolen lines as they are."""
    return loot.receipts.path("s1").read_bytes().split(b"\n")[:-1]


def rewritten(
    loot: Loot, lines: list[Line], start: int, ratchet: Ratchet
) -> tuple[list[bytes], Ratchet]:
    """Keep the lines before ``start``, and sign the others anew, linked and numbered."""
    made = raw(loot)[:start]
    for fields in lines[start:]:
        prev = sha256(made[-1]).hexdigest() if made else genesis("s1")
        made.append(signed(fields, len(made), prev, ratchet))
    return made, ratchet


def edited(lines: list[Line], n: int) -> list[Line]:
    """Return the lines with one decision turned around."""
    data = {**lines[n]["data"], "decision": "allow", "tool": "Forged"}
    return [*lines[:n], {**lines[n], "data": data}, *lines[n + 1 :]]


def auditor_says(loot: Loot, **more: Any) -> tuple[str, int]:
    """Return the auditor's answer, and the line of the break."""
    try:
        return audit_verdict(loot.receipts, "s1", **more).state, -1
    except Break as error:
        return error.reason, error.line


def host_says(loot: Loot) -> str:
    """Return what the host tells by itself, with the stolen key, which is its own."""
    path, head = loot.receipts.path("s1"), loot.receipts.head_path("s1")
    return outcome(lambda: verify(path, key=loot.key, head=head, sid="s1").state)


# ── what is in the loot ──


def test_no_earlier_key_is_in_the_loot(tmp_path: Path) -> None:
    """At whatever line the thief comes, no file and no memory holds the key of a line before."""
    receipts, receipt = begun(tmp_path / "home", HOST_KEY, 0)
    ratchet: Ratchet | None = None
    for n in range(1, 8):
        loot = steal(tmp_path / f"loot{n}", receipts, receipt)
        with receipts.path("s1").open("rb") as file:
            start = Key.of(AUDITOR.open(read_opening(file.fileno()).sealed, "s1"))
        ratchet = Ratchet.start(start, "s1")
        files, memory = loot.files, memory_of(loot.memory)
        for line in raw(loot):
            key, aggregate = ratchet.position.key, ratchet.aggregate
            for shape in (*traces(key, "s1"), key.hex().encode(), aggregate.encode()):
                assert shape not in files
                assert not any(shape in value for value in memory)
            ratchet.tag(body_of(line))
            ratchet.step()
        # Where it must be, it is found: the search is not blind.
        assert ratchet.position == loot.position
        assert ratchet.position.key.hex().encode() in files
        left = traces(ratchet.position.key, "s1")
        assert sum(any(shape in value for value in memory) for shape in left) >= 3
        assert loot.key.secret in files
        receipt.append("decision", decision(n), at=AT)


# ── the past: what cannot be done ──


@pytest.mark.parametrize("n", range(LINES))
def test_k11_a_line_before_the_theft_is_rewritten(loot: Loot, n: int) -> None:
    """K11: a past line, changed and signed anew with all after it, is named by the auditor."""
    made, ratchet = rewritten(loot, edited(loot.lines(), n), n, loot.ratchet())
    content = sum(len(line) + 1 for line in made)
    last = sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, content, ratchet.aggregate))
    reason, line = auditor_says(loot)
    assert (reason, line) == ("mac", n)
    assert host_says(loot) == "OPEN"  # the host cannot tell: the thief signs as it does


def test_k12_old_content_under_the_current_key(loot: Loot) -> None:
    """K12: a past line signed with the stolen key, said to be that line's own, is named."""
    made = raw(loot)
    fields = edited(loot.lines(), 3)[3]
    made[3] = signed(fields, 3, fields["prev"], loot.ratchet(3))
    loot.put(made)
    assert auditor_says(loot) == ("mac", 3)


def test_k12_the_stolen_key_is_line_n_s_alone(loot: Loot) -> None:
    """K12: the line that the stolen key is for, put in an earlier place, is named there."""
    made = raw(loot)[:4]
    made.append(signed(loot.lines()[4], 4, sha256(made[3]).hexdigest(), loot.ratchet()))
    loot.put(made)
    assert auditor_says(loot) == ("mac", 4)


@pytest.mark.parametrize("dropped", [1, 2, 3])
def test_k13_steps_are_skipped_to_hide_lines(loot: Loot, dropped: int) -> None:
    """K13: with lines left out and the rest renumbered, the first that is in the wrong place."""
    lines = loot.lines()
    made, _ = rewritten(loot, [*lines[:6], *lines[6 + dropped :]], 6, loot.ratchet())
    loot.put(made)
    assert auditor_says(loot) == ("mac", 6)


def test_k13_the_stolen_ratchet_steps_on(loot: Loot) -> None:
    """K13: at the theft too, a key that has stepped past lines that are not there is named."""
    lines, made = loot.lines(), raw(loot)
    ahead = loot.ratchet()
    for _ in range(3):
        ahead.tag(b"hidden")
        ahead.step()
    made.append(signed(lines[5], LINES, sha256(made[-1]).hexdigest(), ahead))
    loot.put(made)
    assert auditor_says(loot) == ("mac", LINES)


@pytest.mark.parametrize("cut", range(1, LINES))
def test_t09_the_tail_is_cut_and_the_head_rewritten(loot: Loot, cut: int) -> None:
    """T09: a tail that was acknowledged is missed, whatever head the thief writes."""
    made = raw(loot)[:-cut]
    loot.put(made)  # with the one aggregate that is in the loot
    assert auditor_says(loot)[0] == "aggregate"
    assert host_says(loot) == "OPEN"
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(LINES, last, size, loot.position.aggregate))
    assert auditor_says(loot)[0] == "truncated"
    loot.put(made, Head(len(made), last, size))  # without an aggregate
    assert auditor_says(loot)[0] == "downgrade"
    loot.receipts.head_path("s1").unlink()
    assert auditor_says(loot)[0] == "no_head"


def test_t09_the_tail_is_cut_and_sealed(loot: Loot) -> None:
    """T09: a seal over fewer lines needs the key of the first line that was cut."""
    made = raw(loot)[:-2]
    tree = Frontier()
    for line in made:
        tree.append(line)
    data = {"n": len(made), "reason": "complete", "root": tree.root().hex()}
    fields = {**loot.lines()[-1], "kind": "seal", "data": data}
    ratchet = loot.ratchet(len(made))
    made.append(signed(fields, len(made), sha256(made[-1]).hexdigest(), ratchet))
    loot.put(made)
    assert auditor_says(loot) == ("mac", LINES - 2)


def test_the_session_is_said_to_be_an_ordinary_one(loot: Loot) -> None:
    """A receipt rewritten under the installation's key fools the host, and not the auditor."""
    tags = OneKey.of(loot.key, "s1")
    made: list[bytes] = []
    for fields in loot.lines():
        data = {k: v for k, v in fields["data"].items() if k != "forward"}
        prev = sha256(made[-1]).hexdigest() if made else genesis("s1")
        body = {**fields, "data": data, "kid": tags.kid, "prev": prev}
        text = canonical({k: v for k, v in body.items() if k != "sig"})
        made.append(f'{text[:-1]},"sig":"{tags.tag(text.encode())}"}}'.encode())
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, size))
    assert host_says(loot) == "OPEN"
    assert auditor_says(loot)[0] == "downgrade"
    # The ledger knows better, unless it is rewritten too: its row names line 0.
    assert outcome(lambda: audit(loot.receipts, "s1").state) == "swapped"


def test_the_ledger_says_which_sessions_are_forward_secure(tmp_path: Path) -> None:
    """A head without an aggregate, over the very lines that began forward-secure, is seen."""
    receipts, receipt = begun(tmp_path / "home", HOST_KEY, 0)
    receipt.close()
    assert outcome(lambda: audit(receipts, "s1").forward) == "True"
    path = receipts.head_path("s1")
    form = HeadForm("s1", HOST_KEY)
    head = form.read(path.read_bytes()).head
    path.write_bytes(form.slot(replace(head, aggregate="")) * 2)
    assert outcome(lambda: audit(receipts, "s1").state) in {"mac", "downgrade"}


def test_another_auditor_is_put_in(loot: Loot) -> None:
    """A start key sealed to the thief is not the auditor's: that is told, and nothing verified."""
    thief = Auditor.of(bytes(range(90, 122)))
    ratchet, opening = begin_forward(thief.public, "s1", lambda n: bytes(range(n)))
    lines = [{**fields, "kid": ratchet.kid} for fields in loot.lines()]
    lines[0] = {**lines[0], "data": {**lines[0]["data"], "forward": opening.data()}}
    made, ratchet = rewritten(loot, lines, 0, ratchet)
    loot.put(made)
    assert outcome(partial(audit_verdict, loot.receipts, "s1")) == "unverifiable.auditor"


def _swap(lines: list[bytes], i: int, j: int) -> list[bytes]:
    made = list(lines)
    made[i], made[j] = made[j], made[i]
    return made


SEEN = {"mac", "aggregate", "kind", "downgrade"}  # the last where the open line is gone
MOVES: dict[str, Callable[[list[bytes], int, int], list[bytes]]] = {
    "drop": lambda lines, i, j: lines[:i] + lines[i + 1 :],
    "repeat": lambda lines, i, j: [*lines[:i], lines[j], *lines[i:]],
    "replace": lambda lines, i, j: [*lines[:i], lines[j], *lines[i + 1 :]],
    "swap": _swap,
    "cut": lambda lines, i, j: lines[: max(i, 1)],
}


@given(st.sampled_from(sorted(MOVES)), st.integers(0, LINES - 1), st.integers(0, LINES - 1))
def test_no_arrangement_of_the_past_passes(
    tmp_path_factory: pytest.TempPathFactory,
    host: tuple[Receipts, Receipt],
    move: str,
    i: int,
    j: int,
) -> None:
    """Whatever lines are dropped, moved or repeated and signed anew, the auditor sees it."""
    loot = steal(tmp_path_factory.mktemp("loot") / "home", *host)
    before = raw(loot)
    moved = MOVES[move](before, i, j)
    if moved == before:
        assert i == j
        return
    pairs = zip(moved, before, strict=False)
    start = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(moved), len(before)))
    lines = [json.loads(line) for line in moved]
    made, ratchet = rewritten(loot, lines, start, loot.ratchet())
    loot.put(made)
    assert auditor_says(loot)[0] in SEEN
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, size, ratchet.aggregate))
    # A line repeated at the very end changes no past one: it is the thief's to write.
    assert auditor_says(loot)[0] in (SEEN if start < LINES else {"OPEN"})


# ── the future: what can be done ──


def forged_future(loot: Loot) -> None:
    """Go on from the theft with lines of the thief's choice, and seal them."""
    lines = loot.lines()
    ratchet = loot.ratchet()
    made = raw(loot)
    for fields in (edited(lines, 4)[4], edited(lines, 5)[5]):
        made.append(signed(fields, len(made), sha256(made[-1]).hexdigest(), ratchet))
    tree = Frontier()
    for line in made:
        tree.append(line)
    seal = {"n": len(made), "reason": "complete", "root": tree.root().hex()}
    fields = {**lines[-1], "kind": "seal", "data": seal}
    made.append(signed(fields, len(made), sha256(made[-1]).hexdigest(), ratchet))
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, size, ratchet.aggregate))


def test_lines_from_the_theft_on_can_be_forged(loot: Loot) -> None:
    """From line n on the thief is the host: what is written then passes before the auditor."""
    forged_future(loot)
    assert auditor_says(loot) == ("SEALED", -1)
    assert host_says(loot) == "SEALED"


def test_waiting_lines_are_as_young_as_their_sync(tmp_path: Path) -> None:
    """Lines that a group has not made durable yet can be cut or changed: the head is older."""
    receipts, receipt = begun(tmp_path / "home", HOST_KEY, LINES - 1)
    for _ in range(3):
        receipt.append("note", {"text": "soon"}, at=AT, durable=False)
    loot = steal(tmp_path / "loot", receipts, receipt)
    assert loot.position.n == LINES
    made = raw(loot)[:LINES]
    loot.put(made)
    assert auditor_says(loot)[0] == "OPEN"
    loot.put(made[:-1])
    assert auditor_says(loot)[0] == "aggregate"


def test_a_whole_state_of_before_can_be_put_back(tmp_path: Path) -> None:
    """A copy that was made earlier is a true state of earlier: only a note elsewhere tells."""
    receipts, receipt = begun(tmp_path / "home", HOST_KEY, 4)
    earlier = steal(tmp_path / "backup", receipts, receipt)
    for n in range(3):
        receipt.append("decision", decision(n), at=AT)
    verdict = audit_verdict(receipts, "s1")
    assert auditor_says(earlier)[0] == "OPEN"
    noted = Demand(expect=(verdict.lines, verdict.last))
    assert auditor_says(earlier, demand=noted)[0] == "truncated"


def test_a_session_begun_anew_needs_a_note_of_the_first(loot: Loot) -> None:
    """
    The auditor's key is public, so a thief can begin the session anew with a start key of their
    own. Nothing in the files shows that. A head that the auditor noted before the theft does.
    """
    first = sha256(raw(loot)[0]).hexdigest()
    ratchet, opening = begin_forward(AUDITOR.public, "s1", lambda n: bytes(range(n)))
    lines = [{**fields, "kid": ratchet.kid} for fields in edited(loot.lines(), 3)]
    lines[0] = {**lines[0], "data": {**lines[0]["data"], "forward": opening.data()}}
    made, ratchet = rewritten(loot, lines, 0, ratchet)
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, size, ratchet.aggregate))
    verdict = audit_verdict(loot.receipts, "s1")
    assert verdict.state == "OPEN"
    assert any("--expect-head" in warning for warning in verdict.warnings)
    assert auditor_says(loot, demand=Demand(expect=(1, first))) == ("fork", 0)


# ── the auditor ──


def test_k14_an_auditor_forges(tmp_path: Path, loot: Loot) -> None:
    """K14: who holds the start key can sign any history; the checkpoint's root says no."""
    signer = SigningKey.of(bytes(range(32)))
    tree = Frontier()
    for line in raw(loot):
        tree.append(line)
    note = tmp_path / "checkpoint"
    note.write_bytes(sign_checkpoint(signer, of_receipt("s1"), LINES, tree.root()))
    evidence = {"checkpoint": note, "vkeys": (signer.public,)}
    assert audit_verdict(loot.receipts, "s1", **evidence).level == "signed"
    with loot.receipts.path("s1").open("rb") as file:
        start = Key.of(AUDITOR.open(read_opening(file.fileno()).sealed, "s1"))
    made, ratchet = rewritten(loot, edited(loot.lines(), 3), 0, Ratchet.start(start, "s1"))
    size, last = sum(len(line) + 1 for line in made), sha256(made[-1]).hexdigest()
    loot.put(made, Head(len(made), last, size, ratchet.aggregate))
    assert auditor_says(loot)[0] == "OPEN"
    assert auditor_says(loot, **evidence)[0] == "checkpoint_root"
