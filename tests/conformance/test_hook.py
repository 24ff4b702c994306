"""
The contract of a hook: whatever breaks, the agent reads one refusal.

The client runs as a process of its own, against sessions that are dead, slow or confused, and a
real session gets every payload that is known and many that are not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.agents.claude.hook import NAME, ClaudeDialect
from broker.agents.client import compiled_client, hook_command
from broker.agents.hooks import AgentHook
from broker.limits import MAX_REQUEST_BYTES
from broker.service.protocol import ALLOW, HookRefusal, frame
from broker.service.server import Server
from broker.session import Session
from tests.hookkit import CLIENT, PAYLOAD, Stand, denied, run_hook, said_nothing, within
from tests.sessionkit import Bench

HOOK = (sys.executable, "-I", "-S", CLIENT)
WHOLE = frame(ALLOW)
ALLOWED = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Read",
    "tool_input": {"file_path": "src/a.py"},
    "tool_use_id": "t1",
}

# ── sessions that do not answer ──


def test_no_broker_is_a_refusal(tmp_path: Path) -> None:
    """A socket that was removed, or that nobody serves any more, refuses at once."""
    assert "could not be asked" in denied(run_hook(tmp_path / "s"))
    with Stand(tmp_path / "s", lambda _: WHOLE):
        assert said_nothing(run_hook(tmp_path / "s"))
    assert (tmp_path / "s").exists()
    assert "could not be asked" in denied(run_hook(tmp_path / "s"))


def test_a_hung_broker_is_a_refusal_in_time(tmp_path: Path) -> None:
    """A broker that takes the question and says nothing is waited for as long as was said."""
    with Stand(tmp_path / "s", lambda _: None):
        began = time.monotonic()
        reason = denied(run_hook(tmp_path / "s", deadline_ms=300))
    assert "in time" in reason
    assert 0.25 < time.monotonic() - began < 5


def test_a_slow_broker_has_one_deadline_for_all(tmp_path: Path) -> None:
    """An answer that trickles in does not win more time with every byte."""

    def trickle(_: bytes) -> bytes:
        time.sleep(0.8)
        return WHOLE

    with Stand(tmp_path / "s", trickle):
        assert "in time" in denied(run_hook(tmp_path / "s", deadline_ms=300))


def test_a_payload_that_never_ends_is_a_refusal_in_time(tmp_path: Path) -> None:
    """The deadline covers reading the payload too."""
    ours, theirs = os.pipe()
    try:
        done = subprocess.run(
            [*HOOK, str(tmp_path / "s"), NAME, "300"],
            stdin=ours,
            capture_output=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert "in time" in denied(done)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0",
        bytes(4),
        bytes(64),
        WHOLE[:-1],
        WHOLE[:6],
        frame(ALLOW[:-1]),
        frame(ALLOW + b"x"),
        frame(b'{"ok":true,"decision":"allow"}'),
        frame(b""),
        frame(HookRefusal(0, b"", b"").encode()),
        frame(HookRefusal(1, b"x", b"y").encode()),
        frame(HookRefusal(0, b"out", b"").encode())[:-1],
        (2**32 - 1).to_bytes(4, "big") + ALLOW,
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        os.urandom(200),
    ],
)
def test_a_malformed_answer_is_a_refusal(tmp_path: Path, answer: bytes) -> None:
    """Nothing but the whole of an allow lets a call go on."""
    with Stand(tmp_path / "s", lambda _: answer):
        denied(run_hook(tmp_path / "s"))


def test_an_answer_after_the_whole_is_not_read(tmp_path: Path) -> None:
    """Two answers at once print one."""
    refusal = frame(HookRefusal(0, b'{"one":1}\n', b"").encode())
    with Stand(tmp_path / "s", lambda _: refusal + WHOLE):
        assert run_hook(tmp_path / "s").stdout == b'{"one":1}\n'


def test_a_huge_payload_is_a_refusal(tmp_path: Path) -> None:
    """A payload beyond the limit is refused without asking; one at the limit is asked about."""
    line = len(f"hook {NAME}\n")
    with Stand(tmp_path / "s", lambda _: WHOLE) as stand:
        assert said_nothing(run_hook(tmp_path / "s", b" " * (MAX_REQUEST_BYTES - line)))
        assert "larger" in denied(run_hook(tmp_path / "s", b" " * (MAX_REQUEST_BYTES - line + 1)))
        assert "larger" in denied(run_hook(tmp_path / "s", b" " * (MAX_REQUEST_BYTES + 1)))
    assert len(stand.asked) == 1


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&-"])
def test_a_refusal_that_nobody_can_read_is_an_exit_code(tmp_path: Path, closed: str) -> None:
    """With its standard output closed the client exits with 2, and says so where it can."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *HOOK, str(tmp_path / "s"), NAME, "300"],
        input=PAYLOAD,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"refused: ") != ("2>&-" in closed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_hook_that_is_told_to_stop_refuses(tmp_path: Path, number: int) -> None:
    """An agent that loses patience and ends its hook still reads a refusal."""
    with Stand(tmp_path / "s", lambda request: None) as stand:
        client = subprocess.Popen(
            [*HOOK, str(tmp_path / "s"), NAME, "20000"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert client.stdin is not None
        client.stdin.write(PAYLOAD)
        client.stdin.close()
        client.stdin = None
        assert within(10, lambda: bool(stand.asked))
        client.send_signal(number)
        out, err = client.communicate(timeout=10)
    done = subprocess.CompletedProcess(client.args, client.returncode, out, err)
    assert "told to stop" in denied(done)


def test_an_agent_without_a_known_shape_gets_an_exit_code(tmp_path: Path) -> None:
    """An agent that is not known to read the object gets exit code 2 and a text."""
    done = run_hook(tmp_path / "s", agent="other")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"refused: ")


# ── the command that the agent's settings hold ──


def shell(command: str, payload: bytes = PAYLOAD) -> subprocess.CompletedProcess[bytes]:
    """Run a hook's command as an agent does."""
    return subprocess.run(
        ["/bin/sh", "-c", command], input=payload, capture_output=True, timeout=60, check=False
    )


def test_the_command_works_from_any_folder(tmp_path: Path) -> None:
    """Spaces, quotes and dollars in the folder's name do not break the command apart."""
    folder = tmp_path / "it's $HOME `x`"
    folder.mkdir()
    command = hook_command(compiled_client(folder / "hook.pyc"), folder / "s", NAME)
    with Stand(folder / "s", lambda _: WHOLE):
        assert said_nothing(shell(command))
    denied(shell(command))


@pytest.mark.parametrize("missing", ["client", "interpreter"])
def test_a_command_that_cannot_run_refuses(tmp_path: Path, missing: str) -> None:
    """Without its client, or its interpreter, the command ends in 2 and says why."""
    words = list(compiled_client(tmp_path / "hook.pyc"))
    if missing == "client":
        (tmp_path / "hook.pyc").unlink()
    else:
        words[0] = str(tmp_path / "no-python")
    with Stand(tmp_path / "s", lambda _: WHOLE):
        done = shell(hook_command(words, tmp_path / "s", NAME))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"refused" in done.stderr


def test_a_killed_client_refuses(tmp_path: Path) -> None:
    """A client that is killed in the middle ends in 2, not in silence."""
    command = hook_command(
        ("/bin/sh", "-c", "kill -9 $$", *compiled_client(tmp_path / "hook.pyc")),
        tmp_path / "s",
        NAME,
    )
    done = shell(command)
    assert (done.returncode, done.stdout) == (2, b"")


# ── a real session ──


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session that allows reading below src."""
    held = Bench(tmp_path).open(["tools=Read", "paths=src/**"])
    yield held
    held.seal()


def answer(session: Session, payload: bytes) -> HookRefusal | None:
    """Ask as the server does."""
    from broker.errors import BrokerError

    hook = AgentHook(ClaudeDialect())
    try:
        return hook.answer(payload, session)
    except BrokerError as error:
        return hook.refusal(str(error))


def test_a_session_answers_its_hook(tmp_path: Path, session: Session) -> None:
    """Through the socket, an allowed call says nothing and a refused one names the caveat."""
    server = Server(session, tmp_path / "s", {NAME: AgentHook(ClaudeDialect())})
    server.bind()
    server.start()
    try:
        inside = {**ALLOWED, "cwd": str(session.workspace)}
        assert said_nothing(run_hook(tmp_path / "s", json.dumps(inside).encode()))
        outside = {**inside, "tool_input": {"file_path": "/etc/passwd"}}
        assert "`paths`" in denied(run_hook(tmp_path / "s", json.dumps(outside).encode()))
        assert "not JSON" in denied(run_hook(tmp_path / "s", b"not json"))
        assert "no such agent" in run_hook(tmp_path / "s", agent="x").stderr.decode()
    finally:
        server.stop()
    assert (session.allowed, session.refused) == (1, 1)


def captured(shared: Path) -> list[Path]:
    """Return the payloads that were seen in front of tool calls."""
    folder = shared / "agents/captures/claude"
    return sorted(
        p for p in folder.rglob("*.json") if p.name.startswith(("PreToolUse", "PreSkill"))
    )


def test_every_captured_payload_gets_a_decision(shared: Path, session: Session) -> None:
    """Each payload of the real agent is read, decided and recorded under its own call id."""
    payloads = captured(shared)
    assert len(payloads) > 20
    before = session.allowed + session.refused
    for path in payloads:
        found = json.loads(path.read_text(encoding="utf-8"))
        refusal = answer(session, path.read_bytes())
        assert session.allowed + session.refused == before + 1, path.name
        before += 1
        assert refusal is not None, path.name  # the workspace of the captures lies elsewhere
        if found["tool_name"] != "Read" and found["hook_event_name"] == "PreToolUse":
            assert b"`tools`" in refusal.stdout


NEEDED = ["hook_event_name", "tool_name", "tool_input", "tool_use_id", "cwd"]
WORDS = st.text(max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("field", NEEDED)
@pytest.mark.parametrize("value", ["gone", None, "", 0, [], {}, True])
def test_a_payload_without_what_is_needed_is_refused(
    session: Session, field: str, value: object
) -> None:
    """Each needed field, absent or of another type, refuses a call that would pass with it."""
    payload: dict[str, Any] = {**ALLOWED, "cwd": str(session.workspace)}
    assert answer(session, json.dumps(payload).encode()) is None
    payload[field] = value
    if value == "gone":
        del payload[field]
    assert answer(session, json.dumps(payload).encode()) is not None


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_fields_that_are_not_known_change_nothing(more: dict[str, Any]) -> None:
    """What a later version adds to a payload is passed over."""
    with Temporary() as session:
        known = {**ALLOWED, "cwd": str(session.workspace)}
        payload = {**{f"x{k}": v for k, v in more.items()}, **known}
        assert answer(session, json.dumps(payload).encode()) is None


@settings(max_examples=120)
@given(st.data())
def test_a_payload_that_was_broken_is_never_allowed(data: st.DataObject) -> None:
    """Cut, changed, doubled or made up, a payload allows nothing outside the scope."""
    with Temporary() as session:
        whole = json.dumps(
            {**ALLOWED, "tool_input": {"file_path": "/etc/passwd"}, "cwd": str(session.workspace)}
        ).encode()
        at = data.draw(st.integers(0, len(whole)))
        noise = data.draw(st.binary(max_size=6))
        kind = data.draw(st.sampled_from(["cut", "insert", "replace", "noise", "values"]))
        if kind == "values":
            keys = st.sampled_from([*NEEDED, "agent_id", "agent_type", "mcp_server"])
            made = data.draw(st.dictionaries(keys, JSON, max_size=8))
            broken = json.dumps(made).encode()
        else:
            broken = {
                "cut": whole[:at],
                "insert": whole[:at] + noise + whole[at:],
                "replace": whole[:at] + noise + whole[at + len(noise) :],
                "noise": noise,
            }[kind]
        refusal = answer(session, broken)
        started = b"SessionStart" in broken
        assert refusal is not None or started, broken
        if refusal is not None:
            assert (refusal.exit == 0 and refusal.stdout) or (refusal.exit == 2 and refusal.stderr)


class Temporary:
    """One session for all examples of a test."""

    held: Session | None = None

    def __enter__(self) -> Session:
        if Temporary.held is None:
            import tempfile

            bench = Bench(Path(tempfile.mkdtemp()))
            Temporary.held = bench.open(["tools=Read", "paths=src/**"])
        return Temporary.held

    def __exit__(self, *_: object) -> None:
        """Keep it for the next example."""
