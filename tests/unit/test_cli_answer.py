"""`broker answer`: a person at a terminal, and nobody else."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.cli.answer import _descends
from broker.home import Home
from broker.mailbox import Mailbox, Posted
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE
from tests.console import COMMAND, Console
from tests.sessionkit import Bench

BROKER = f"'{sys.executable}' -c 'from broker.cli.main import main; main()'"
# An agent that is refused, tries to answer for the person in three ways, and asks again.
AGENT = f"""
b() {{ {BROKER} "$@"; }}
b check pay to=B amount:=5 >first.txt 2>&1
b answer >inside.txt 2>&1 </dev/null
unset {SESSION_VARIABLE} {SOCKET_VARIABLE}
'{sys.executable}' -c '
import pty, sys
pty.spawn([sys.executable, "-c", "from broker.cli.main import main; main()", "answer"])
' >spawned.txt 2>&1 </dev/null
export {SESSION_VARIABLE}=$SID {SOCKET_VARIABLE}=$SOCKET
echo ready >ready.txt
while ! [ -e answered.txt ]; do sleep 0.05; done
b check pay to=B amount:=5 >second.txt 2>&1
"""


@pytest.fixture
def waiting(tmp_path: Path, broker_home: Path) -> tuple[Mailbox, str]:
    """A session with one question that nobody takes the answer of."""
    kept = Bench(tmp_path / "b", Home.find({"BROKER_HOME": str(broker_home)}))
    session = kept.open()
    mailbox = Mailbox(session.folder, session.sid, kept.key())
    mailbox.post(Posted(1, "123456", 2**22 + 7, ("question 1: may \u202e it?", "    to = 1")))
    return mailbox, session.sid


def test_questions_are_listed_without_a_terminal(
    broker: Console, waiting: tuple[Mailbox, str]
) -> None:
    """As text, escaped, and as JSON; the code is in neither."""
    said = broker("answer", "--list")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == ["question 1: may \\u202e it?", "    to = 1"]
    (document,) = broker("answer", waiting[1][:8], "--json").json()
    assert document["number"] == 1
    assert "123456" not in json.dumps(document)


def test_nothing_is_asked(broker: Console, tmp_path: Path, broker_home: Path) -> None:
    """Said so, and no error; a session that is not there is one."""
    Bench(tmp_path / "b", Home.find({"BROKER_HOME": str(broker_home)})).open()
    assert broker("answer").out == "nothing is asked\n"
    assert broker("answer", "zzz").code == 2


def test_without_a_terminal_nothing_is_answered(waiting: tuple[Mailbox, str]) -> None:
    """A pipe is no person, whatever comes out of it."""
    done = subprocess.run(
        [*COMMAND, "answer"],
        input=b"yes 123456\n",
        capture_output=True,
        start_new_session=True,  # so that there is no terminal behind the streams either
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"an answer is typed at a terminal" in done.stderr
    assert list(waiting[0].answers()) == []


def test_inside_a_run_nothing_is_answered(
    broker: Console, waiting: tuple[Mailbox, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where the variables say so, nor where the run's own broker started it."""
    monkeypatch.setenv(SESSION_VARIABLE, waiting[1])
    said = broker("answer")
    assert said.code == 2
    assert "does not answer its own questions" in said.err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ancestors_are_found() -> None:
    """A parent's parent is found; a process that started none of it is not."""
    code = (
        "import sys; from broker.cli.answer import _descends; print(_descends({int(sys.argv[1])}))"
    )
    inner = [sys.executable, "-c", code, str(os.getpid())]
    outer = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *inner]
    assert subprocess.check_output(outer, text=True).strip() == "True"
    assert not _descends({2**22 + 7})


def _typed(command: list[str], env: dict[str, str], reply: str) -> str:
    """Run a command at a terminal of its own, type a reply once it asks, return what is seen."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(command[0], command, env)
    seen, replied, until = "", False, time.monotonic() + 30
    while time.monotonic() < until:
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(fd, 65_536)
        except OSError:
            break
        if not part:
            break
        seen += part.decode(errors="replace")
        found = re.search(r"type `yes (\d{6})`", seen)
        if found and not replied:
            os.write(fd, reply.replace("CODE", found[1]).encode())
            replied = True
    os.close(fd)
    os.waitpid(pid, 0)
    return seen


def test_a_person_answers_and_the_agent_cannot(tmp_path: Path) -> None:
    """The agent's own tries change nothing; the person's line lets the call through, recorded."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "agent.sh").write_text(AGENT)
    env = {**os.environ, "BROKER_HOME": str(tmp_path / "home")}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    scope = 'tools=pay(to="A", amount<=10)'
    start = f"export SID=${SESSION_VARIABLE} SOCKET=${SOCKET_VARIABLE}; exec sh agent.sh"
    run = subprocess.Popen(
        [*COMMAND, "run", "--ask", "--scope", scope, "--", "sh", "-c", start],
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    until = time.monotonic() + 90
    while not (work / "ready.txt").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert "the person is being asked" in (work / "first.txt").read_text()
    for tried in ("inside.txt", "spawned.txt"):
        assert "does not answer its own questions" in (work / tried).read_text()
    seen = _typed([*COMMAND, "answer"], env, "yes CODE the plumber\n")
    assert "answered: question 1" in seen
    (work / "answered.txt").write_text("")
    output = run.communicate(timeout=60)[0].decode()
    assert run.returncode == 0, output
    assert (work / "second.txt").read_text().startswith("allowed")
    told = subprocess.check_output([*COMMAND, "receipt"], env=env, text=True)
    assert "the plumber" in told
    assert "for one call beside" in told
    assert "SEALED" in told
