"""The one reason that is given for an authentic line that is not the next one."""

from __future__ import annotations

import pytest

from broker.receipt.entry import encode_data, format_at
from broker.receipt.faults import fault_of
from tests.receiptkit import AT

WANTED = (("sid", "s1"), ("kid", "k"), ("n", 4), ("prev", "p"))
GOOD = {"at": format_at(AT), "data": {}, "kid": "k", "kind": "odd", "n": 4, "prev": "p",
        "sid": "s1", "sig": "t"}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "kind"),
        ({"prev": "q"}, "prev"),
        ({"prev": "q", "n": 5}, "seq"),
        ({"prev": "q", "n": 5, "kid": "l"}, "kid"),
        ({"prev": "q", "n": 5, "kid": "l", "sid": "s2"}, "sid"),
        ({"sid": "s2", "at": "now"}, "schema"),
        ({"sid": "s2", "at": "now", "n": True}, "schema"),
        ({"more": 1}, "schema"),
    ],
)
def test_the_first_reason_counts(change: dict[str, object], reason: str) -> None:
    """Of several faults the first in the order of the format is named."""
    assert fault_of(encode_data({**GOOD, **change}).encode(), WANTED)[0] == reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"\xff", "encoding"), (b"{", "json"), (b"[]", "schema"), (b'{"a":1.5}', "number")],
)
def test_what_is_no_object(line: bytes, reason: str) -> None:
    """Bytes come before JSON, and JSON before what it says."""
    assert fault_of(line, WANTED)[0] == reason
