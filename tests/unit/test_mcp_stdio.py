"""LineWriter between a client and a server in a process."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import LaunchError
from broker.mcp.stdio import TOO_LONG, LineWriter, ServerProcess, lines, relay
from tests.hookkit import within
from tests.mcpkit import SERVER, Yes, call, gateway, said

ENVIRON = {**os.environ, "BROKER_SOCKET": "/s", "BROKER_TICKET": "t", "BROKER_SESSION": "x"}


class Talk:
    """A client of a relay that runs in a thread."""

    def __init__(self, session: Yes, program: str = SERVER, environ: Any = None) -> None:
        self.over = threading.Event()
        ours, client = os.pipe()
        self._in = os.fdopen(client, "wb")
        theirs, out = os.pipe()
        self.out = os.fdopen(theirs, "rb")
        self.code: int | None = None
        # Not closed here: a thread may wait in it until the client hangs up.
        self._given = os.fdopen(ours, "rb")
        server = ServerProcess([sys.executable, "-c", program], environ or ENVIRON)

        def work() -> None:
            told = LineWriter(os.fdopen(out, "wb"))
            self.code = relay(gateway(session), server, self._given, told, self.over)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def ask(self, raw: bytes) -> dict[str, Any]:
        """Send a line and return the next one."""
        self.send(raw)
        return self.hear()

    def send(self, raw: bytes) -> None:
        """Send a line."""
        self._in.write(raw + b"\n")
        self._in.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next line."""
        found = json.loads(self.out.readline())
        assert isinstance(found, dict)
        return found

    def hang_up(self) -> None:
        """Close our end, and wait for the relay to end."""
        self._in.close()
        self.thread.join(20)


@pytest.fixture
def talk() -> Iterator[Talk]:
    """A relay before a server of notes, under a session that allows one tool."""
    made = Talk(Yes("mcp__notes__look", "mcp__notes__die"))
    yield made
    made.over.set()
    made.thread.join(20)


def test_a_call_reaches_the_server_and_a_refused_one_does_not(talk: Talk) -> None:
    """The server's answer comes back for the one, ours for the other."""
    assert talk.ask(call(1, "look", path="a"))["result"]["content"][0]["text"].count("path") == 1
    assert talk.ask(call(2, "drop"))["result"]["isError"] is True
    assert talk.ask(said("ping", 3))["result"] == {"method": "ping"}


def test_what_is_no_message_is_answered_and_the_talk_goes_on(talk: Talk) -> None:
    """Broken bytes, an empty line and a batch cost an error at most."""
    for raw in (b"{", b"\xff\xfe", b"[]", b"null"):
        assert talk.ask(raw)["id"] is None
    talk.send(b"")
    assert talk.ask(said("ping", 1))["id"] == 1


def test_a_server_that_dies_leaves_an_error_and_its_exit_code(talk: Talk) -> None:
    """The call that killed it is answered, and so is what was asked besides."""
    told = talk.ask(call(1, "die"))
    assert told["id"] == 1
    assert "gone" in told["error"]["message"]
    talk.thread.join(20)
    assert talk.code == 7


def test_a_client_that_hangs_up_ends_the_server(talk: Talk) -> None:
    """The server sees its input end, and the relay ends well."""
    talk.ask(said("ping", 1))
    talk.hang_up()
    assert talk.code == 0


def test_a_server_that_does_not_go_is_made_to(tmp_path: Path) -> None:
    """One that ignores the end of its input and SIGTERM is killed, with what it has started."""
    mark = tmp_path / "pid"
    stubborn = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "helper = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(mark)!r}, 'w').write(str(helper.pid))\n"
        "time.sleep(60)\n"
    )
    talk = Talk(Yes(), stubborn)
    assert within(10, lambda: mark.exists() and mark.read_text() != "")
    began = time.monotonic()
    talk.hang_up()
    assert talk.code == 0
    assert time.monotonic() - began < 15
    assert within(5, lambda: not _runs(int(mark.read_text())))


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_the_server_gets_nothing_of_the_session() -> None:
    """Neither socket nor ticket stand in its environment."""
    program = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    names = 'BROKER_SOCKET BROKER_SESSION BROKER_TICKET'.split()\n"
        "    ours = sorted(k for k in os.environ if k in names)\n"
        "    said = {'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {'ours': ours}}\n"
        "    print(json.dumps(said), flush=True)\n"
    )
    talk = Talk(Yes(), program)
    assert talk.ask(said("ping", 1))["result"] == {"ours": []}
    talk.hang_up()


def test_a_server_that_cannot_be_started_is_an_error() -> None:
    """A missing program and a folder are told apart from a server that dies."""
    for program in ("no-such-program-here", "/"):
        with pytest.raises(LaunchError):
            ServerProcess([program], {"PATH": "/usr/bin"})


def test_noise_on_the_servers_output_does_not_reach_the_client() -> None:
    """A line that is no message is dropped, and what follows goes on."""
    noisy = "print('starting up', flush=True)\nprint('[1]', flush=True)\n" + SERVER
    talk = Talk(Yes(), noisy)
    assert talk.ask(said("ping", 1))["result"] == {"method": "ping"}
    talk.hang_up()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_line_has_a_largest_size(size: int) -> None:
    """A longer one is left out whole, whatever stands in it, and the next one is read."""
    raw = b"x" * size + b"\nab\n"
    found = list(lines(io.BytesIO(raw), limit=4))
    assert found == [b"x" * size if size <= 4 else TOO_LONG, b"ab"]


def test_a_long_line_without_an_end_is_left_out() -> None:
    """The end of the stream ends it."""
    assert list(lines(io.BytesIO(b"x" * 10), limit=4)) == [TOO_LONG]


def test_no_direction_waits_for_the_other() -> None:
    """A client that sends and does not read is heard on, though its refusals pile up."""
    talk = Talk(Yes("mcp__notes__look"))
    sent = 3_000
    for n in range(sent):
        talk.send(call(n, "drop"))  # more refusals than a pipe holds
    assert [talk.hear()["id"] for _ in range(sent)] == list(range(sent))
    talk.hang_up()
    assert talk.code == 0


def test_a_reader_that_is_gone_is_noticed() -> None:
    """Writing to a closed pipe ends in a no, and nothing waits."""
    theirs, ours = os.pipe()
    os.close(theirs)
    writer = LineWriter(os.fdopen(ours, "wb"))
    assert within(5, lambda: not writer.send(b"x"))
    writer.close()


def test_a_slow_reader_slows_the_writer() -> None:
    """What is unread has a limit, but for refusals; closing gives up after a while."""
    theirs, ours = os.pipe()
    writer = LineWriter(os.fdopen(ours, "wb"), limit=10)
    big = b"x" * 2**20
    assert writer.send(big)
    blocked = threading.Thread(target=writer.send, args=(big,), daemon=True)
    blocked.start()
    blocked.join(0.3)
    assert blocked.is_alive()
    assert writer.send(b"refused", patient=False)
    with os.fdopen(theirs, "rb") as reader:
        assert [len(reader.readline()) for _ in range(3)] == [2**20 + 1, 8, 2**20 + 1]
    blocked.join(5)
    assert not blocked.is_alive()
    writer.close()
