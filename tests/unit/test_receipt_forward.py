"""What the open line says of a start key, and what a verdict without it is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import Break
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.demand import Demand
from broker.receipt.forward import Forwarded, is_forward
from broker.receipt.head import HeadForm
from broker.receipt.merkle import Frontier
from broker.receipt.ratchet import first_aggregate
from broker.receipt.ratchetfile import BLANK, ratchet_path
from broker.receipt.sealing import SUITE, Auditor
from broker.receipt.signing import SigningKey
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries, verify
from tests.forwardkit import AUDITOR, audit_verdict, by_auditor, fill_forward, host_verdict, on_host
from tests.receiptkit import AT, KEY, fill, new_receipts, outcome

SAID = {"auditor": "0123456789abcdef", "sealed": "ab" * 80, "suite": SUITE}
SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    """A fresh home with one open session of three lines."""
    receipts = new_receipts(tmp_path)
    fill_forward(receipts, "s1", 2)
    return receipts


def opening(receipts: Receipts) -> dict[str, object]:
    """Return what the open line says."""
    data: dict[str, object] = json.loads(receipts.path("s1").read_bytes().split(b"\n")[0])["data"]
    return data


def checkpoint(receipts: Receipts, size: int) -> Path:
    """Sign a checkpoint over the first lines of the session."""
    tree = Frontier()
    for line in receipts.path("s1").read_bytes().split(b"\n")[:size]:
        tree.append(line)
    path = receipts.head_path("s1").with_suffix(".note")
    path.write_bytes(sign_checkpoint(SIGNER, of_receipt("s1"), size, tree.root()))
    return path


# ── the open line ──


def test_what_the_open_line_says(receipts: Receipts) -> None:
    """It names the auditor and the suite and holds the sealed key, and reads back."""
    said = opening(receipts)["forward"]
    found = Forwarded.read(said)
    assert found.auditor == AUDITOR.public.name
    assert found.data() == said
    assert len(AUDITOR.open(found.sealed, "s1")) == 32


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "downgrade"),
        ([], "schema"),
        ({**SAID, "more": 1}, "schema"),
        ({k: v for k, v in SAID.items() if k != "suite"}, "schema"),
        ({**SAID, "suite": "hpke-of-tomorrow"}, "schema"),
        ({**SAID, "auditor": "0123456789ABCDEF"}, "schema"),
        ({**SAID, "auditor": 7}, "schema"),
        ({**SAID, "sealed": "ab" * 79}, "schema"),
        ({**SAID, "sealed": None}, "schema"),
    ],
)
def test_an_open_line_of_another_form(said: object, reason: str) -> None:
    """What is not exactly of the form is refused, and silence is no start key."""
    with pytest.raises(Break) as caught:
        Forwarded.read(said)
    assert caught.value.reason == reason


@pytest.mark.parametrize("name", ["format", "forward"])
def test_what_the_open_line_says_is_ours(receipts: Receipts, name: str) -> None:
    """No caller can write a start key of its own into the open line."""
    act = outcome(lambda: receipts.create("s2", opening={name: "x"}, at=AT))
    assert act == "input"
    assert not receipts.path("s2").exists()


def test_the_start_key_is_nowhere(receipts: Receipts) -> None:
    """From its first line on, no file of the home holds the start key."""
    start = AUDITOR.open(Forwarded.read(opening(receipts)["forward"]).sealed, "s1")
    root = receipts.path("s1").parents[3]
    content = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert start not in content
    assert start.hex().encode() not in content


def test_only_the_head_says_so(receipts: Receipts) -> None:
    """Whether a session is forward-secure is read from its head, and from no other file."""
    fill(receipts, "s2", 1).close()
    assert is_forward(receipts.head_path("s1"), "s1", KEY)
    assert not is_forward(receipts.head_path("s2"), "s2", KEY)
    assert not is_forward(receipts.head_path("s3"), "s3", KEY)
    receipts.head_path("s1").write_bytes(receipts.head_path("s2").read_bytes())
    assert not is_forward(receipts.head_path("s1"), "s1", KEY)


# ── on the host ──


def test_the_host_vouches_by_its_head(receipts: Receipts) -> None:
    """Without the auditor the level is chain, the tags are unchecked, and all lines are known."""
    verdict = host_verdict(receipts, "s1")
    assert (verdict.state, verdict.level, verdict.tags) == ("OPEN", "chain", "unchecked")
    assert (verdict.completeness, verdict.lines, verdict.beyond) == ("KNOWN", 3, 0)
    assert any("auditor's key" in warning for warning in verdict.warnings)


def test_a_checkpoint_lifts_it_to_signed(receipts: Receipts) -> None:
    """With a checkpoint the host's verdict is signed, and what the checkpoint signs must hold."""
    given = {"checkpoint": checkpoint(receipts, 3), "vkeys": (SIGNER.public,)}
    assert host_verdict(receipts, "s1", **given).level == "signed"
    assert audit_verdict(receipts, "s1", **given).level == "signed"
    lines = receipts.path("s1").read_bytes()
    receipts.path("s1").write_bytes(lines.replace(b"call-0", b"call-9"))
    assert on_host(receipts, "s1", **given) in {"prev", "fork", "checkpoint_root"}


@pytest.mark.parametrize(
    ("level", "host", "auditor"),
    [
        ("chain", "OPEN", "OPEN"),
        ("mac", "unverifiable.auditor", "OPEN"),
        ("signed", "no_checkpoint", "no_checkpoint"),
        ("anchored", "no_checkpoint", "no_checkpoint"),
    ],
)
def test_the_levels_that_can_be_asked_for(
    receipts: Receipts, level: str, host: str, auditor: str
) -> None:
    """A level that takes the auditor's key says so, and is never quietly a lower one."""
    demand = Demand(level=level)  # type: ignore[arg-type]  # each of the four
    assert on_host(receipts, "s1", demand=demand) == host
    assert by_auditor(receipts, "s1", demand=demand) == auditor


def test_a_promise_is_kept_on_the_host(tmp_path: Path) -> None:
    """A session that promised checkpoints must have them after its seal, tags or no tags."""
    receipts = new_receipts(tmp_path)
    receipt = receipts.create("s1", opening={"level": "signed"}, at=AT, auditor=AUDITOR.public)
    assert on_host(receipts, "s1") == "OPEN"
    receipt.seal("complete", at=AT)
    assert on_host(receipts, "s1") == "no_checkpoint"
    given = {"checkpoint": checkpoint(receipts, 2), "vkeys": (SIGNER.public,)}
    assert on_host(receipts, "s1", **given) == "SEALED"


def test_entries_are_handed_out_once_the_head_is_met(receipts: Receipts) -> None:
    """The host reads entries of lines that the head vouches for, and none of a changed file."""
    path, head = receipts.path("s1"), receipts.head_path("s1")
    assert [entry.kind for entry in read_entries(path, KEY, head)] == ["open", *["decision"] * 2]
    path.write_bytes(path.read_bytes().replace(b"call-1", b"call-9"))
    seen = []
    with pytest.raises(Break) as caught:
        seen.extend(read_entries(path, KEY, head))
    assert (seen, caught.value.reason) == ([], "fork")


CHANGES: dict[str, tuple[Callable[[bytes], bytes], set[str]]] = {
    "a word": (lambda content: content.replace(b"call-0", b"call-9"), {"prev"}),
    "a tag": (lambda content: content[:-4] + b"0" + content[-3:], {"fork"}),
    "the last line": (lambda content: content[: content.rindex(b"\n", 0, -1) + 1], {"truncated"}),
    "all lines": (lambda content: b"", {"truncated"}),
    "the first line's end": (lambda content: content.replace(b"\n", b" "), {"truncated"}),
    "a line again": (lambda content: content + content.split(b"\n")[1] + b"\n", {"seq", "mac"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_who_has_no_key_changes_nothing(receipts: Receipts, change: str) -> None:
    """Without the installation's key nothing can be changed that the host does not see."""
    path = receipts.path("s1")
    act, reasons = CHANGES[change]
    before = path.read_bytes()
    path.write_bytes(act(before) if act(before) != before else before[:-5] + b"1" + before[-4:])
    assert on_host(receipts, "s1") in reasons
    assert by_auditor(receipts, "s1") in {*reasons, "mac", "format"}


def test_every_bit_counts_on_the_host(tmp_path: Path) -> None:
    """Every flipped bit of a receipt whose tags nobody checks is a break all the same."""
    receipts = new_receipts(tmp_path)
    fill_forward(receipts, "s1", 0).seal("complete", at=AT)
    path = receipts.path("s1")
    content = path.read_bytes()
    assert on_host(receipts, "s1") == "SEALED"
    survivors = []
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        if on_host(receipts, "s1") in {"SEALED", "OPEN", "TORN", "INTERRUPTED"}:
            survivors.append(place)
    assert survivors == []


def test_a_session_that_never_began(tmp_path: Path) -> None:
    """Where a crash came before line 0 was acknowledged, there is nothing to verify."""
    receipts = new_receipts(tmp_path)
    fill_forward(receipts, "s1", 0).close()
    head = receipts.head_path("s1")
    ratchet_path(head).write_bytes(BLANK)
    head.write_bytes(HeadForm("s1", KEY).first(first_aggregate("s1")))
    assert on_host(receipts, "s1") == "unverifiable.nothing"
    assert by_auditor(receipts, "s1") == "OPEN"  # the auditor can check line 0
    receipts.path("s1").write_bytes(b"")
    assert on_host(receipts, "s1") == by_auditor(receipts, "s1") == "unverifiable.nothing"


# ── by the auditor ──


def test_the_auditor_reaches_mac(receipts: Receipts) -> None:
    """With the auditor's key alone every tag is checked and completeness is known."""
    for given in ({}, {"key": KEY}):
        verdict = audit_verdict(receipts, "s1", **given)
        assert (verdict.state, verdict.level, verdict.tags) == ("OPEN", "mac", "checked")
        assert verdict.completeness == "KNOWN"


def test_without_the_head_completeness_is_unknown(receipts: Receipts) -> None:
    """An auditor who was not given the head is told that lines may be missing."""
    verdict = audit_verdict(receipts, "s1", head=None)
    assert (verdict.level, verdict.completeness) == ("mac", "UNKNOWN")


def test_an_ordinary_session_is_no_forward_one(tmp_path: Path) -> None:
    """Who gives an auditor's key asks for a forward-secure session, and gets no less."""
    receipts = new_receipts(tmp_path)
    fill(receipts, "s1", 2).close()
    for given in ({}, {"key": KEY}, {"head": None}):
        assert by_auditor(receipts, "s1", **given) == "downgrade"


def test_another_auditor(receipts: Receipts) -> None:
    """Another auditor's key opens nothing, and says whose it would take."""
    other = Auditor.of(bytes(range(1, 33)))
    assert by_auditor(receipts, "s1", auditor=other) == "unverifiable.auditor"


def test_a_head_of_another_session(tmp_path: Path) -> None:
    """Without the installation's key, a head is believed by its aggregate and its session."""
    receipts = new_receipts(tmp_path)
    for sid in ("s1", "s2"):
        fill_forward(receipts, sid, 2).close()
    head = receipts.head_path("s2").read_bytes()
    assert by_auditor(receipts, "s1", head=receipts.head_path("s2")) == "head_mac"
    receipts.head_path("s1").write_bytes(head.replace(b'"sid":"s2"', b'"sid":"s1"'))
    assert by_auditor(receipts, "s1") == "fork"


def test_a_head_whose_aggregate_was_changed(receipts: Receipts) -> None:
    """Without the installation's key, a changed aggregate is seen all the same."""
    path = receipts.head_path("s1")
    aggregate = json.loads(path.read_bytes()[:512])["agg"].encode()
    path.write_bytes(path.read_bytes().replace(aggregate, b"0" * 64))
    assert by_auditor(receipts, "s1") == "aggregate"
    assert on_host(receipts, "s1") == "head_mac"


def test_it_needs_no_installation(receipts: Receipts, tmp_path: Path) -> None:
    """On another machine the receipt, the head and the auditor's key are enough."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    for name, source in (("receipt", receipts.path("s1")), ("head", receipts.head_path("s1"))):
        (place / name).write_bytes(source.read_bytes())
    verdict = verify(place / "receipt", key=None, head=place / "head", sid="s1", auditor=AUDITOR)
    assert (verdict.level, verdict.completeness) == ("mac", "KNOWN")
