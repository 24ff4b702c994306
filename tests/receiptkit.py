"""Receipts to attack: a home, a key, three sessions, and a forger who holds the key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from broker.errors import Break, BrokerError
from broker.home import Home
from broker.receipt.chain import genesis
from broker.receipt.disk import DISK, Disk
from broker.receipt.entry import canonical
from broker.receipt.form import RECEIPT
from broker.receipt.keys import Key
from broker.receipt.store import Receipts
from broker.receipt.verify import Verdict, verify
from broker.receipt.writer import Receipt

AT = 1_796_025_600_000_000_000  # 2026-11-30T08:00:00Z
SECOND = 1_000_000_000
KEY = Key.of(bytes(range(32)))


def decision(number: int, **more: object) -> dict[str, object]:
    """Return plausible data of a decision."""
    return {
        "actor": "main",
        "call": f"call-{number}",
        "decision": "allow" if number % 3 else "refuse",
        "enforcement": "gate",
        "subjects": ["src/café.py"],
        "tool": "Read",
        **more,
    }


def new_receipts(place: Path, system: Disk = DISK) -> Receipts:
    """Return the receipts of a fresh home under ``place``."""
    return Receipts(Home.find({"BROKER_HOME": str(place)}), KEY, system=system)


def fill(receipts: Receipts, sid: str, decisions: int) -> Receipt:
    """Begin a session and append ``decisions`` lines after the open line."""
    receipt = receipts.create(sid, opening={"agent": "claude-code"}, at=AT)
    for i in range(decisions):
        receipt.append("decision", decision(i), at=AT + i * SECOND)
    return receipt


def tampered_tag(line: bytes) -> bytes:
    """Return the line with another digit in its tag."""
    return line[:-3] + (b"0" if line[-3:-2] != b"0" else b"1") + line[-2:]


def signed(body: bytes, sid: str, key: Key = KEY) -> bytes:
    """Tag a body of any form, as only a holder of the key can."""
    tag = key.mac(RECEIPT.line_label, sid).tag(body).encode()
    return body[:-1] + b',"sig":"' + tag + b'"}'


def body_of(line: bytes) -> bytes:
    """Return what the tag of a line covers."""
    return line[:-74] + b"}"


def rechained(
    lines: Iterable[bytes], sid: str, change: Callable[[int, dict[str, Any]], None]
) -> list[bytes]:
    """Change lines as a holder of the key, and number, link and tag all of them afresh."""
    made: list[bytes] = []
    last = genesis(sid)
    for n, line in enumerate(lines):
        fields = json.loads(body_of(line))
        fields.update(n=n, prev=last, sid=sid)
        change(n, fields)
        made.append(signed(canonical(fields).encode(), sid))
        last = sha256(made[-1]).hexdigest()
    return made


@dataclass
class Scene:
    """Three sessions: ``s1`` is sealed and has 12 lines, ``s2`` and ``s3`` are open with 11."""

    receipts: Receipts
    key: Key = KEY

    @classmethod
    def at(cls, place: Path) -> Scene:
        """Set the scene under a folder."""
        receipts = new_receipts(place)
        for sid in ("s1", "s2", "s3"):
            receipt = fill(receipts, sid, 10)
            if sid == "s1":
                receipt.seal("complete", at=AT + 60 * SECOND)
            receipt.close()
        return cls(receipts)

    def path(self, sid: str) -> Path:
        return self.receipts.path(sid)

    def head(self, sid: str) -> Path:
        return self.receipts.head_path(sid)

    def content(self, sid: str) -> bytes:
        return self.path(sid).read_bytes()

    def lines(self, sid: str) -> list[bytes]:
        return self.content(sid).split(b"\n")[:-1]

    def put(self, sid: str, lines: Iterable[bytes]) -> None:
        """Write a receipt anew, in place."""
        self.path(sid).write_bytes(b"".join(line + b"\n" for line in lines))

    def resigned(self, sid: str, n: int, change: Callable[[bytes], bytes]) -> None:
        """Change the raw body of line ``n`` as a holder of the key; its neighbours stay."""
        lines = self.lines(sid)
        lines[n] = signed(change(body_of(lines[n])), sid)
        self.put(sid, lines)

    def verify(self, sid: str, *, head: bool = True, now: int | None = None) -> Verdict:
        place = self.head(sid) if head else None
        return verify(self.path(sid), key=self.key, head=place, sid=sid, now=now)

    def outcome(self, sid: str, *, head: bool = True) -> str:
        """Return the state, or the reason of the break, or the code of the error."""
        return outcome(lambda: self.verify(sid, head=head).state)


def outcome(act: Callable[[], object]) -> str:
    """Return what an act answers, as one word: a state, a reason or a code."""
    try:
        return str(act())
    except Break as error:
        return error.reason
    except BrokerError as error:
        return error.code


@dataclass
class Faults:
    """
    A disk that fails once: at the ``at``-th call (from 0), it does ``act`` instead.

    ``act`` gets the call's name, the real call and its arguments. ``calls`` lists what was
    called, so that a test can see the order, and that nothing was called after a failure.
    """

    at: int = -1
    act: Callable[..., Any] | None = None
    only: str = ""  # count calls of this name only

    def __post_init__(self) -> None:
        self.calls: list[str] = []

    def disk(self) -> Disk:
        return Disk(
            write=self._through("write", DISK.write),
            pwrite=self._through("pwrite", DISK.pwrite),
            truncate=self._through("truncate", DISK.truncate),
            sync=self._through("sync", DISK.sync),
        )

    def _through(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counted = [each for each in self.calls if each == name or not self.only]
            self.calls.append(name)
            if self.act and len(counted) == self.at and self.only in ("", name):
                return self.act(name, real, *arguments)
            return real(*arguments)

        return call


def failing(number: int) -> Callable[..., Any]:
    """Return an act that raises an error of the system."""

    def act(name: str, real: Callable[..., Any], *arguments: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return act


def short(name: str, real: Callable[..., Any], fd: int, content: bytes, *place: int) -> int:
    """Write only half of what was asked for, as a full disk does."""
    return int(real(fd, content[: len(content) // 2], *place))


def in_child(act: Callable[[], None]) -> int:
    """Run an act in a forked child and return how it ended (negative: the killing signal)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
