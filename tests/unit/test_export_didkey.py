"""A public key is named as others name it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.export.didkey import did_key

# The public keys of RFC 8032's first and third test, and their names.
KNOWN = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw",
    ),
]


@pytest.mark.parametrize(("public", "did"), KNOWN)
def test_a_known_key(public: str, did: str) -> None:
    """A published key has its published name."""
    assert did_key(bytes.fromhex(public)) == did


def test_the_published_vectors(shared: Path) -> None:
    """All published names come out."""
    vectors = json.loads((shared / "vectors/agent-receipts/did-key/vectors.json").read_text())
    pairs = [(each["public_key_hex"], each["did"]) for each in vectors["vectors"]]
    assert len(pairs) >= 3
    assert all(did_key(bytes.fromhex(public)) == did for public, did in pairs)
