"""
Measure what starting costs: imports, and one hook call as a whole process.

Every figure is a ratio to a bare interpreter that was started in turn with it, so that load on
the machine falls on both.
"""

from __future__ import annotations

import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 60
ALLOW = b"answer/1 allow\n"


def import_ms(statement: str) -> float:
    """Return the least cumulative import time of ``statement`` beyond the interpreter's own."""
    best = float("inf")
    for _ in range(7):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", statement],
            capture_output=True,
            text=True,
            check=True,
        )
        total, past_site = 0, False
        for line in done.stderr.splitlines():
            found = re.match(r"import time:\s+\d+ \|\s+(\d+) \| (\s*)(\S+)", line)
            if found and not found.group(2):
                if past_site:
                    total += int(found.group(1))
                past_site = past_site or found.group(3) == "site"
        best = min(best, total / 1000)
    return best


def process_ms(command: list[str], stdin: bytes = b"") -> float:
    """Return the wall time of one whole process, in milliseconds."""
    started = time.perf_counter()
    subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


def answer(server: socket.socket) -> None:
    """Answer every hook call with an allow, as a session does that refuses nothing."""
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            size = int.from_bytes(peer.recv(4), "big")
            while size > 0:
                size -= len(peer.recv(65536))
            peer.sendall(len(ALLOW).to_bytes(4, "big") + ALLOW)


def hook_ratio() -> tuple[float, float, float]:
    """Return the medians of a hook call and a bare interpreter, and their paired ratio."""
    from broker.agents.claude_launch import DEADLINE_MS, NAME, compiled_client

    folder = tempfile.TemporaryDirectory(prefix="broker-starts-")
    path = str(Path(folder.name) / "s")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(16)
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    payload = b'{"tool_name":"Read","tool_input":{"file_path":"/tmp/a"},"tool_use_id":"t"}'
    client = compiled_client(Path(folder.name) / "hook.pyc")
    hook = [*client, path, NAME, str(DEADLINE_MS)]
    bare = [client[0], "-I", "-S", "-c", "pass"]
    pairs = []
    for _ in range(ROUNDS):
        pairs.append((process_ms(hook, payload), process_ms(bare)))
    server.close()
    folder.cleanup()
    ours, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    return ours, floor, statistics.median(a / b for a, b in pairs)


def main() -> int:
    """Print the start costs beside their targets."""
    print(f"\n{'start':48}{'measured':>10}{'target':>10}")
    for name, statement, target in (
        ("from broker import authorize, ms", "from broker import authorize", 20),
        ("import broker, ms", "import broker", 3),
    ):
        value = import_ms(statement)
        print(f"{name:48}{value:>10.1f}{target:>10}{'' if value <= target else '   over'}")
    ours, floor, ratio = hook_ratio()
    mark = "" if ratio <= 1.25 else "   over"
    print(f"{'a hook call, x a bare interpreter':48}{ratio:>10.2f}{1.25:>10}{mark}")
    print(f"{'':4}{ours:.1f} ms against {floor:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
