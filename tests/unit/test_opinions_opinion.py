"""What an opinion said is kept as digests that nobody can mistake for another's."""

from __future__ import annotations

import hashlib

from broker.opinions.opinion import digest


def test_a_digest_tells_parts_apart() -> None:
    """Two texts and their concatenation have different digests."""
    assert digest([b"a", b"b"]) == hashlib.sha256(b"a\nb\n").hexdigest()
    assert digest([b"ab"]) != digest([b"a", b"b"])
