"""
Attacks on keys that were changed, and on proofs: each is mounted, and each must be seen.

The catalogue's classes are ours by other names: E_KID_RETIRED is ``kid_retired``, E_KID is
``kid`` or, where already the head is a stranger's, ``head_mac``, E_PROOF is ``proof`` and E_ROOT a
root that differs.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from broker.errors import Break, BrokerError
from broker.receipt.chain import Chain
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.entry import canonical
from broker.receipt.form import LEDGER
from broker.receipt.handover import agreement
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keyring import ARCHIVE, signing_key_path
from broker.receipt.keys import Key
from broker.receipt.merkle import Frontier
from broker.receipt.paths import check_consistency, check_inclusion, inclusion_path, leaf_hash
from broker.receipt.proof import Proof, open_proof
from broker.receipt.rotation import rotate
from broker.receipt.signing import SigningKey, load_signing_key
from tests.sessionkit import Bench
from tests.unit.test_receipt_merkle import tree_hash
from tests.unit.test_receipt_rotation import keyring

THIEF = Key.of(bytes(range(7, 39)))
FOREIGN = ("kid", "head_mac")  # the head is read first, and says the same of the whole
SIGNER = SigningKey.of(bytes(range(32)))
AT = "2026-11-30T08:00:00.000Z"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An installation with a sealed session."""
    bench = Bench(tmp_path)
    bench.open().seal()
    return bench


def reason(act: Callable[[], object]) -> str:
    """Return why an act is refused, or nothing."""
    try:
        act()
    except Break as error:
        return error.reason
    return ""


def ledger_rows(bench: Bench) -> list[bytes]:
    """Return the rows of the ledger."""
    return bench.receipts().ledger.path.read_bytes().split(b"\n")[:-1]


def put_ledger(bench: Bench, rows: list[bytes], key: Key) -> None:
    """Write the ledger anew, under a head that a key signs."""
    ledger = bench.receipts().ledger
    content = b"".join(row + b"\n" for row in rows)
    ledger.path.write_bytes(content)
    head = Head(len(rows), sha256(rows[-1]).hexdigest(), len(content))
    slot = HeadForm("ledger", key, LEDGER).slot(head)
    ledger.head_path.write_bytes(slot.ljust(HEAD_BYTES, b"\0"))


def row(rows: list[bytes], kind: str, data: dict[str, Any], key: Key) -> bytes:
    """Return a row that follows others, signed with a key."""
    chain = Chain("ledger", key, form=LEDGER)
    chain.n, chain.last = len(rows), sha256(rows[-1]).hexdigest() if rows else chain.last
    return chain.compose(kind, canonical(data), AT)


def handover(bench: Bench, rows: list[bytes], key_from: Key, key_to: Key) -> dict[str, Any]:
    """Return what a row says that hands over from one key to another."""
    vkey = load_signing_key(signing_key_path(bench.home)).vkey
    names = {
        "kid_from": key_from.kid,
        "kid_to": key_to.kid,
        "vkey_from": SIGNER.vkey,
        "vkey_to": vkey,
    }
    return {**names, "agreed": agreement(THIEF, names, sha256(rows[-1]).hexdigest())}


def retire(sid: str) -> dict[str, Any]:
    """Return a row that would explain a deleted session away."""
    return {"sid": sid, "reason": "no longer needed", "found": "missing: it is gone"}


def test_k16_a_key_that_was_rotated_away(bench: Bench) -> None:
    """K16: a row after the rotation that is signed with the old key is told as that."""
    old, sid = bench.key(), next(iter(bench.receipts().ledger.read().sessions))
    rotate(bench.home, bench.clock())
    rows = ledger_rows(bench)
    put_ledger(bench, [*rows, row(rows, "retire", retire(sid), old)], bench.key())
    assert reason(bench.receipts().ledger.read) == "kid_retired"


def test_k16_a_session_begun_with_it(bench: Bench) -> None:
    """K16: nor can it begin a session afterwards, or its signing key vouch for one."""
    old, rows = bench.key(), ledger_rows(bench)
    before = load_signing_key(signing_key_path(bench.home)).public
    rotate(bench.home, bench.clock())
    begin = json.loads(rows[1][:-74] + b"}")["data"]
    rows = ledger_rows(bench)
    forged = row(rows, "begin", {**begin, "sid": "forged"}, bench.key())
    put_ledger(bench, [*rows, forged], bench.key())
    assert begin["kid"] == old.kid
    assert reason(bench.receipts().ledger.read) == "kid_retired"
    put_ledger(bench, rows, bench.key())
    assert before not in keyring(bench).vouching(bench.key().kid)
    assert before in keyring(bench).vouching(old.kid)


def test_k17_a_rotation_signed_with_the_new_key(bench: Bench) -> None:
    """K17: a rotation to the attacker's key that only that key signs is no row."""
    rows = ledger_rows(bench)
    forged = row(rows, "rotate", handover(bench, rows, bench.key(), THIEF), THIEF)
    put_ledger(bench, [*rows, forged], bench.key())
    assert reason(bench.receipts().ledger.read) == "mac"
    with pytest.raises(BrokerError):
        bench.open()


def test_k17_a_rotation_that_the_key_in_use_did_not_follow(bench: Bench) -> None:
    """K17: a genuine rotation is worth nothing while this installation uses another key."""
    before = bench.key()
    rotate(bench.home, bench.clock())
    (bench.home.keys / "receipt.key").write_bytes(THIEF.secret)
    assert reason(bench.receipts().ledger.read) in FOREIGN
    (bench.home.keys / "receipt.key").write_bytes(before.secret)
    assert reason(bench.receipts().ledger.read) in FOREIGN


def planted(bench: Bench) -> list[bytes]:
    """Plant a key in the archive, and return a ledger that it signed from the first row on."""
    folder = bench.home.keys / ARCHIVE
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{THIEF.kid}.key"
    path.write_bytes(THIEF.secret)
    path.chmod(0o600)
    return [row([], "open", {"format": "ledger/1"}, THIEF)]


def test_k18_a_planted_archive(bench: Bench) -> None:
    """K18: a foreign ledger and its key in the archive do not verify under the key in use."""
    rows = planted(bench)
    put_ledger(bench, rows, THIEF)
    assert reason(bench.receipts().ledger.read) in FOREIGN
    with pytest.raises(BrokerError):
        bench.open()


def test_k18_a_planted_archive_that_names_the_key_in_use(bench: Bench) -> None:
    """K18: nor does it when its last row hands over to the key in use, whose name is public."""
    rows = planted(bench)
    rows.append(row(rows, "rotate", handover(bench, rows, THIEF, bench.key()), THIEF))
    put_ledger(bench, rows, THIEF)
    (bench.home.keys / "ledger").write_text(sha256(rows[0]).hexdigest() + "\n")
    assert reason(bench.receipts().ledger.read) in FOREIGN
    with pytest.raises(BrokerError):
        bench.open()


# ── on proofs ──


def cases(shared: Path, name: str) -> list[dict[str, Any]]:
    """Return the published cases of one kind of path."""
    folder = shared / "vectors" / "rfc6962-merkle" / name
    found = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    assert len(found) == 98
    return found


def decoded(case: dict[str, Any], *names: str) -> list[bytes]:
    """Return fields of a case that are base64."""
    return [b64decode(case[name] or "") for name in names]


def test_p09_wrong_paths_of_a_line(shared: Path) -> None:
    """P09: of the published paths for another place, size or leaf, every one is refused."""
    wrong = [case for case in cases(shared, "inclusion") if case["wantErr"]]
    for case in wrong:
        leaf, root = decoded(case, "leafHash", "root")
        path = [b64decode(each) for each in case["proof"] or ()]
        place = (case["leafIdx"], case["treeSize"])
        assert reason(partial(check_inclusion, *place, leaf, path, root)) == "proof", case["desc"]
    assert len(wrong) > 80


def test_p10_wrong_paths_between_trees(shared: Path) -> None:
    """P10: of the published wrong paths between trees, every one is refused."""
    wrong = [case for case in cases(shared, "consistency") if case["wantErr"]]
    for case in wrong:
        roots = decoded(case, "root1", "root2")
        path = [b64decode(each) for each in case["proof"] or ()]
        sizes = (case["size1"], case["size2"])
        assert reason(partial(check_consistency, *sizes, *roots, path)) == "proof", case["desc"]
    assert len(wrong) > 80


def test_p11_an_inner_node_as_a_line() -> None:
    """P11: two hashes side by side, presented as a line, are not proven."""
    lines = [canonical({"n": n, "sid": "s1"}).encode() for n in range(4)]
    node = leaf_hash(lines[0]) + leaf_hash(lines[1])
    path = inclusion_path(lines, 0, 4)[1]
    note = sign_checkpoint(SIGNER, of_receipt("s1"), 4, tree_hash(lines))
    honest = Proof(0, tuple(path), note, lines[0]).content()
    assert open_proof(honest, [SIGNER.public]).line == lines[0]
    forged = Proof(0, tuple(path[1:]), note, node).content()
    assert reason(lambda: open_proof(forged, [SIGNER.public])) == "proof"
    half = sign_checkpoint(SIGNER, of_receipt("s1"), 2, tree_hash(lines))
    forged = Proof(0, tuple(path[1:]), half, node).content()
    assert reason(lambda: open_proof(forged, [SIGNER.public])) == "proof"


def test_p12_the_last_line_twice() -> None:
    """P12: a tree whose last leaf is repeated has another root, at every odd size."""
    for size in range(1, 33, 2):
        once, twice = Frontier(), Frontier()
        lines = [b"%d" % n for n in range(size)]
        once.extend(lines)
        twice.extend([*lines, lines[-1]])
        assert once.root() != twice.root()
