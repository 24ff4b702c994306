"""
What recording costs: when the first byte comes, how much passes, and what it takes on the disk.

`python bench/recording.py` measures, in one run and each beside the same thing unrecorded: the
delay of the first byte of an answer (target 2 ms), a large answer through the proxy (target
200 MB/s), and the bytes of a trace of a hundred turns against what was new in them (target 1.2).
A turn is a small one of a real agent's: an answer of a hundred words, a result of 3 kB.

Model and agent are processes of their own, and the proxy has the broker's. Load on the machine
slows all rows down, so each is measured several times, in turns, and its median stands there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from broker.agents.adapter import Launch, Plain, Prepared
from broker.capture.recording import Recording
from broker.events import Bus

ROUNDS = 7
ASKS = 200
LARGE = 256 * 2**20
TURNS = 100

_MODEL = """
import itertools, socket, sys, threading
LARGE = int(sys.argv[1])
EVENT = b'data: {"choices":[{"delta":{"content":"word %d "}}]}\\n\\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\\n\\n'
asked = itertools.count(1000)
def serve(near):
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    while True:
        while b"\\r\\n\\r\\n" not in data:
            more = near.recv(65536)
            if not more:
                return
            data += more
        head, _, data = data.partition(b"\\r\\n\\r\\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0])
        while len(data) < length:
            data += near.recv(65536)
        large, data = b'"large"' in data[:length], data[length:]
        if large:
            near.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % LARGE)
            part = b"x" * 65536
            for _ in range(LARGE // len(part)):
                near.sendall(part)
        else:
            body = EVENT % next(asked) * 100 + END
            kind = b"Content-Type: text/event-stream\\r\\n"
            head = b"HTTP/1.1 200 OK\\r\\n%sContent-Length: %d\\r\\n\\r\\n" % (kind, len(body))
            near.sendall(head + body)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

_AGENT = """
import http.client, json, statistics, sys, time
from urllib.parse import urlsplit
url, what, asks, size = urlsplit(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
link = http.client.HTTPConnection(url.hostname, url.port)
path = url.path + "/chat/completions"
about = {"description": "d" * 300}
tools = [{"type": "function", "function": {"name": f"t{n}", **about}} for n in range(20)]
def ask(messages):
    body = json.dumps({"model": "m", "messages": messages, "tools": tools, "stream": True})
    began = time.perf_counter()
    link.request("POST", path, body=body, headers={"Content-Type": "application/json"})
    answer = link.getresponse()
    answer.read(1)
    first = time.perf_counter() - began
    buffer = bytearray(262144)
    came = 1
    while got := answer.readinto(buffer):
        came += got
    return first, time.perf_counter() - began, len(body) + came
if what == "large":
    print(ask([{"role": "user", "content": "large"}])[1])
elif what == "first":
    long = [{"role": "user", "content": "go " * 2000}]
    print(statistics.median(ask(long)[0] for _ in range(asks)))
else:
    messages = [{"role": "system", "content": "s" * 8000}, {"role": "user", "content": "go"}]
    new = last = 0
    for turn in range(asks):
        whole = ask(messages)[2]
        # What is in a request and was in none before it, and all of the answer.
        new, last = new + whole - last, len(json.dumps({"messages": messages, "tools": tools}))
        messages += [{"role": "assistant", "content": f"{turn} " + "said " * 100},
                     {"role": "user", "content": f"{turn} " + "told " * 600}]
    print(new)
"""


def agent(url: str, what: str, asks: int = ASKS) -> float:
    """Run an agent against an address, and return what it measured."""
    words = [sys.executable, "-c", _AGENT, url, what, str(asks), str(LARGE)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def recorded(root: Path, upstream: str) -> tuple[Recording, str]:
    """Begin to record, and return the recording with the address that an agent has for it."""
    launch = Launch(("agent",), {"OPENAI_BASE_URL": upstream}, root, root, root / "s")
    made = Recording.begin(root / "runs", launch, Plain(), print)
    assert made is not None
    prepared = made.through(Plain(), launch, Prepared(("agent",)))
    made.start(Bus())
    return made, prepared.environ["OPENAI_BASE_URL"]


def on_disk(folder: Path) -> int:
    """Return how many bytes the files below a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Measure everything, and print it."""
    model = subprocess.Popen(
        [sys.executable, "-c", _MODEL, str(LARGE)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert model.stdout is not None
        upstream = f"http://127.0.0.1:{int(model.stdout.readline())}/v1"
        with tempfile.TemporaryDirectory(prefix="broker-bench-") as made:
            measure(Path(made), upstream)
    finally:
        model.kill()
        model.wait()


def measure(root: Path, upstream: str) -> None:
    """Measure in turns, recorded and not."""
    recording, ours = recorded(root, upstream)
    rows: dict[tuple[str, bool], list[float]] = {}
    for _ in range(ROUNDS):
        for what in ("first", "large"):
            for through in (False, True):
                took = agent(ours if through else upstream, what)
                rows.setdefault((what, through), []).append(took)
    recording.end(quiet=True)
    found = {key: statistics.median(values) for key, values in rows.items()}
    print(f"{'':34}{'unrecorded':>12}{'recorded':>12}")
    first = [found["first", through] * 1e3 for through in (False, True)]
    late = f"{first[1] - first[0]:+12.2f}"
    print(f"{'first byte, ms (median)':34}{first[0]:12.2f}{first[1]:12.2f}{late}")
    rate = [LARGE / 1e6 / found["large", through] for through in (False, True)]
    print(f"{f'{LARGE // 2**20} MiB in one answer, MB/s':34}{rate[0]:12.0f}{rate[1]:12.0f}")
    recording, ours = recorded(root / "long", upstream)
    began_s = time.process_time()
    new = agent(ours, "long", TURNS)
    recording.end(quiet=True)
    spent_s = time.process_time() - began_s
    kept = on_disk(recording.folder)
    print(f"{f'{TURNS} turns, bytes that were new':34}{int(new):12}")
    print(f"{'the whole trace of them':34}{'':12}{kept:12}{kept / new:12.2f}")
    print(f"{'the broker for each turn, CPU ms':34}{'':12}{spent_s / TURNS * 1e3:12.1f}")


if __name__ == "__main__":
    main()
