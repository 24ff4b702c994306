"""Checkpoints: published ones, whose they are, and their file."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, UnverifiableError
from broker.limits import MAX_NOTE_BYTES
from broker.receipt.checkpoint import (
    OF_LEDGER,
    Checkpoint,
    of_receipt,
    open_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from broker.receipt.note import open_note, sign_note
from broker.receipt.signing import SigningKey, VerifyKey

KEY = SigningKey.of(bytes(range(32)))
OTHER = SigningKey.of(bytes(range(1, 33)))
ROOT = bytes(range(32, 64))
NOTE = sign_checkpoint(KEY, of_receipt("s1"), 12, ROOT)


def reason(content: bytes, key: VerifyKey = KEY.public, of: str = of_receipt("s1")) -> str:
    """Return why a checkpoint is refused, or nothing."""
    try:
        open_checkpoint(content, [key], of)
    except Break as error:
        return error.reason
    return ""


def test_published_bodies(shared: Path) -> None:
    """All fourteen published texts are read or refused as published."""
    cases = json.loads((shared / "vectors/c2sp-checkpoint/checkpoints.json").read_text())
    assert len(cases) == 14
    for case in cases:
        try:
            found = Checkpoint.parse(case["body"])
        except Break as error:
            assert (error.reason, case["want"]) == ("checkpoint_format", "reject"), case["name"]
        else:
            wanted = (case["origin"], case["size"], case["rest"])
            assert (found.origin, found.size, found.extension) == wanted
            assert found.text() == case["body"]


def test_published_notes(shared: Path) -> None:
    """The published examples, whose keys are not published, have the form and are not believed."""
    folder = shared / "vectors/c2sp-checkpoint"
    for name in ("example_checkpoint.note", "example_cosigned_checkpoint.note"):
        note = (folder / name).read_bytes().rstrip(b"\n") + b"\n"
        with pytest.raises(Break) as caught:
            open_note(note, [KEY.public])
        assert caught.value.reason == "checkpoint_sig"


def test_checkpoints_of_a_public_log(shared: Path) -> None:
    """The checkpoints of two entries of a public log verify, though witnesses signed too."""
    entries = public_entries(shared)
    assert len(entries) == 2
    for log, entry in entries:
        checkpoint = entry["inclusionProof"]["checkpoint"]["envelope"].encode()
        found = Checkpoint.parse(open_note(checkpoint, [log]).text)
        assert (found.origin, str(found.size)) == (log.name, entry["inclusionProof"]["treeSize"])
        assert b64encode(found.root).decode() == entry["inclusionProof"]["rootHash"]


def public_entries(shared: Path) -> list[tuple[VerifyKey, dict[str, Any]]]:
    """Return entries of a public log, each with the log's key."""
    folder = shared / "vectors/sigstore-bundles/sigstore-python"
    logs = json.loads((folder / "trusted_root.staging.json").read_text())["tlogs"]
    keys = {
        log["logId"]["keyId"]: VerifyKey(
            log["baseUrl"].removeprefix("https://"), b64decode(log["publicKey"]["rawBytes"])[-32:]
        )
        for log in logs
        if log["publicKey"]["keyDetails"] == "PKIX_ED25519"
    }
    bundles = [json.loads(path.read_text()) for path in sorted(folder.glob("*.sigstore.json"))]
    entries = [e for b in bundles for e in b["verificationMaterial"]["tlogEntries"]]
    return [(keys[entry["logId"]["keyId"]], entry) for entry in entries]


@given(st.integers(0, 2**53), st.binary(min_size=32, max_size=32))
def test_what_is_signed_opens(size: int, root: bytes) -> None:
    """Size and root come back as they were signed, under the key's own origin."""
    note = sign_checkpoint(KEY, OF_LEDGER, size, root)
    found = open_checkpoint(note, [OTHER.public, KEY.public], OF_LEDGER)
    assert found == Checkpoint(f"{KEY.name}/ledger", size, root)


def test_the_bytes_of_a_checkpoint_are_pinned() -> None:
    """The form never changes: text, name and signature of a fixed key are these."""
    assert NOTE.decode() == PINNED


PINNED = """\
capability-broker/56475aa75463474c/receipt/s1
12
ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=

— capability-broker/56475aa75463474c \
CzYeQmxySktMNDI9tY5eu1FJRn8b0svZvoKB/vPLbo6VAdK3OFcr/hOCyh5WhNmEnFPYznXhcCKu9thKpiz5P23CCwI=
"""


def test_a_checkpoint_speaks_of_one_chain() -> None:
    """A genuine checkpoint of another session, of the ledger or of another key is refused."""
    assert reason(NOTE) == ""
    assert reason(NOTE, of=of_receipt("s2")) == "checkpoint_origin"
    assert reason(NOTE, of=OF_LEDGER) == "checkpoint_origin"
    assert reason(NOTE, key=OTHER.public) == "checkpoint_sig"


def test_an_origin_belongs_to_the_key_that_signed() -> None:
    """One believed key cannot speak in the name of another."""
    text = Checkpoint(f"{KEY.name}/receipt/s1", 12, ROOT).text()
    with pytest.raises(Break) as caught:
        open_checkpoint(sign_note(text, OTHER), [KEY.public, OTHER.public], of_receipt("s1"))
    assert caught.value.reason == "checkpoint_origin"


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY.name}/receipt/s1\n012\n{'A' * 43}=\n",
        f"{KEY.name}/receipt/s1\n12\n{'A' * 42}B=\n",
        f"{KEY.name}/receipt/s1\n12\nAAAA\n",
        f"{KEY.name}/receipt/s1\n12\n{'A' * 43}=\nmore\n",
        f"{KEY.name}/receipt/s1\n12\n{'A' * 43}=\n\n",
        f"{KEY.name}/receipt/s1\n١٢\n{'A' * 43}=\n",
        f"{KEY.name}/receipt/s1\n12\n",
        f"{KEY.name}/receipt/s1\n+12\n{'A' * 43}=\n",
        f"{KEY.name}/receipt/s1\n{2**64}\n{'A' * 43}=\n",
    ],
)
def test_a_signed_text_has_one_form(text: str) -> None:
    """Even the key itself signs nothing that reads as a checkpoint in two ways."""
    assert reason(sign_note(text, KEY)) == "checkpoint_format"


def test_the_file_is_read_with_care(tmp_path: Path) -> None:
    """A missing, linked or shared file is refused; one that is too long is no note."""
    path = tmp_path / "s1"
    with pytest.raises(UnverifiableError) as caught:
        read_checkpoint(path)
    assert caught.value.code == "unverifiable.missing"
    path.write_bytes(NOTE)
    assert read_checkpoint(path) == NOTE
    path.chmod(0o620)
    with pytest.raises(UnverifiableError, match="chmod"):
        read_checkpoint(path)
    path.chmod(0o600)
    os.symlink(path, tmp_path / "link")
    with pytest.raises(UnverifiableError, match="is a link"):
        read_checkpoint(tmp_path / "link")
    path.write_bytes(NOTE * MAX_NOTE_BYTES)
    assert len(read_checkpoint(path)) == MAX_NOTE_BYTES + 1
    assert reason(read_checkpoint(path)) == "checkpoint_format"
