"""Every attempt of the catalogue, on each engine: it fails, or its gap is said at launch."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import sandboxkit
from tests.sandbox.catalogue import ALL, BY_LANDLOCK, Attempt, lacking
from tests.sessionkit import Bench

pytestmark = pytest.mark.timeout(400)

SECRET = "SECRET-8c1f2a"
SCOPE = ("tools=Bash", "reads=src/**,docs/**", "writes=src/**")
DRIVER = """
import json, os, subprocess, sys
try:
    open(os.environ["WS"] + "/key").close()
except OSError:
    pass
else:
    sys.exit("there are no walls")  # then nothing of this is tried
for name, how, code in json.load(open(sys.argv[1])):
    command = {"sh": ["sh", "-c"], "python": [sys.executable, "-c"], "node": ["node", "-e"]}[how]
    try:
        done = subprocess.run([*command, code], stdin=subprocess.DEVNULL, timeout=12,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout[-2000:].decode("latin-1")
    except subprocess.TimeoutExpired:
        said = "(too slow)"
    except OSError as error:
        said = f"({error})"
    print(json.dumps([name, said]), flush=True)
    sys.stdin.readline()  # until it was looked at
"""
# A person's process: without the rights of root, which alone would keep others away from it.
VICTIM = """
import ctypes, os
for right in range(64):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv("/bin/sleep", ["sleep", "3000"])
"""


class Outside:
    """What lies beyond the walls, and whether somebody got there."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self.ws, self.out = self.bench.workspace, root / "outside"
        self.person = root / "person"
        self.heard: list[str] = []
        self._fill()
        self.tcp = self._listen(socket.AF_INET, ("127.0.0.1", 0), "tcp")
        self.agent = root / "agent.sock"
        self._listen(socket.AF_UNIX, str(self.agent), "")
        self.abstract = f"broker-test-{os.getpid()}-{root.name}"
        self._listen(socket.AF_UNIX, f"\0{self.abstract}", "")
        self.udp = self._datagrams()
        self.web = self._named()
        with (self.out / "secret.txt").open("rb") as stdin:
            self.victim = subprocess.Popen(
                [sys.executable, "-c", VICTIM], stdin=stdin, env={"TOLD": SECRET}, cwd=self.out
            )
        self.shm = self._segment()
        self.key = f"broker-test-{os.getpid()}"
        libc = ctypes.CDLL(None)
        libc.syscall(248, b"user", self.key.encode(), SECRET.encode(), len(SECRET), -3)
        Path("/dev/shm/broker-test-secret").write_text(SECRET)
        self.queue = f"/broker-test-{os.getpid()}"
        libc.mq_open(self.queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        self.before = self.state()

    def _fill(self) -> None:
        for folder in (self.out, self.person / ".ssh", self.person / ".aws", self.ws / "docs"):
            folder.mkdir(parents=True)
        for path in (
            *(self.out / "secret.txt", self.out / "movable.txt", self.ws / "key"),
            *(
                self.person / ".ssh/id_rsa",
                self.person / ".aws/credentials",
                self.person / ".netrc",
            ),
        ):
            path.write_text(SECRET + "\n")
        (self.person / ".bashrc").write_text("mine\n")
        (self.ws / "docs/read.md").write_text("read only\n")
        (self.ws / "src/b.py").write_text("b\n")
        (self.out / "hard.txt").write_text("the same\n")
        os.link(self.out / "hard.txt", self.ws / "src/hard.txt")
        (self.ws / "src/link").symlink_to(self.out / "secret.txt")
        (self.ws / "src/folder").symlink_to(self.out)
        for repo in (self.ws, self.ws / "src/nested", self.out / "repo"):
            repo.mkdir(exist_ok=True)
            subprocess.run(["git", "init", "-q", str(repo)], check=True)
        shutil.copy(self.out / "secret.txt", self.out / "repo")
        git = ["git", "-C", str(self.out / "repo"), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "a"], check=True)

    def _listen(self, family: int, address: Any, name: str) -> int:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(16)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if name:
                    self.heard.append(name)
                with connection, (self.out / "secret.txt").open("rb") as secret:
                    if family == socket.AF_UNIX:
                        try:
                            socket.send_fds(connection, [SECRET.encode()], [secret.fileno()])
                        except OSError:
                            continue

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1] if family == socket.AF_INET else 0

    def _datagrams(self) -> int:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                receiver.recv(99)
                self.heard.append("udp")

        threading.Thread(target=serve, daemon=True).start()
        return int(receiver.getsockname()[1])

    def _named(self) -> int:
        port = self.tcp

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                away = self.path == "/redirect"
                self.send_response(302 if away else 200)
                self.send_header("Location", f"http://127.0.0.1:{port}/")
                self.send_header("Content-Length", "3")
                self.end_headers()
                self.wfile.write(b"ok\n")

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_port)

    def _segment(self) -> int:
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        segment = libc.shmget(0, 4096, 0o1600)
        place = libc.shmat(segment, None, 0)
        ctypes.memmove(place, SECRET.encode(), len(SECRET))
        return int(segment)

    def state(self) -> dict[str, object]:
        """Return what must stay as it is."""
        found: dict[str, object] = {}
        places = [self.ws / "docs", self.ws / ".git", self.ws / "src/nested/.git"]
        places += [self.person, self.out / "hard.txt", self.bench.home.config, self.ws / ".broker"]
        for place in places:
            for path in [place, *sorted(place.rglob("*"))]:
                if path.exists() and path.is_file():
                    stat = path.stat()
                    names = os.listxattr(path)
                    found[str(path)] = (path.read_bytes(), stat.st_mode, stat.st_mtime_ns, names)
        found["entries"] = sorted(p.name for p in self.ws.iterdir())
        return found

    def environ(self) -> dict[str, str]:
        """Return the variables that attempts are told by."""
        return {
            "WS": str(self.ws),
            "OUT": str(self.out),
            "PERSON": str(self.person),
            "HOME": str(self.person),
            "BROKER": str(self.bench.home.state.parent),
            "VICTIM": str(self.victim.pid),
            "PORT": str(self.tcp),
            "NAMED": str(self.web),
            "UDP": str(self.udp),
            "ABSTRACT": self.abstract,
            "AGENT": str(self.agent),
            "SSH_AUTH_SOCK": str(self.agent),
            "SHM": str(self.shm),
            "KEYRING": self.key,
            "QUEUE": self.queue,
            "GIT_TERMINAL_PROMPT": "0",
        }

    def end(self) -> None:
        """Take away what outlives a test."""
        self.victim.kill()
        self.victim.wait()
        ctypes.CDLL(None).shmctl(self.shm, 0, None)
        ctypes.CDLL(None).mq_unlink(self.queue.encode())
        Path("/dev/shm/broker-test-secret").unlink(missing_ok=True)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    """A world beyond the walls."""
    found = Outside(tmp_path)
    yield found
    found.end()


def escaped(outside: Outside, attempt: Attempt, said: str) -> bool:
    """Whether an attempt shows its sign; what it changed is put back."""
    if SECRET in said or "ESCAPED" in said:
        return True
    if attempt.sign == "made":
        made = [p for p in outside.out.iterdir() if p.name.startswith("made-")]
        for path in made:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return bool(made)
    if attempt.sign == "changed":
        now = outside.state()
        changed = now != outside.before
        outside.before = now
        return changed
    if attempt.sign == "gone":
        status = Path(f"/proc/{outside.victim.pid}/status").read_text()
        return "\nState:\tS" not in status
    if attempt.sign == "reached":
        time.sleep(0.02)
        heard, outside.heard[:] = bool(outside.heard), []
        return heard
    return False


def lives(word: str) -> bool:
    """Whether a process with a word in its command line runs."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in place.read_bytes() and b"sleep" in place.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize(
    "engine",
    [
        *sandboxkit.ENGINES,
        *(
            pytest.param(e, marks=pytest.mark.deep)
            for e in ("bubblewrap alone", "landlock without spaces")
        ),
    ],
)
def test_no_attempt_gets_out(outside: Outside, engine: str) -> None:
    """Each attempt fails, or stands in the table of gaps and was said when the run began."""
    sandboxkit.needed(engine)
    hosts = "hosts=none" if engine.endswith("spaces") else f"hosts=127.0.0.1:{outside.web}"
    attempts = outside.ws / "src/attempts.json"
    attempts.write_text(json.dumps([[a.name, a.how, a.whole] for a in ALL]))
    (outside.ws / "src/driver.py").write_text(DRIVER)
    outside.before = outside.state()
    process = sandboxkit.start(
        outside.bench,
        [sys.executable, "src/driver.py", "src/attempts.json"],
        *SCOPE,
        hosts,
        engine=engine,
        environ=outside.environ(),
        stdin=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    out, found = [], {a.name: a for a in ALL}
    for line in process.stdout:
        name, said = json.loads(line)
        out.append(name)
        if escaped(outside, found[name], said):
            found[name] = found[name]._replace(sign="ESCAPED " + said[-300:])
        process.stdin.write("\n")
        process.stdin.flush()
    err = process.stderr.read() if process.stderr is not None else ""
    process.wait(30)
    assert out == [a.name for a in ALL], err
    wild = {a.name: a.sign for a in found.values() if a.sign.startswith("ESCAPED")}
    if lives("77123"):
        wild["outlive the run"] = "it runs"
    known = BY_LANDLOCK if engine.startswith("landlock") else {}
    assert {n: s for n, s in wild.items() if n not in known} == {}
    for name in wild:
        assert known[name] in err
    assert set(known) <= set(wild), "a gap that is closed leaves the table"


def test_the_catalogue_is_what_it_says() -> None:
    """There are at least sixty attempts, each with a name of its own."""
    assert len({a.name for a in ALL}) == len(ALL) >= 60
    assert set(BY_LANDLOCK) <= {a.name for a in ALL}


def test_what_cannot_be_tried_is_listed() -> None:
    """An attempt whose program is not installed is told with that reason, and is no success."""
    one = Attempt("x", "curl -s $A | no-such-program")
    assert lacking(one, {"curl", "no-such-program", "git"}, path="/nowhere") == [
        "curl",
        "no-such-program",
    ]
    assert lacking(one, {"git"}, path="/nowhere") == []
    assert lacking(Attempt("y", "1", "node"), set(), path="/nowhere") == ["node"]
