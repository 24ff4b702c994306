"""Published vectors of the formats that are exported: envelopes, canonical texts, signatures."""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64decode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from broker.errors import Break, RecordError
from broker.export.dsse import open_envelope, pae
from broker.receipt.entry import canonical, encode_data
from broker.receipt.signing import VerifyKey

IN_TOTO = "application/vnd.in-toto+json"


@dataclass
class EcKey:
    """A P-256 key, which the published envelopes are signed with and ours never are."""

    public: ec.EllipticCurvePublicKey
    raw: bool = False
    name: str = "published"

    def accepts(self, message: bytes, signature: bytes) -> bool:
        if self.raw:
            r, s = signature[:32], signature[32:]
            signature = utils.encode_dss_signature(
                int.from_bytes(r, "big"), int.from_bytes(s, "big")
            )
        try:
            self.public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def test_what_dsse_signs(shared: Path) -> None:
    """The bytes that are signed are the specification's, with lengths in bytes."""
    rows = json.loads((shared / "vectors/dsse/pae.json").read_text(encoding="utf-8"))
    assert len(rows) == 3
    for each in rows:
        assert pae(each["type"], each["body"].encode()) == each["pae"].encode()


def test_the_envelope_of_the_specification(shared: Path) -> None:
    """The specification's own envelope opens with its key, and with nothing changed in it."""
    vector = json.loads((shared / "vectors/dsse/hello_world.json").read_text())
    numbers = ec.EllipticCurvePublicNumbers(
        int(vector["key"]["x"]), int(vector["key"]["y"]), ec.SECP256R1()
    )
    key = EcKey(numbers.public_key(), raw=True)
    content = json.dumps(vector["envelope"]).encode()
    assert open_envelope(content, vector["payloadType"], [key]) == b"hello world"
    for old, new in ((b"aGVs", b"aGVt"), (b"HelloWorld", b"HelloWorle"), (b"A3Jq", b"A3Jr")):
        with pytest.raises(Break):
            open_envelope(content.replace(old, new), vector["payloadType"], [key])


def bundle(shared: Path, name: str) -> tuple[dict[str, Any], EcKey]:
    """Return the envelope of a published bundle, and the key of its certificate."""
    path = shared / "vectors/sigstore-bundles" / name / "bundle.sigstore.json"
    document = json.loads(path.read_text())
    material = document["verificationMaterial"]["certificate"]["rawBytes"]
    public = x509.load_der_x509_certificate(b64decode(material)).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    return document["dsseEnvelope"], EcKey(public)


def opened(envelope: dict[str, Any], key: EcKey) -> str:
    """Return the type of the statement in an envelope, or why it does not open."""
    try:
        payload = open_envelope(json.dumps(envelope).encode(), IN_TOTO, [key])
    except Break as flaw:
        return flaw.reason
    return str(json.loads(payload)["_type"])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("happy-path-intoto-in-dsse-v3", "https://in-toto.io/Statement/v1"),
        ("rekor2-dsse-happy-path", "https://in-toto.io/Statement/v1"),
        ("dsse-invalid-sig_fail", "dsse"),
        ("rekor2-dsse-invalid-sig_fail", "dsse"),
        # Wrong only beside what a log said of them: as envelopes these are well signed.
        ("rekor2-dsse-mismatch-envelope_fail", "https://in-toto.io/Statement/v1"),
        ("rekor2-dsse-mismatch-sig_fail", "https://in-toto.io/Statement/v1"),
    ],
)
def test_real_envelopes(shared: Path, name: str, answer: str) -> None:
    """Envelopes made by others open when their signature holds, and else do not."""
    assert opened(*bundle(shared, name)) == answer


def test_o01_the_payload_of_another_envelope(shared: Path) -> None:
    """O01: the payload of one real envelope under the signature of another does not open."""
    envelope, key = bundle(shared, "happy-path-intoto-in-dsse-v3")
    other, _ = bundle(shared, "dsse-mismatch-envelope_fail")
    assert other["payload"] != envelope["payload"]
    assert opened({**envelope, "payload": other["payload"]}, key) == "dsse"


@pytest.mark.parametrize("name", ["runtimeReceipt", "extendedRuntimeReceipt", "rootAgentReceipt"])
def test_agent_receipts_are_signed_as_published(shared: Path, name: str) -> None:
    """Our canonical form of a published v0.5 receipt has its hash and carries its signature."""
    vectors = json.loads((shared / "vectors/agent-receipts/v050_vectors.json").read_text())
    vector = vectors[name]
    receipt = vector["receipt"]
    proof = receipt.pop("proof")
    told = canonical(receipt).encode()
    assert f"sha256:{sha256(told).hexdigest()}" == vector["expectedReceiptHash"]
    public = load_pem_public_key(vectors["keys"]["publicKey"].encode())
    key = VerifyKey("published", public.public_bytes_raw())  # type: ignore[union-attr]  # Ed25519
    signature = urlsafe_b64decode(proof["proofValue"][1:] + "==")
    assert key.accepts(told, signature)
    assert not key.accepts(told + b" ", signature)


def test_canonical_texts_of_agent_receipts(shared: Path) -> None:
    """What the data model takes is written as published; the rest is refused, never altered."""
    path = shared / "vectors/agent-receipts/canonicalization_vectors.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["canonicalization_vectors"]
    taken = 0
    for each in rows:
        try:
            text = encode_data({"x": each["input"]})
        except RecordError:
            continue
        taken += 1
        assert text == f'{{"x":{each["canonical"]}}}', each["name"]
    assert taken >= 15


def test_the_chain_hash_of_trails(shared: Path) -> None:
    """Records of a published trail have its chain hashes; one with a float is refused, not bent."""
    folder = shared / "vectors/aat/draft-06-aat-mcp"
    records = [json.loads(line) for line in (folder / "trail.jsonl").read_text().splitlines()]
    wanted = [each["chain_hash"] for each in json.loads((folder / "expected.json").read_text())]
    outside = []
    for n, (record, chain_hash) in enumerate(zip(records, wanted, strict=True)):
        try:
            told = encode_data(record)
        except RecordError:
            outside.append(n)
            continue
        assert sha256(told.encode()).hexdigest() == chain_hash
    assert (len(records), outside) == (5, [1])
