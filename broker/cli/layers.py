"""
What `broker doctor` says of the recording: which of its layers work on this machine.

Decided here: the words, and that each layer is tried by doing once what a run does all the time.
Not decided here: what the layers are (``broker.capture``). Nothing of this keeps the broker from
running, so nothing of it is ``bad``: a run without a layer says so and goes on.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from broker.cli.probes import Finding
from broker.errors import BrokerError

_DEADLINE_S: Final = 20
_TRIED_CODE: Final = 3


def layers() -> Iterator[Finding]:
    """Yield what each layer of a recording needs, tried out in a folder that goes again."""
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        place = Path(folder)
        yield _tried("models", "an agent can ask its model through this machine", _loopback)
        yield _tried(
            "shells", "a shell can be recorded, and ends as it would", lambda: _shell(place)
        )
        yield _tried("snapshots", "trees of files can be kept, by git", lambda: _snapshot(place))


def _tried(name: str, good: str, work: Callable[[], str]) -> Finding:
    try:
        why = work()
    except (OSError, BrokerError, subprocess.SubprocessError) as error:
        why = str(error)
    if why:
        return Finding(name, "note", f"not recorded here: {why}")
    return Finding(name, "ok", good)


def _loopback() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), _DEADLINE_S):
            return ""


def _shell(place: Path) -> str:
    """Run a shell through its shim, and hear what it tells."""
    from broker.capture.door import read_frame
    from broker.capture.shims import Shims
    from broker.service.client import RECORDER_VARIABLE

    shims = Shims(place, os.environ)
    shims.make()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(place / "door"))
        listener.listen(1)
        listener.settimeout(_DEADLINE_S)
        environ = {**os.environ, **shims.environ(), RECORDER_VARIABLE: os.fspath(place / "door")}
        ended = subprocess.run(
            [os.fspath(shims.folder / "sh"), "-c", f"exit {_TRIED_CODE}"],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            told = [frame[0].get("kind") for frame in iter(lambda: read_frame(stream), None)]
    if ended.returncode != _TRIED_CODE:
        return f"a shell that ends with {_TRIED_CODE} ended with {ended.returncode}"
    return "" if told == ["shell.exec", "shell.result"] else "a shell told nothing of itself"


def _snapshot(place: Path) -> str:
    from broker.capture.treestore import TreeEntry, TreeStore, git_program

    git = git_program()
    if git is None:
        return "there is no `git`: install it"
    store = TreeStore(place / "fs", git)
    try:
        store.tree([TreeEntry(b"f", "100644", store.blob(b"tried\n"))], 0, "tried")
    finally:
        store.close()
    return ""
