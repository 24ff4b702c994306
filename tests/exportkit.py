"""A session with an entry of every kind to export, and the lines it comes to."""

from __future__ import annotations

from pathlib import Path

from broker.export.source import Line, Source
from broker.home import Home
from broker.receipt.disk import Disk
from broker.receipt.evidence import Evidence
from broker.receipt.keys import load_or_create_key
from broker.receipt.signing import SigningKey, load_or_create_signing_key
from broker.receipt.store import Receipts
from tests.receiptkit import AT, SECOND

SIGNER = SigningKey.of(bytes(range(32)))
SID = "abc1"

EVIL = '=HYPERLINK("http://evil.example"; "x")\x1b]0;owned\x07\u202e\x9b2J'

ENTRIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("intent", {"line": "tidy up; =1+1", "digest": "ab" * 32}),
    ("ticket", {"ticket": "t1", "caveats": ["tools=read_file", "calls=3"], "chain": ["x"]}),
    (
        "decision",
        {
            "actor": "main",
            "args": "cd" * 32,
            "call": "c1",
            "decision": "allow",
            "enforcement": "gate",
            "subjects": [{"access": "read", "path": "src/café.py"}],
            "ticket": "t1",
            "tool": "read_file",
        },
    ),
    ("result", {"call": "c1", "ok": True, "output": "ef" * 32}),
    (
        "decision",
        {
            "actor": "helper",
            "args": "01" * 32,
            "call": "c2",
            "caveat": "tools",
            "decision": "refuse",
            "enforcement": "gate",
            "reason": EVIL,
            "server": "@files",
            "subjects": [{"command": "rm -rf /"}, {"more": 3}],
            "ticket": "t1",
            "tool": "shell",
            "value": "read_file",
        },
    ),
    ("delegate", {"decision": "allow", "asked_by": "main", "ticket": "t2", "caveats": ["calls=1"]}),
    (
        "decision",
        {
            "actor": "main",
            "call": "c3",
            "decision": "allow",
            "enforcement": "none",
            "subjects": [{"access": "write", "path": "src/a.py"}, {"access": "read", "path": "b"}],
            "ticket": "t2",
            "tool": "edit",
        },
    ),
    ("permission", {"call": "c3", "answer": "refuse", "reason": "the person said no"}),
    ("note", {"source": "agent", "text": "+cmd|' /C calc'!A0"}),
    ("dropped", {"count": 2}),
)
LINES = len(ENTRIES) + 2  # with the open line and the seal


def home_at(place: Path) -> Home:
    """Return the home under a folder."""
    return Home.find({"BROKER_HOME": str(place)})


def signer_of(home: Home) -> SigningKey:
    """Return the signing key of a home, made where there is none."""
    return load_or_create_signing_key(home.keys / "signing.key")


def session(home: Home, sid: str = SID, *, seal: str | None = "complete", more: int = 0) -> Path:
    """Write a session with every kind of entry, and ``more`` allowed calls, and return its path."""
    # Nobody pulls the plug on these: they are not synced, which is what takes the time.
    unsynced = Disk(sync=lambda fd: None)
    receipts = Receipts(home, load_or_create_key(home.keys / "receipt.key"), system=unsynced)
    opening = {"agent": "claude-code", "workspace": "/ws", "writer": "capability-broker 0.1.0"}
    receipt = receipts.create(sid, opening=opening, at=AT)
    for i, (kind, data) in enumerate((*ENTRIES, *([ENTRIES[2]] * more))):
        receipt.append(kind, data, at=AT + (i + 1) * SECOND)
    if seal is not None:
        receipt.seal(seal, at=AT + 3_600 * SECOND)
    receipt.close()
    return receipts.path(sid)


def source_of(home: Home, sid: str = SID) -> Source:
    """Return a session as a source."""
    key = load_or_create_key(home.keys / "receipt.key")
    receipts = Receipts(home, key)
    return Source(Evidence(receipts.path(sid), sid, key, receipts.head_path(sid)))


def lines_of(home: Home, sid: str = SID) -> list[Line]:
    """Return the verified lines of a session."""
    return list(source_of(home, sid))
