"""
Measure what starting costs: imports, and one hook call as a whole process.

Every figure is a ratio to a bare interpreter that was started in turn with it, so that load on
the machine falls on both.
"""

from __future__ import annotations

import json
import re
import shlex
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
PAYLOAD = b'{"tool_name":"Read","tool_input":{"file_path":"/tmp/a"},"tool_use_id":"t"}'


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
    """Return the wall time of one whole process that has nothing to say, in milliseconds."""
    started = time.perf_counter()
    done = subprocess.run(command, input=stdin, capture_output=True, check=True)
    took_ms = (time.perf_counter() - started) * 1000
    if done.stdout or done.stderr:
        raise RuntimeError(f"`{command[0]}` was to say nothing: {done.stdout + done.stderr!r}")
    return took_ms


def many_paths_s(tool: str, count: int) -> float:
    """Return the least wall time of `broker check` on one call with so many paths, in seconds."""
    arguments = {"paths": [f"src/{n}/a" for n in range(count)]}
    row = {"scope": ["paths=src/**", f"tools={tool}"], "tool": tool, "arguments": arguments}
    command = [sys.executable, "-c", "from broker.cli.main import main; main()"]
    command += ["check", "--batch", "-"]
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(
            command, input=json.dumps(row).encode(), stdout=subprocess.DEVNULL, check=True
        )
        best = min(best, time.perf_counter() - started)
    return best


def answer(server: socket.socket) -> None:
    """Answer every hook call with an allow, as a session does that refuses nothing."""
    from broker.service.protocol import ALLOW, frame, receive

    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            receive(peer)
            peer.sendall(frame(ALLOW))


def paired(ours: list[str], bare: list[str]) -> tuple[float, float, float]:
    """Return the medians of two commands that take turns, and the median of their ratios."""
    pairs = [(process_ms(ours, PAYLOAD), process_ms(bare)) for _ in range(ROUNDS)]
    mine, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, floor, statistics.median(a / b for a, b in pairs)


def hook_ratios() -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Measure a hook call by its process, and as the shell command that an agent starts."""
    from broker.agents.claude.hook import NAME
    from broker.agents.client import DEADLINE_MS, compiled_client, hook_command, interpreter

    with tempfile.TemporaryDirectory(prefix="broker-starts-") as folder:
        path = Path(folder) / "s"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen(16)
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        client = compiled_client(Path(folder) / "hook.pyc")
        bare = [interpreter(), "-I", "-S", "-c", "pass"]
        shell = ["/bin/sh", "-c"]
        try:
            process = paired([*client, str(path), NAME, str(DEADLINE_MS)], bare)
            command = paired([*shell, hook_command(client, path, NAME)], [*shell, shlex.join(bare)])
        finally:
            server.close()
    return process, command


def main() -> int:
    """Print the start costs beside their targets."""
    print(f"\n{'start':48}{'measured':>10}{'target':>10}")
    for name, statement, target in (
        ("from broker import authorize, ms", "from broker import authorize", 20),
        ("import broker, ms", "import broker", 3),
    ):
        value = import_ms(statement)
        print(f"{name:48}{value:>10.1f}{target:>10}{'' if value <= target else '   over'}")
    for tool, known in (("read_many", "a known"), ("novel", "an unknown")):
        for count in (10_000, 100_000):
            value = many_paths_s(tool, count)
            mark = "" if value <= 1 else "   over"
            name = f"a check of {count:,} paths of {known} tool, s"
            print(f"{name:48}{value:>10.2f}{1:>10}{mark}")
    names = ("a hook call, x a bare interpreter", "the same, both started by a shell")
    for name, (ours, floor, ratio) in zip(names, hook_ratios(), strict=True):
        mark = "" if ratio <= 1.25 else "   over"
        print(f"{name:48}{ratio:>10.2f}{1.25:>10}{mark}")
        print(f"{'':4}{ours:.1f} ms against {floor:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
