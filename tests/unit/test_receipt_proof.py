"""The file of a proof: published ones, and what it takes to be believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.errors import Break, InputError
from broker.limits import MAX_PROOF_BYTES
from broker.receipt.checkpoint import OF_LEDGER, of_receipt, sign_checkpoint
from broker.receipt.paths import inclusion_path
from broker.receipt.proof import Proof, open_proof
from broker.receipt.signing import SigningKey, VerifyKey
from tests.receiptkit import Scene
from tests.unit.test_receipt_merkle import tree_hash

KEY = SigningKey.of(bytes(range(32)))
OTHER = SigningKey.of(bytes(range(1, 33)))


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The twelve lines of a sealed receipt."""
    return Scene.at(tmp_path_factory.mktemp("scene")).lines("s1")


def proof(
    lines: list[bytes],
    index: int,
    *,
    of: str = of_receipt("s1"),
    key: SigningKey = KEY,
    carried: bool = True,
) -> Proof:
    """Return the proof of a line, as an honest broker makes it."""
    line, path = inclusion_path(lines, index, len(lines))
    checkpoint = sign_checkpoint(key, of, len(lines), tree_hash(lines))
    return Proof(index, tuple(path), checkpoint, line if carried else None)


def reason(content: bytes, *keys: VerifyKey, line: bytes | None = None) -> str:
    """Return why a proof is refused, or nothing."""
    try:
        open_proof(content, keys or (KEY.public,), line)
    except Break as error:
        return error.reason
    return ""


def test_published_proofs(shared: Path) -> None:
    """All ten published files are read or refused as published, and are written the same."""
    cases = json.loads((shared / "vectors/c2sp-checkpoint/tlog_proofs.json").read_text())
    assert len(cases) == 10
    for case in cases:
        content = case["proof"].encode()
        try:
            assert Proof.parse(content).content() == content
        except Break as error:
            assert (error.reason, case["want"]) == ("proof_format", "reject"), case["name"]
        else:
            assert case["want"] == "ok", case["name"]


def test_every_line_can_be_shown(lines: list[bytes]) -> None:
    """For each line, its proof shows it to whoever has the public key, and nobody else."""
    for index, line in enumerate(lines):
        content = proof(lines, index).content()
        shown = open_proof(content, [OTHER.public, KEY.public])
        assert (shown.sid, shown.index, shown.line) == ("s1", index, line)
        assert (shown.checkpoint.size, shown.checkpoint.root) == (12, tree_hash(lines))
        assert reason(content, OTHER.public) == "checkpoint_sig"


def test_no_bit_of_a_proof_is_free(lines: list[bytes]) -> None:
    """With any single bit turned, a proof shows nothing."""
    content = proof(lines, 6).content()
    known = {"proof", "proof_format", "checkpoint_sig", "checkpoint_format"}
    for place in range(len(content) * 8):
        turned = bytearray(content)
        turned[place // 8] ^= 1 << place % 8
        assert reason(bytes(turned)) in known, place


def test_no_part_of_a_proof_is_one(lines: list[bytes]) -> None:
    """A proof that was cut short anywhere shows nothing."""
    content = proof(lines, 0).content()
    for stop in range(len(content)):
        assert reason(content[:stop]), stop


def test_a_proof_may_leave_its_line_out(lines: list[bytes]) -> None:
    """Without the line, whoever has the line can check it, and a wrong line shows nothing."""
    content = proof(lines, 4, carried=False).content()
    assert b"extra" not in content
    assert open_proof(content, [KEY.public], lines[4]).line == lines[4]
    assert reason(content, line=lines[5]) == "proof"
    with pytest.raises(InputError, match="give the line"):
        open_proof(content, [KEY.public])


def test_a_given_line_must_be_the_carried_one(lines: list[bytes]) -> None:
    """A proof that carries another line than the one given is refused."""
    content = proof(lines, 4).content()
    assert reason(content, line=lines[4]) == ""
    assert reason(content, line=lines[5]) == "proof"


def test_a_proof_is_about_one_place(lines: list[bytes]) -> None:
    """Another index, another session and the ledger are not shown by it."""
    content = proof(lines, 4).content()
    for other in (0, 5, 12, 99):
        assert reason(content.replace(b"index 4", b"index %d" % other)) == "proof"
    assert reason(proof(lines, 4, of=of_receipt("s2")).content()) == "proof_line"
    assert reason(proof(lines, 4, of=OF_LEDGER).content()) == "checkpoint_origin"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"n":true,"sid":"s1"}',
        b'{"n":1,"sid":"s2"}',
        b'{"n":0,"sid":"s1"}',
        b'{"sid":"s1","n":1}',
    ],
)
def test_a_signer_cannot_show_a_line_elsewhere(line: bytes) -> None:
    """A signed tree whose line 1 does not say that it is line 1 of the session is refused."""
    assert reason(proof([b"x", line], 1).content()) == "proof_line"
    assert reason(proof([b"x", b'{"n":1,"sid":"s1"}'], 1).content()) == ""


def test_a_node_cannot_pass_for_a_line(lines: list[bytes]) -> None:
    """An inner node in the place of a line does not lead to the signed root."""
    honest = proof(lines, 0)
    node = b"".join(inclusion_path(lines, 1, 12)[1][:1]) + honest.path[0]
    assert reason(Proof(0, honest.path[1:], honest.checkpoint, node).content()) == "proof"


MALFORMED = {
    "index 04": (b"index 4", b"index 04"),
    "index +4": (b"index 4", b"index +4"),
    "no index": (b"index 4\n", b""),
    "huge index": (b"index 4", b"index " + b"9" * 20),
    "two extras": (b"index 4", b"extra YQ==\nindex 4"),
    "extra after the index": (b"index 4\n", b"index 4\nextra YQ==\n"),
    "crlf": (b"index 4\n", b"index 4\r\n"),
    "not ascii": (b"index 4", "index ٤".encode()),
    "other version": (b"proof@v1", b"proof@v2"),
    "a blank line too many": (b"proof@v1\n", b"proof@v1\n\n"),
    "hashes without end": (b"index 4\n", b"index 4\n" + b"%b=\n" % (b"A" * 43) * 64),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_proofs(name: str, lines: list[bytes]) -> None:
    """A proof has one spelling."""
    content = proof(lines, 4).content()
    assert reason(content.replace(*MALFORMED[name], 1)) == "proof_format"


def test_a_proof_has_a_limit() -> None:
    """A file that is far too long is not read further."""
    assert reason(b"x" * (MAX_PROOF_BYTES + 1)) == "proof_format"
