"""
The process that takes snapshots: ``python -m broker.capture.snapper``.

It is one of its own because a walk through a large workspace takes the interpreter for itself, and
the bytes that a model streams to its agent would wait for it.

Decided here: what is asked of it and what it answers, each as one line of JSON. Not decided here:
when a snapshot is taken and what is written of it (``broker.capture.snapshots``).

The first line says what to look at: ``root``, ``store``, ``closed``, ``git``, ``salt``. Each line
after that asks for one snapshot: ``message`` and ``at_s``. An answer holds ``tree``, ``files``,
``left_out``, ``hidden``, ``torn``, ``empty_folders``, ``took_ms`` and ``changes``; or ``error``,
and then nothing follows. It ends when nobody asks any more.

Rules a maintainer keeps: nothing is written but into the store; standard output is the answers'.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Final

from broker.capture.gathering import Gatherer
from broker.capture.ignoring import Ignoring
from broker.capture.treestore import EMPTY, Change, TreeStore
from broker.capture.withheld import told
from broker.errors import TraceError

MAX_CHANGES: Final = 500  # changed files of one turn that are told one by one
MAX_FOLDERS: Final = 256  # empty ones, which are told by their names
_NICE: Final = 5  # behind whoever does the work that is recorded


class Snapper:
    """
    Takes snapshots of one workspace, for one who asks by lines.

    Args:
        order: what to look at; see the module.

    Raises:
        TraceError: there can be no store.
    """

    def __init__(self, order: Mapping[str, object]) -> None:
        root = os.fsencode(str(order["root"]))
        git, store = str(order["git"]), Path(str(order["store"]))
        closed = order["closed"]
        assert isinstance(closed, list)  # noqa: S101 - our own process wrote it
        self._store = TreeStore(store, git)
        self._ignoring = Ignoring(git, store, root)
        self._gatherer = Gatherer(
            root,
            closed=[os.fsencode(str(place)) for place in closed],
            ignored=self._ignoring.ignored,
            again=self._ignoring.again,
            keep=self._store.blob,
            salt=bytes.fromhex(str(order["salt"])),
        )
        self._tree = EMPTY
        self._first = True

    def take(self, message: str, at_s: int) -> dict[str, object]:
        """
        Take a snapshot, and return what is told of it.

        Args:
            message: what a person reads of it.
            at_s: the instant, in seconds since 1970.

        Raises:
            TraceError: it cannot be kept.
        """
        began = time.monotonic()
        look = self._gatherer.look()
        before = self._tree
        changed = look.entries
        if changed:
            self._tree = self._store.tree(changed, at_s, message)
        took_ms = int((time.monotonic() - began) * 1000)
        found: list[Change] = []
        first, self._first = self._first, False
        if changed and not first and len(changed) <= MAX_CHANGES:
            found = self._store.changes(before, self._tree)
        return {
            "tree": self._tree,
            "files": look.files,
            "left_out": dict(sorted(look.left_out.items())),
            "ignores": self._ignoring.able,
            "hidden": look.hidden,
            "torn": look.torn,
            "empty_folders": _folders(look.empty),
            "took_ms": took_ms,
            "changed": 0 if first else len(changed),
            "changes": [_told(change) for change in found],
        }

    def close(self) -> None:
        """Bring the store to its end."""
        self._ignoring.close()
        self._store.close()


def _folders(paths: Iterable[bytes]) -> list[str]:
    """Return the names of folders that can be told, and not too many of them."""
    names = (os.fsdecode(path) for path in paths)
    return list(islice(filter(told, names), MAX_FOLDERS))


def _told(change: Change) -> dict[str, object]:
    return {
        "path": change.path.decode("utf-8", "backslashreplace"),
        "status": change.status,
        "insertions": change.insertions,
        "deletions": change.deletions,
        "diff": change.diff.decode("utf-8", "replace"),
    }


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until nobody asks any more, or until it cannot be done."""

    def answer(found: Mapping[str, object]) -> None:
        answers.write(json.dumps(found, separators=(",", ":")).encode() + b"\n")
        answers.flush()

    snapper = None
    try:
        snapper = Snapper(json.loads(asked.readline()))
        for line in asked:
            wish = json.loads(line)
            answer(snapper.take(wish["message"], wish["at_s"]))
    except TraceError as error:
        answer({"error": str(error)})
    finally:
        if snapper is not None:
            snapper.close()


if __name__ == "__main__":
    os.umask(0o077)
    with suppress(OSError):
        os.nice(_NICE)
    gc.disable()  # fifty thousand entries, and no cycle among them
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)
