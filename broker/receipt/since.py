"""
Where a verification came to, kept by a verifier so that the next one may begin there.

Decided here: what is kept, how it is authenticated, and when it may be relied on. Not decided
here: how lines are verified from there on (``inspection``).

The file is one line of canonical JSON with a tag under the verifier's own key and a label of its
own, bound to the session. It is the verifier's memory, not evidence: whoever can write it and has
no key can only make the next verification a whole one.

What a verification from the middle shows is that the file still has, at the place where the last
one ended, the line that stood there then; and that everything after it is right. The lines before
are trusted as of the last whole pass, and the verdict says so.

Rule a maintainer keeps: where anything about a kept state is unusual, all lines are verified, and
what the state knows of them is demanded.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from broker.limits import MAX_LINE_BYTES
from broker.receipt import disk
from broker.receipt.chain import TAIL_BYTES, State
from broker.receipt.demand import LEVELS, Level
from broker.receipt.entry import canonical, format_at, parse_at
from broker.receipt.evidence import Opened, unreadable
from broker.receipt.keys import Key

LABEL: Final = "receipt/1 since"
_MAX_BYTES: Final = 65_536  # of the file; a state has a few thousand


@dataclass(frozen=True, slots=True)
class Since:
    """
    A state that was verified.

    Args:
        state: where the chain stood.
        promise: what the open line promises.
        full_at: when every line up to some point was last verified in one pass, in nanoseconds.
        covered: the checkpoint that was verified: lines, root in hex, and where those lines end
            in the file; 0 without one.
        met: what others said of these lines and was found so: how many, and the last one's hash.
    """

    state: State
    promise: Level
    full_at: int
    covered: tuple[int, str, int] = (0, "", 0)
    met: tuple[tuple[int, str], ...] = ()


def load_since(path: Path, sid: str, key: Key) -> Since | None:
    """
    Read what the verifier kept of a session; None where it is not of this session and key.

    Raises:
        UnverifiableError: the file is unsafe; or missing, with code ``unverifiable.missing``.
    """
    fd = disk.open_checked(path, "state", forbidden=disk.OTHERS_WRITE)
    try:
        content = os.read(fd, _MAX_BYTES + 1)
    except OSError as error:
        raise unreadable("state", path, error) from error
    finally:
        os.close(fd)
    line = content.removesuffix(b"\n")
    body = line[:-TAIL_BYTES] + b"}"
    tag = key.mac(LABEL, sid).tag(body).encode()
    if not compare_digest(line[len(body) - 1 :], b',"tag":"' + tag + b'"}'):
        return None
    return _read(body)


def _read(body: bytes) -> Since | None:
    """Return what an authentic body says; None where another version wrote it."""
    try:
        fields = json.loads(body)
        lines, root, end = fields["covered"]
        found = Since(
            State.read(canonical(fields["state"]).encode()),
            next(level for level in LEVELS if level == fields["promise"]),
            parse_at(fields["full_at"]),
            (lines, root, end),
            tuple((n, last) for n, last in fields["met"]),
        )
    except (KeyError, TypeError, ValueError, StopIteration):
        return None
    return found


def save_since(path: Path, sid: str, key: Key, since: Since) -> None:
    """
    Keep what was verified, whole or not at all, for the owner alone.

    Raises:
        OSError: it cannot be written.
    """
    body = canonical(
        {
            "covered": list(since.covered),
            "met": [list(each) for each in since.met],
            "full_at": format_at(since.full_at),
            "promise": since.promise,
            "state": json.loads(since.state.spelled()),
        }
    )
    tag = key.mac(LABEL, sid).tag(body.encode())
    disk.DISK.replace(path, f'{body[:-1]},"tag":"{tag}"}}\n'.encode())


def fits(since: Since, files: Opened) -> bool:
    """
    Whether a verification may begin where the last one ended.

    The file must still have that line at that place. Head and checkpoint must not speak of less,
    unless it is the very checkpoint that was verified then.

    Raises:
        OSError: the file cannot be read.
    """
    state, slots, checkpoint = since.state, files.slots, files.checkpoint
    if slots is not None and slots.head.n + slots.torn < state.n:
        return False
    if slots is not None and slots.head.n == state.n and slots.head.last != state.last:
        return False
    if checkpoint is not None and checkpoint.size < state.n:
        if (checkpoint.size, checkpoint.root.hex()) != since.covered[:2]:
            return False
    return 0 < state.size <= files.size and _line_before(files.fd, state.size) == state.last


def stood(n: int, last: str, root: bytes, since: Since, now: bytes) -> bool:
    """
    Whether what somebody says of the first ``n`` lines is known from the verification before.

    Args:
        n: how many lines, not more than were verified.
        last: the hash of the last of them, or empty.
        root: their Merkle root, or empty.
        since: what was kept.
        now: the root of all lines that were verified.
    """
    if n == since.state.n:
        return last in ("", since.state.last) and root in (b"", now)
    if root:
        return (n, root.hex()) == since.covered[:2]
    return (n, last) in since.met


def _line_before(fd: int, end: int) -> str:
    """Return the hash of the line that ends at a place; empty where none does."""
    start = max(0, end - MAX_LINE_BYTES - 2)
    content = os.pread(fd, end - start, start)
    if not content.endswith(b"\n"):
        return ""
    return sha256(content[:-1].rpartition(b"\n")[2]).hexdigest()
